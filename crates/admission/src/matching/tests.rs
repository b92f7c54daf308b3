#![allow(clippy::unwrap_used, reason = "a check fails where it unwraps")]

use super::*;
use crate::testing::{Objects, kind, text, tree, with_request};
use crate::{Options, admission_request};
use pintle_auth::UserInfo;
use pintle_meta::options::FieldValidation;

fn cluster() -> Objects {
    Objects::of(&[("", "namespaces", r#"{"metadata":{"name":"n","labels":{"team":"a"}}}"#)])
}

fn webhook(rule: &str, rest: &str) -> Matcher {
    Matcher::of_webhook(&tree(&format!(
        r#"{{"rules":[{rule}],"namespaceSelector":{{}},"objectSelector":{{}}{rest}}}"#
    )))
}

fn rule(operation: &str, group: &str, version: &str, resource: &str) -> String {
    format!(
        r#"{{"operations":["{operation}"],"apiGroups":["{group}"],"apiVersions":["{version}"],"resources":["{resource}"]}}"#
    )
}

#[test]
fn rules_name_operations_groups_versions_and_resources() {
    let deployments = kind("apps", "deployments");
    for (rule, expected) in [
        (rule("*", "*", "*", "*"), true),
        (rule("CREATE", "apps", "v1", "deployments"), true),
        (rule("UPDATE", "apps", "v1", "deployments"), false),
        (rule("CREATE", "", "v1", "deployments"), false),
        (rule("CREATE", "apps", "v2", "deployments"), false),
        (rule("CREATE", "apps", "v1", "deployments/status"), false),
        (rule("CREATE", "apps", "v1", "*/*"), true),
        (rule("CREATE", "apps", "v1", "*/scale"), false),
        (rule("CREATE", "apps", "v1", "deployments").replace('}', r#","scope":"Cluster"}"#), false),
        (rule("CREATE", "apps", "v1", "deployments").replace('}', r#","scope":"Namespaced"}"#), true),
    ] {
        let found = with_request(&deployments, None, |request| {
            webhook(&rule, "").matched(request, Some(&Value::object()), &cluster()).unwrap()
        });
        assert_eq!(found.is_some(), expected, "{rule}");
    }
}

#[test]
fn subresources_have_kinds_of_their_own() {
    let deployments = kind("apps", "deployments");
    let found = with_request(&deployments, None, |request| {
        let request = Attributes { subresource: "scale", ..copy(request) };
        webhook(&rule("*", "apps", "v1", "*/scale"), "").matched(&request, None, &cluster()).unwrap().unwrap()
    });
    assert_eq!(found.kind.kind, "Scale");
    assert_eq!((found.group.as_str(), found.version_name.as_str()), ("apps", "v1"));
}

#[test]
fn other_versions_match_where_they_are_equivalent() {
    let autoscalers = kind("autoscaling", "horizontalpodautoscalers");
    let events = kind("", "events");
    for (kind, rule, policy, expected) in [
        (&autoscalers, rule("*", "autoscaling", "v1", "*"), "Equivalent", Some("v1")),
        (&autoscalers, rule("*", "autoscaling", "v1", "*"), "Exact", None),
        (&autoscalers, rule("*", "autoscaling", "*", "*"), "Equivalent", Some("v2")),
        (&events, rule("*", "events.k8s.io", "v1", "events"), "Equivalent", Some("v1")),
        (&events, rule("*", "events.k8s.io", "v1", "events"), "Exact", None),
    ] {
        let found = with_request(kind, None, |request| {
            let own = kind.versions.iter().find(|v| matches!(v.name.as_str(), "v2") || v.group.is_empty());
            let request = Attributes { version: own.unwrap(), ..copy(request) };
            let matcher = webhook(&rule, &format!(r#","matchPolicy":"{policy}""#));
            matcher.matched(&request, None, &cluster()).unwrap()
        });
        assert_eq!(found.map(|m| m.version_name).as_deref(), expected, "{rule} {policy}");
    }
}

#[test]
fn selectors_look_at_namespaces_and_objects() {
    let pods = kind("", "pods");
    let namespaces = kind("", "namespaces");
    let nodes = kind("", "nodes");
    let object = tree(r#"{"metadata":{"labels":{"app":"x"}}}"#);
    let team = |team: &str| format!(r#","namespaceSelector":{{"matchLabels":{{"team":"{team}"}}}}"#);
    let app = |app: &str| format!(r#","objectSelector":{{"matchLabels":{{"app":"{app}"}}}}"#);
    for (kind, namespace, rest, expected) in [
        (&pods, "n", team("a"), "true"),
        (&pods, "n", team("b"), "false"),
        (&pods, "gone", team("a"), "namespaces \"gone\" not found"),
        (&pods, "gone", app("x"), "true"),
        (&pods, "n", app("x"), "true"),
        (&pods, "n", app("y"), "false"),
        (&nodes, "", team("b"), "true"),
        // For a Namespace that is written, the selector applies to its own labels.
        (&namespaces, "n", team("a"), "false"),
        (&namespaces, "n", r#","namespaceSelector":{"matchLabels":{"app":"x"}}"#.to_string(), "true"),
    ] {
        let all = rule("*", "*", "*", "*");
        let text = format!(r#"{{"rules":[{all}],"namespaceSelector":{{}},"objectSelector":{{}}}}"#);
        let mut config = tree(&text);
        for (key, value) in tree(&format!("{{{}}}", rest.trim_start_matches(','))).as_object().unwrap().iter()
        {
            config.set_at(&[key], value.clone());
        }
        let found = with_request(kind, None, |request| {
            let request = Attributes { namespace, ..copy(request) };
            Matcher::of_webhook(&config).matched(&request, Some(&object), &cluster())
        });
        let found = found.map_or_else(|status| status.message, |place| place.is_some().to_string());
        assert_eq!(found, expected, "{} {rest}", kind.plural);
    }
}

#[test]
fn policies_exclude_and_name_objects() {
    let pods = kind("", "pods");
    let all = rule("*", "*", "*", "*");
    let named = all.replace('}', r#","resourceNames":["y"]}"#);
    for (body, expected) in [
        (String::new(), true),
        (format!(r#","resourceRules":[{all}]"#), true),
        (format!(r#","resourceRules":[{named}]"#), false),
        (format!(r#","excludeResourceRules":[{all}]"#), false),
        (format!(r#","resourceRules":[{all}],"excludeResourceRules":[{named}]"#), true),
    ] {
        let resources = tree(&format!(r#"{{"namespaceSelector":{{}},"objectSelector":{{}}{body}}}"#));
        let found = with_request(&pods, None, |request| {
            Matcher::of_policy(&resources).matched(request, None, &cluster()).unwrap()
        });
        assert_eq!(found.is_some(), expected, "{body}");
    }
}

#[test]
fn requests_are_told_in_the_words_of_reviews() {
    let autoscalers = kind("autoscaling", "horizontalpodautoscalers");
    let mut user = UserInfo::new("alice", &["dev"]);
    user.extra.insert("scopes".into(), vec!["all".into()]);
    let found = with_request(&autoscalers, None, |request| {
        let options = Options::Write { field_manager: "me", validation: Some(FieldValidation::Strict) };
        let request = Attributes { options, user: &user, dry_run: true, ..copy(request) };
        let matcher = webhook(&rule("*", "autoscaling", "v1", "*"), r#","matchPolicy":"Equivalent""#);
        let place = matcher.matched(&request, None, &cluster()).unwrap().unwrap();
        text(&admission_request(&request, &place, "u"))
    });
    let expected = r#"{"dryRun":true,"kind":{"group":"autoscaling","kind":"HorizontalPodAutoscaler","version":"v1"},"name":"x","namespace":"n","operation":"CREATE","options":{"apiVersion":"meta.k8s.io/v1","dryRun":["All"],"fieldManager":"me","fieldValidation":"Strict","kind":"CreateOptions"},"requestKind":{"group":"autoscaling","kind":"HorizontalPodAutoscaler","version":"v2"},"requestResource":{"group":"autoscaling","resource":"horizontalpodautoscalers","version":"v2"},"resource":{"group":"autoscaling","resource":"horizontalpodautoscalers","version":"v1"},"uid":"u","userInfo":{"extra":{"scopes":["all"]},"groups":["dev"],"username":"alice"}}"#;
    assert_eq!(found, expected);
}

fn copy<'a>(request: &Attributes<'a>) -> Attributes<'a> {
    Attributes { ..*request }
}
