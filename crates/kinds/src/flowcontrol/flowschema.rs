//! FlowSchema: assigns requests to priority levels.

use super::{fixed, validate_conditions};
use crate::error_text::Internal;
use crate::{Hooks, Scope, check, facts, fields};
use pintle_meta::FieldErrors;
use pintle_meta::field::Named;
use pintle_value::{Path, Str, Value};

const SPEC: &str = "flowcontrol/v1.FlowSchemaSpec";
const EXEMPT: &str = "exempt";
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// The mandatory objects and their fixed specs.
const MANDATORY: [(&str, &str); 2] = [
    (
        EXEMPT,
        r#"{"matchingPrecedence":1,"priorityLevelConfiguration":{"name":"exempt"},"rules":[{"nonResourceRules":[{"nonResourceURLs":["*"],"verbs":["*"]}],"resourceRules":[{"apiGroups":["*"],"clusterScope":true,"namespaces":["*"],"resources":["*"],"verbs":["*"]}],"subjects":[{"group":{"name":"system:masters"},"kind":"Group"}]}]}"#,
    ),
    (
        "catch-all",
        r#"{"distinguisherMethod":{"type":"ByUser"},"matchingPrecedence":10000,"priorityLevelConfiguration":{"name":"catch-all"},"rules":[{"nonResourceRules":[{"nonResourceURLs":["*"],"verbs":["*"]}],"resourceRules":[{"apiGroups":["*"],"clusterScope":true,"namespaces":["*"],"resources":["*"],"verbs":["*"]}],"subjects":[{"group":{"name":"system:unauthenticated"},"kind":"Group"},{"group":{"name":"system:authenticated"},"kind":"Group"}]}]}"#,
    ),
];

pub(crate) struct FlowSchema;

impl Hooks for FlowSchema {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let name = object.str_at(&["metadata", "name"]);
        let path = Path::of("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        validate_spec(name, spec, &path, errors);
        if let Some((_, wanted)) = MANDATORY.iter().find(|(mandatory, _)| *mandatory == name)
            && fixed(wanted) != *spec
        {
            errors.invalid(
                &path,
                Internal(Some(spec), SPEC),
                &format!("spec of '{name}' must equal the fixed value"),
            );
        }
        validate_conditions(object, errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, _old: &Value, errors: &mut FieldErrors) {
        match scope {
            Scope::Main => self.validate_create(object, errors),
            Scope::Sub(_) => validate_conditions(object, errors),
        }
    }
}

fn validate_spec(name: &str, spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check_fields(spec, SPEC, &["matchingPrecedence"], path, errors);
    if fields::int(spec, "matchingPrecedence") == 1 && name != EXEMPT {
        let why = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.invalid(&path.field("matchingPrecedence"), 1, why);
    }
    if let Some(method) = fields::member(spec, "distinguisherMethod")
        && !matches!(fields::text(method, "type"), "ByNamespace" | "ByUser")
    {
        errors.not_supported(
            &path.field("distinguisherMethod.type"),
            Internal(Some(method), "flowcontrol/v1.FlowDistinguisherMethod"),
            &["ByNamespace", "ByUser"],
        );
    }
    facts::check_fields(spec, SPEC, &["priorityLevelConfiguration"], path, errors);
    check::each_item(spec, "rules", path, |rule, path| validate_rule(rule, path, errors));
}

fn validate_rule(rule: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let subjects = fields::list(rule, "subjects");
    if subjects.is_empty() {
        errors.required(&path.field("subjects"), "subjects must contain at least one value");
    }
    for (at, subject) in subjects.iter().enumerate() {
        validate_subject(subject, &path.field("subjects").index(at), errors);
    }
    let (resources, urls) = (fields::list(rule, "resourceRules"), fields::list(rule, "nonResourceRules"));
    if resources.is_empty() && urls.is_empty() {
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for (at, rule) in resources.iter().enumerate() {
        validate_resource_rule(rule, &path.field("resourceRules").index(at), errors);
    }
    for (at, rule) in urls.iter().enumerate() {
        validate_url_rule(rule, &path.field("nonResourceRules").index(at), errors);
    }
}

fn validate_subject(subject: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let members = [("serviceAccount", "ServiceAccount"), ("user", "User"), ("group", "Group")];
    let kind = fields::text(subject, "kind");
    let Some((own, _)) = members.iter().find(|(_, name)| *name == kind) else {
        return errors.not_supported(&path.field("kind"), Named(kind), &["Group", "ServiceAccount", "User"]);
    };
    let at = path.field(own);
    match fields::member(subject, own) {
        None => errors.required(&at, &format!("{own} is required when subject kind is '{kind}'")),
        Some(account) if kind == "ServiceAccount" => validate_account(account, &at, errors),
        Some(named) => check::required(named, "name", &at, errors),
    }
    for (key, name) in members.iter().filter(|(key, _)| key != own && fields::member(subject, key).is_some())
    {
        errors.forbidden(&path.field(key), &format!("{key} is forbidden when subject kind is not '{name}'"));
    }
}

fn validate_account(account: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let name = fields::text(account, "name");
    if name.is_empty() {
        errors.required(&path.field("name"), "");
    } else if name != "*" {
        check::dns_subdomain(&path.field("name"), name, errors);
    }
    facts::check(account, "flowcontrol/v1.ServiceAccountSubject", path, errors);
}

/// How a list uses the wildcard `*`.
#[derive(PartialEq)]
enum Wildcard {
    Absent,
    Alone,
    BesideOthers,
}

fn wildcard_of(all: &[Str]) -> Wildcard {
    if !all.iter().any(|text| text == "*") {
        Wildcard::Absent
    } else if all.len() > 1 {
        Wildcard::BesideOthers
    } else {
        Wildcard::Alone
    }
}

fn validate_verbs(rule: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let verbs = fields::strings(rule, "verbs");
    let at = path.field("verbs");
    match wildcard_of(&verbs) {
        _ if verbs.is_empty() => errors.required(&at, "verbs must contain at least one value"),
        Wildcard::BesideOthers => {
            errors.invalid(&at, &verbs[..], "if '*' is present, must not specify other verbs")
        }
        Wildcard::Alone => {}
        Wildcard::Absent if verbs.iter().all(|verb| VERBS.contains(&verb.as_str())) => {}
        Wildcard::Absent => errors.not_supported(&at, &verbs[..], &VERBS),
    }
}

fn validate_url_rule(rule: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_verbs(rule, path, errors);
    let urls = fields::strings(rule, "nonResourceURLs");
    let at = path.field("nonResourceURLs");
    match wildcard_of(&urls) {
        _ if urls.is_empty() => errors.required(&at, "nonResourceURLs must contain at least one value"),
        Wildcard::BesideOthers => {
            errors.invalid(&at, &urls[..], "if '*' is present, must not specify other non-resource URLs")
        }
        Wildcard::Alone => {}
        Wildcard::Absent => {
            for (index, url) in urls.iter().enumerate() {
                if let Some(why) = url_error(url) {
                    errors.invalid(&at.index(index), url, why);
                }
            }
        }
    }
}

/// The error of an invalid non-resource path.
fn url_error(url: &str) -> Option<&'static str> {
    let stars = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || (stars == 1 && !url.ends_with("/*")) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

fn validate_resource_rule(rule: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_verbs(rule, path, errors);
    let lists = [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")];
    for (key, one, many) in lists {
        let all = fields::strings(rule, key);
        if all.is_empty() {
            errors.required(&path.field(key), &format!("resource rules must supply at least one {one}"));
        } else if wildcard_of(&all) == Wildcard::BesideOthers {
            let why = format!("if '*' is present, must not specify other {many}");
            errors.invalid(&path.field(key), &all[..], &why);
        }
    }
    let namespaces = fields::strings(rule, "namespaces");
    let at = path.field("namespaces");
    match wildcard_of(&namespaces) {
        _ if namespaces.is_empty() && !fields::flag(rule, "clusterScope") => {
            let why = "resource rules that are not cluster scoped must supply at least one namespace";
            errors.required(&at, why);
        }
        Wildcard::BesideOthers => {
            errors.invalid(&at, &namespaces[..], "if '*' is present, must not specify other namespaces")
        }
        Wildcard::Alone => {}
        Wildcard::Absent => {
            for (index, namespace) in namespaces.iter().enumerate() {
                for why in pintle_meta::names::is_dns1123_label(namespace) {
                    let why = format!("each member of this list must be '*' or a DNS-1123 label; {why}");
                    errors.invalid(&at.index(index), namespace, &why);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_specs_can_be_read() {
        for (name, spec) in MANDATORY {
            assert!(fixed(spec).as_object().is_some(), "{name}");
        }
    }

    #[test]
    fn paths_end_in_their_wildcard() {
        let cases = [
            ("/", true),
            ("/a/*", true),
            ("/a*", false),
            ("a", false),
            ("/a//b", false),
            ("/*/b", false),
            ("", false),
        ];
        for (url, fine) in cases {
            assert_eq!(url_error(url).is_none(), fine, "{url}");
        }
    }
}
