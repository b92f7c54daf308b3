//! The audit policy: which requests are recorded, how much of them, and at which stages.

use pintle_auth::UserInfo;
use pintle_meta::errno::go_error_text;
use pintle_meta::go_type::{GoStruct, GoType, head_type_error, unregistered_kind};
use pintle_value::{Value, json, yaml};
use std::path::Path;

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum Level {
    None,
    Metadata,
    Request,
    RequestResponse,
}

impl Level {
    const ALL: [Level; 4] = [Level::None, Level::Metadata, Level::Request, Level::RequestResponse];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }
}

/// The stage of a request at which an event is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl Stage {
    const ALL: [Stage; 4] =
        [Stage::RequestReceived, Stage::ResponseStarted, Stage::ResponseComplete, Stage::Panic];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }
}

/// Why a policy cannot be used, with kube-apiserver's message.
#[derive(Debug, thiserror::Error)]
#[error("loading audit policy file: {0}")]
pub struct PolicyError(String);

/// How a policy records one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How much is recorded.
    pub level: Level,
    omitted: Vec<Stage>,
    /// Whether `managedFields` are omitted from objects.
    pub omit_managed_fields: bool,
}

impl Rules {
    /// Whether an event is created at this stage.
    pub fn records(&self, stage: Stage) -> bool {
        self.level > Level::None && !self.omitted.contains(&stage)
    }
}

/// The attributes of a request that a policy checks.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the names are those of requests")]
pub struct RequestAttributes<'a> {
    pub user: Option<&'a UserInfo>,
    pub verb: &'a str,
    pub resource_request: bool,
    pub path: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// A policy.
#[derive(Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    fallback: Rules,
}

#[derive(Debug)]
struct Rule {
    then: Rules,
    users: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    namespaces: Vec<String>,
    resources: Vec<GroupResources>,
    urls: Vec<String>,
}

#[derive(Debug)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    names: Vec<String>,
}

/// The Go types of the file, for errors about values of the wrong type.
const POLICY: GoStruct = GoStruct(
    "Policy",
    &[
        (
            "rules",
            GoType::Structs(&GoStruct(
                "PolicyRule",
                &[
                    ("level", GoType::Text("v1.Level")),
                    ("users", GoType::Texts("string")),
                    ("userGroups", GoType::Texts("string")),
                    ("verbs", GoType::Texts("string")),
                    (
                        "resources",
                        GoType::Structs(&GoStruct(
                            "GroupResources",
                            &[
                                ("group", GoType::Text("string")),
                                ("resources", GoType::Texts("string")),
                                ("resourceNames", GoType::Texts("string")),
                            ],
                        )),
                    ),
                    ("namespaces", GoType::Texts("string")),
                    ("nonResourceURLs", GoType::Texts("string")),
                    ("omitStages", GoType::Texts("v1.Stage")),
                    ("omitManagedFields", GoType::Bool),
                ],
            )),
        ),
        ("omitStages", GoType::Texts("v1.Stage")),
        ("omitManagedFields", GoType::Bool),
    ],
);

/// Refuses other versions and kinds. A file without a kind is taken for a policy, and a file without a version for
/// one of the internal version, which is refused.
fn check_version(version: &str, kind: &str) -> Result<(), String> {
    const SCHEME: &str = "k8s.io/apiserver/pkg/audit/scheme.go:30";
    match (version, kind) {
        ("audit.k8s.io/v1", "" | "Policy") => Ok(()),
        ("audit.k8s.io/v1", "Event" | "EventList" | "PolicyList") => {
            Err(format!("failed decoding: converting (v1.{kind}) to (audit.Policy): unknown conversion"))
        }
        ("", "" | "Policy") => {
            Err("unknown group version field audit.k8s.io/__internal, Kind=Policy in policy".to_string())
        }
        ("", _) => Err(format!(
            "failed decoding: no kind {kind:?} is registered for the internal version of group \"audit.k8s.io\" in scheme {SCHEME:?}"
        )),
        _ => {
            let kind = if kind.is_empty() { "Policy" } else { kind };
            Err(format!("failed decoding: {}", unregistered_kind(kind, version, SCHEME)))
        }
    }
}

impl Policy {
    /// Reads a policy file.
    pub fn load(path: &Path) -> Result<Self, PolicyError> {
        let path_text = path.display();
        let bytes = std::fs::read(path).map_err(|e| {
            let why = go_error_text(&e);
            PolicyError(format!("failed to read file path {path_text:?}: open {path_text}: {why}"))
        })?;
        Policy::parse(&bytes).map_err(|why| PolicyError(format!("{why}: from file {path_text}")))
    }

    /// Reads a policy.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        // As in kube-apiserver, a file that begins with a brace is JSON.
        let is_json = bytes.trim_ascii_start().starts_with(b"{");
        let tree = if is_json {
            json::parse(bytes).map(|parsed| parsed.value).map_err(|e| e.message().to_string())
        } else {
            yaml::parse(bytes).map(|parsed| parsed.value).map_err(|e| e.message().to_string())
        };
        let tree = tree
            .map_err(|why| format!("failed decoding: couldn't get version/kind; json parse error: {why}"))?;
        if let Some(error) = head_type_error(&tree) {
            return Err(format!("failed decoding: {error}"));
        }
        check_version(tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]))?;
        if let Some(error) = POLICY.type_error(&tree, "v1") {
            return Err(format!("failed decoding: {error}"));
        }
        let mut errors = Vec::new();
        let omitted = parse_stages(&tree, "omitStages", &mut errors);
        let omit_managed = tree.get("omitManagedFields").and_then(Value::as_bool);
        let rules = tree.items_at(&["rules"]).iter().enumerate();
        let rules =
            rules.map(|(at, rule)| Rule::read(rule, at, &omitted, omit_managed, &mut errors)).collect();
        match errors.len() {
            0 if tree.items_at(&["rules"]).is_empty() => {
                Err("loaded illegal policy with 0 rules".to_string())
            }
            0 => Ok(Policy {
                rules,
                fallback: Rules {
                    level: Level::None,
                    omitted,
                    omit_managed_fields: omit_managed.unwrap_or(false),
                },
            }),
            1 => Err(errors.concat()),
            _ => Err(format!("[{}]", errors.join(", "))),
        }
    }

    /// The settings of the first rule that matches.
    pub fn evaluate(&self, request: &RequestAttributes<'_>) -> &Rules {
        self.rules.iter().find(|rule| rule.matches(request)).map_or(&self.fallback, |rule| &rule.then)
    }
}

impl Rule {
    fn read(
        rule: &Value,
        at: usize,
        omitted: &[Stage],
        omit_managed: Option<bool>,
        errors: &mut Vec<String>,
    ) -> Self {
        let path = format!("rules[{at}]");
        let level = read_level(rule.str_at(&["level"]), &path, errors);
        let urls = texts(rule, "nonResourceURLs");
        check_urls(&urls, &path, errors);
        let resources: Vec<GroupResources> =
            rule.items_at(&["resources"]).iter().map(|r| GroupResources::read(r, &path, errors)).collect();
        let mut all = omitted.to_vec();
        all.extend(parse_stages(rule, &format!("{path}.omitStages"), errors));
        let is_about_objects = !resources.is_empty() || !rule.items_at(&["namespaces"]).is_empty();
        if is_about_objects && !urls.is_empty() {
            let list = list_text(&urls);
            errors.push(format!("{path}.nonResourceURLs: Invalid value: {list}: rules cannot apply to both regular resources and non-resource URLs"));
        }
        let own = rule.get("omitManagedFields").and_then(Value::as_bool);
        Rule {
            then: Rules { level, omitted: all, omit_managed_fields: own.or(omit_managed).unwrap_or(false) },
            users: texts(rule, "users"),
            groups: texts(rule, "userGroups"),
            verbs: texts(rule, "verbs"),
            namespaces: texts(rule, "namespaces"),
            resources,
            urls,
        }
    }

    fn matches(&self, request: &RequestAttributes<'_>) -> bool {
        let has = |all: &[String], one: &str| all.iter().any(|text| text == one);
        if !self.users.is_empty() && !request.user.is_some_and(|user| has(&self.users, &user.name)) {
            return false;
        }
        let in_group = |user: &UserInfo| self.groups.iter().any(|group| user.in_group(group));
        if !self.groups.is_empty() && !request.user.is_some_and(in_group) {
            return false;
        }
        if !self.verbs.is_empty() && !has(&self.verbs, request.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            let in_namespace = self.namespaces.is_empty() || has(&self.namespaces, request.namespace);
            let of_resource = || self.resources.iter().any(|resources| resources.matches(request));
            return request.resource_request && in_namespace && (self.resources.is_empty() || of_resource());
        }
        if !self.urls.is_empty() {
            return !request.resource_request && self.urls.iter().any(|url| url_matches(request.path, url));
        }
        true
    }
}

impl GroupResources {
    fn read(value: &Value, path: &str, errors: &mut Vec<String>) -> Self {
        let read = GroupResources {
            group: value.str_at(&["group"]).to_string(),
            resources: texts(value, "resources"),
            names: texts(value, "resourceNames"),
        };
        if !matches!(read.group.as_str(), "" | "*") {
            let faults = pintle_meta::names::dns_subdomain(&read.group, false);
            if !faults.is_empty() {
                let why = faults.join(",");
                errors.push(format!("{path}.resources.group: Invalid value: {:?}: {why}", read.group));
            }
        }
        if read.resources.is_empty() && !read.names.is_empty() {
            errors.push(format!(
                "{path}.resources.resourceNames: Invalid value: {}: using resourceNames requires at least one resource",
                list_text(&read.names)
            ));
        }
        read
    }

    fn matches(&self, request: &RequestAttributes<'_>) -> bool {
        if self.group != request.group && self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.names.is_empty() && !self.names.iter().any(|name| name == request.name) {
            return false;
        }
        self.resources.iter().any(|wanted| match wanted.split_once('/') {
            _ if wanted == "*" => true,
            None => request.subresource.is_empty() && wanted == request.resource,
            Some(("*", sub)) => !request.subresource.is_empty() && sub == request.subresource,
            Some((resource, "*")) => resource == request.resource,
            Some((resource, sub)) => resource == request.resource && sub == request.subresource,
        })
    }
}

fn url_matches(path: &str, wanted: &str) -> bool {
    wanted == "*" || wanted == path || wanted.ends_with('*') && path.starts_with(wanted.trim_end_matches('*'))
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    // Go reads null as an empty string.
    value.items_at(&[key]).iter().map(|item| item.as_str().unwrap_or_default().to_string()).collect()
}

fn list_text(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| format!("{item:?}")).collect::<Vec<_>>().join(","))
}

fn read_level(given: &str, path: &str, errors: &mut Vec<String>) -> Level {
    if let Some(level) = Level::ALL.into_iter().find(|level| level.name() == given) {
        return level;
    }
    errors.push(match given {
        "" => format!("{path}.level: Required value"),
        _ => format!(
            "{path}.level: Unsupported value: {given:?}: supported values: \"None\", \"Metadata\", \"Request\", \"RequestResponse\""
        ),
    });
    Level::None
}

fn check_urls(urls: &[String], path: &str, errors: &mut Vec<String>) {
    for (at, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
        if !url.starts_with('/') {
            errors.push(format!("{path}.nonResourceURLs[{at}]: Invalid value: {url:?}: non-resource URL rules must begin with a '/' character"));
        }
        if url.strip_suffix('*').unwrap_or(url).contains('*') {
            errors.push(format!("{path}.nonResourceURLs[{at}]: Invalid value: {url:?}: non-resource URL wildcards '*' must be the final character of the rule"));
        }
    }
}

fn parse_stages(value: &Value, path: &str, errors: &mut Vec<String>) -> Vec<Stage> {
    let mut found = Vec::new();
    for (at, text) in texts(value, "omitStages").iter().enumerate() {
        match Stage::ALL.into_iter().find(|stage| stage.name() == text) {
            Some(stage) => found.push(stage),
            None => errors.push(format!("{path}[{at}]: Invalid value: {text:?}: allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic")),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: [admin], verbs: [get], resources: [{group: "", resources: [configmaps]}]}
- {level: Metadata, namespaces: [""], resources: [{group: ""}]}
- {level: Request, resources: [{group: "*", resources: ["*/status"]}]}
- {level: Metadata, resources: [{group: "", resources: ["pods/*"]}]}
- {level: RequestResponse, resources: [{group: apps, resources: [deployments], resourceNames: [web]}]}
- {level: Metadata, nonResourceURLs: ["/version", "/healthz*"], omitStages: [Panic]}
"#;

    fn level(user: &str, verb: &str, path: &str) -> &'static str {
        let policy = Policy::parse(POLICY.as_bytes()).unwrap();
        let user = UserInfo::new(user, &[]);
        let parts: Vec<&str> = path.split(' ').collect();
        let part = |at: usize| parts.get(at).copied().unwrap_or("");
        let request = RequestAttributes {
            user: Some(&user),
            verb,
            resource_request: !path.starts_with('/'),
            path,
            group: part(0).trim_start_matches("core"),
            namespace: part(1).trim_start_matches('-'),
            resource: part(2),
            name: part(3).trim_start_matches('-'),
            subresource: part(4),
        };
        policy.evaluate(&request).level.name()
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        for (user, verb, path, want) in [
            ("admin", "get", "core default configmaps a", "None"),
            ("admin", "list", "core default configmaps", "None"),
            ("eve", "list", "core - nodes", "Metadata"),
            ("eve", "update", "core default pods p status", "Request"),
            ("eve", "create", "core default pods p exec", "Metadata"),
            ("eve", "get", "core default pods p", "Metadata"),
            ("eve", "update", "apps default deployments web", "RequestResponse"),
            ("eve", "update", "apps default deployments api", "None"),
            ("eve", "get", "/healthz/ping", "Metadata"),
            ("eve", "get", "/version/", "None"),
        ] {
            assert_eq!(level(user, verb, path), want, "{user} {verb} {path}");
        }
    }

    #[test]
    fn stages_of_rule_and_policy_add_up() {
        let policy = Policy::parse(POLICY.as_bytes()).unwrap();
        let then = &policy.rules.last().unwrap().then;
        assert!(!then.records(Stage::RequestReceived) && !then.records(Stage::Panic));
        assert!(then.records(Stage::ResponseComplete));
    }

    #[test]
    fn faults_are_named_as_kube_apiserver_names_them() {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- ";
        for (rule, want) in [
            ("{users: [a]}", "rules[0].level: Required value"),
            (
                "{level: Metadata, nonResourceURLs: [a]}",
                "rules[0].nonResourceURLs[0]: Invalid value: \"a\": non-resource URL rules must begin with a '/' character",
            ),
            (
                "{level: Metadata, nonResourceURLs: [null]}",
                "rules[0].nonResourceURLs[0]: Invalid value: \"\": non-resource URL rules must begin with a '/' character",
            ),
            (
                "{level: Metadata, omitStages: [End]}",
                "rules[0].omitStages[0]: Invalid value: \"End\": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic",
            ),
        ] {
            assert_eq!(Policy::parse(format!("{head}{rule}").as_bytes()).unwrap_err(), want);
        }
        assert!(Policy::parse(b"").is_err());
    }
}
