//! ABAC: authorizes by a file with one policy per line.

use super::rbac::Rule;
use super::{Attributes, Authorizer, Authorizing, Decision, RulesFound};
use crate::UserInfo;
use pintle_meta::go_type::unregistered_kind;
use pintle_value::{Value, json, yaml};

const API_VERSION: &str = "abac.authorization.kubernetes.io/v1beta1";
/// The version of lines without one.
const OLD_API_VERSION: &str = "abac.authorization.kubernetes.io/v0";

/// The policies of a file.
#[derive(Debug, Default)]
pub struct Abac(Vec<Policy>);

#[derive(Debug, Default)]
struct Policy {
    user: String,
    group: String,
    readonly: bool,
    api_group: String,
    resource: String,
    namespace: String,
    non_resource_path: String,
}

impl Abac {
    /// Parses the text of a file. The error names the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut policies = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            let policy = Policy::parse(trimmed);
            policies.push(policy.map_err(|why| format!("line {}: {line}: {why}", index.saturating_add(1)))?);
        }
        Ok(Abac(policies))
    }
}

impl Authorizer for Abac {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        if self.0.iter().any(|policy| policy.allows(attributes)) {
            Decision::Allow(Default::default())
        } else {
            Decision::NoOpinion("No policy matched.".into())
        }
        .into()
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str) -> RulesFound {
        let here = |policy: &&Policy| {
            policy.is_about(user) && (policy.namespace == "*" || policy.namespace == namespace)
        };
        let rules = self.0.iter().filter(here).map(Policy::to_rule).collect();
        RulesFound { rules, ..RulesFound::default() }
    }
}

/// Reads a line, which may be JSON or YAML. As in kube-apiserver, anything but an object is refused as a whole.
fn read_line(line: &str) -> Result<Value, String> {
    let refused = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let tree = if line.starts_with('{') {
        json::parse(line.as_bytes()).map_err(|error| refused(error.to_string()))?.value
    } else {
        yaml::parse(line.as_bytes()).map_err(|error| refused(error.to_string()))?.value
    };
    if tree.as_object().is_none() {
        return Err(refused(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            tree.json_type()
        )));
    }
    Ok(tree)
}

fn read_text(spec: &Value, key: &str) -> Result<String, String> {
    match spec.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(value) => value.as_str().map(str::to_string).ok_or_else(|| wrong_type(key, value, "string")),
    }
}

fn wrong_type(key: &str, value: &Value, type_: &str) -> String {
    format!("json: cannot unmarshal {} into Go struct field .{key} of type {type_}", value.json_type())
}

fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

impl Policy {
    fn to_rule(&self) -> Rule {
        let verbs: &[&str] = if self.readonly { &["get", "list", "watch"] } else { &["*"] };
        let present =
            |text: &String| Some(text.clone()).filter(|text| !text.is_empty()).into_iter().collect();
        Rule {
            verbs: verbs.iter().map(ToString::to_string).collect(),
            api_groups: vec![self.api_group.clone()],
            resources: present(&self.resource),
            resource_names: Vec::new(),
            non_resource_urls: present(&self.non_resource_path),
        }
    }

    fn parse(line: &str) -> Result<Self, String> {
        let tree = read_line(line)?;
        let (version, kind) = (tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
        match (version, kind) {
            (API_VERSION, "Policy") => {
                let mut policy = Policy::of(tree.get("spec").unwrap_or(&Value::Null))?;
                policy.everybody_is_authenticated();
                Ok(policy)
            }
            ("" | OLD_API_VERSION, "" | "Policy") => Ok(Policy::of_old(&tree)?.with_old_defaults()),
            _ => {
                // A line without a version has the old one, and a line without a kind is a policy.
                let (version, kind) = (or(version, OLD_API_VERSION), or(kind, "Policy"));
                Err(unregistered_kind(kind, version, "pkg/apis/abac/register.go:33"))
            }
        }
    }

    /// Reads a line without a version, which has fewer fields. A field of the wrong type is refused, so that a policy does
    /// not allow more than its author meant.
    fn of_old(spec: &Value) -> Result<Self, String> {
        let readonly = match spec.get("readonly") {
            None | Some(Value::Null) => false,
            Some(value) => value.as_bool().ok_or_else(|| wrong_type("readonly", value, "bool"))?,
        };
        Ok(Policy {
            user: read_text(spec, "user")?,
            group: read_text(spec, "group")?,
            readonly,
            resource: read_text(spec, "resource")?,
            namespace: read_text(spec, "namespace")?,
            ..Policy::default()
        })
    }

    fn of(spec: &Value) -> Result<Self, String> {
        Ok(Policy {
            api_group: read_text(spec, "apiGroup")?,
            non_resource_path: read_text(spec, "nonResourcePath")?,
            ..Policy::of_old(spec)?
        })
    }

    /// A user or group of `*` means every authenticated user; the policy's other name has no effect then.
    fn everybody_is_authenticated(&mut self) {
        if self.user == "*" || self.group == "*" {
            self.group = UserInfo::AUTHENTICATED.to_string();
            self.user.clear();
        }
    }

    /// In lines without a version, omitted fields match everything.
    fn with_old_defaults(mut self) -> Self {
        if self.user.is_empty() && self.group.is_empty() {
            self.group = UserInfo::AUTHENTICATED.to_string();
        }
        self.everybody_is_authenticated();
        if self.namespace.is_empty() && self.resource.is_empty() {
            self.non_resource_path = "*".to_string();
        }
        for part in [&mut self.namespace, &mut self.resource] {
            if part.is_empty() {
                *part = "*".to_string();
            }
        }
        self.api_group = "*".to_string();
        self
    }

    fn allows(&self, a: &Attributes) -> bool {
        let reads = matches!(a.verb.as_str(), "get" | "list" | "watch");
        if !self.is_about(&a.user) || (self.readonly && !reads) {
            return false;
        }
        let fits = |wanted: &str, found: &str| wanted == "*" || wanted == found;
        if a.resource_request {
            return fits(&self.namespace, &a.namespace)
                && fits(&self.resource, &a.resource)
                && fits(&self.api_group, &a.group);
        }
        let path = self.non_resource_path.as_str();
        fits(path, &a.path) || (path.ends_with('*') && a.path.starts_with(path.trim_end_matches('*')))
    }

    fn is_about(&self, user: &UserInfo) -> bool {
        let is_named = !self.user.is_empty() || !self.group.is_empty();
        let is_user = self.user.is_empty() || self.user == "*" || self.user == user.name;
        let in_group = self.group.is_empty() || self.group == "*" || user.in_group(&self.group);
        is_named && is_user && in_group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_allow_what_they_name() {
        let abac = Abac::parse(concat!(
            "# policies\n\n",
            r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"alice","namespace":"x","resource":"pods","apiGroup":""}}"#,
            "\n",
            r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"dev","readonly":true,"namespace":"*","resource":"*","apiGroup":"*"}}"#,
            "\n",
            r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"*","nonResourcePath":"/version*"}}"#,
            "\n",
            r#"{"user":"old","namespace":"y"}"#,
        ))
        .unwrap();
        let may = |user: &str, groups: &[&str], verb: &str, namespace: &str, resource: &str| {
            let attributes = Attributes {
                user: UserInfo::new(user, groups).into(),
                verb: verb.into(),
                resource_request: !resource.starts_with('/'),
                path: resource.into(),
                namespace: namespace.into(),
                resource: resource.into(),
                ..Attributes::default()
            };
            abac.authorize(&attributes).wait().is_allowed()
        };
        for (user, groups, verb, namespace, resource, want) in [
            ("alice", &[][..], "delete", "x", "pods", true),
            ("alice", &[], "delete", "y", "pods", false),
            ("bob", &["dev"], "list", "y", "secrets", true),
            ("bob", &["dev"], "create", "y", "secrets", false),
            ("bob", &[UserInfo::AUTHENTICATED], "get", "", "/version/x", true),
            ("bob", &[], "get", "", "/version", false),
            ("old", &[], "delete", "y", "pods", true),
            ("old", &[], "delete", "x", "pods", false),
        ] {
            assert_eq!(
                may(user, groups, verb, namespace, resource),
                want,
                "{user} {verb} {namespace} {resource}"
            );
        }
        assert!(Abac::parse(r#"{"apiVersion":"v1","kind":"Pod"}"#).is_err());
        assert!(Abac::parse(r#"{"user":"x","readonly":"true"}"#).is_err());
        assert!(Abac::parse("{").is_err());
    }
}
