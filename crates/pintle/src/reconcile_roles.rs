//! Default roles and bindings are reconciled at start, as in kube-apiserver: missing parts are added, for example the
//! rules of a feature gate that was off before; additions of administrators stay. An object whose annotation
//! `autoupdate` is `false` is not changed.

use pintle_admission::escalation::uncovered;
use pintle_auth::authz::rbac::{Rule, Rules};
use pintle_value::{Map, Value};

const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Whether a binding must be replaced, because it refers to another role: the reference of a binding cannot change.
pub(crate) fn binds_another_role(expected: &Value, live: &Value) -> bool {
    !has_opted_out(live) && live.get("roleRef") != expected.get("roleRef")
}

fn has_opted_out(live: &Value) -> bool {
    live.str_at(&["metadata", "annotations", AUTO_UPDATE]) == "false"
}

/// Adds the parts of `expected` that a role or binding lacks.
pub(crate) fn reconcile(expected: &Value, live: &mut Value) {
    if has_opted_out(live) {
        return;
    }
    for key in ["annotations", "labels"] {
        let wanted = expected.at(&["metadata", key]).and_then(Value::as_object);
        for (name, text) in wanted.into_iter().flat_map(Map::iter) {
            if live.at(&["metadata", key, name]).is_none() {
                live.set_at(&["metadata", key, name], text.clone());
            }
        }
    }
    let rules =
        |object: &Value| -> Rules { object.items_at(&["rules"]).iter().map(Rule::from_value).collect() };
    let missing = uncovered(&[rules(live)], &rules(expected));
    add(live, &["rules"], missing.iter().map(to_value).collect());
    let selectors = ["aggregationRule", "clusterRoleSelectors"];
    match expected.get("aggregationRule") {
        None | Some(Value::Null) => _ = live.remove_at(&["aggregationRule"]),
        Some(_) => add_missing(expected, live, &selectors),
    }
    add_missing(expected, live, &["subjects"]);
}

/// Adds the items of a list that are missing.
fn add_missing(expected: &Value, live: &mut Value, path: &[&str]) {
    let known = live.items_at(path);
    let missing = expected.items_at(path).iter().filter(|item| !known.contains(item)).cloned().collect();
    add(live, path, missing);
}

fn add(live: &mut Value, path: &[&str], missing: Vec<Value>) {
    if missing.is_empty() {
        return;
    }
    let mut all = live.items_at(path).to_vec();
    all.extend(missing);
    live.set_at(path, Value::Array(all));
}

fn to_value(rule: &Rule) -> Value {
    let mut out = Value::object();
    for (key, texts) in [
        ("verbs", &rule.verbs),
        ("apiGroups", &rule.api_groups),
        ("resources", &rule.resources),
        ("resourceNames", &rule.resource_names),
        ("nonResourceURLs", &rule.non_resource_urls),
    ] {
        if !texts.is_empty() {
            out.set_at(&[key], Value::Array(texts.iter().map(|text| text.as_str().into()).collect()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    fn tree(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap().value
    }

    fn reconciled(expected: &str, live: &str) -> Value {
        let mut live = tree(live);
        reconcile(&tree(expected), &mut live);
        live
    }

    const EXPECTED: &str = r#"{"metadata":{"labels":{"a":"b"}},"rules":[
        {"verbs":["get","list"],"apiGroups":[""],"resources":["pods","nodes"]}]}"#;

    #[test]
    fn what_a_role_lacks_is_added() {
        let live = r#"{"metadata":{"labels":{"x":"y"}},"rules":[
            {"verbs":["*"],"apiGroups":[""],"resources":["pods"]},{"verbs":["get"],"apiGroups":["apps"],"resources":["*"]}]}"#;
        let want = r#"{"metadata":{"labels":{"a":"b","x":"y"}},"rules":[
            {"verbs":["*"],"apiGroups":[""],"resources":["pods"]},{"verbs":["get"],"apiGroups":["apps"],"resources":["*"]},
            {"verbs":["get"],"apiGroups":[""],"resources":["nodes"]},{"verbs":["list"],"apiGroups":[""],"resources":["nodes"]}]}"#;
        assert_eq!(reconciled(EXPECTED, live), tree(want));
        assert_eq!(reconciled(EXPECTED, want), tree(want));
        assert_eq!(reconciled(EXPECTED, EXPECTED), tree(EXPECTED));
    }

    #[test]
    fn a_binding_of_another_role_is_replaced() {
        let binding = |role: &str| tree(&format!(r#"{{"metadata":{{}},"roleRef":{{"name":"{role}"}}}}"#));
        assert!(binds_another_role(&binding("a"), &binding("b")));
        assert!(!binds_another_role(&binding("a"), &binding("a")));
    }

    #[test]
    fn what_opted_out_is_left_alone() {
        let live = format!(r#"{{"metadata":{{"annotations":{{"{AUTO_UPDATE}":"false"}}}},"rules":null}}"#);
        assert_eq!(reconciled(EXPECTED, &live), tree(&live));
    }

    #[test]
    fn subjects_and_selectors_are_added_and_an_unexpected_aggregation_ends() {
        let binding = |subjects: &str| {
            format!(r#"{{"metadata":{{}},"roleRef":{{"name":"a"}},"subjects":[{subjects}]}}"#)
        };
        let (one, two) = (r#"{"kind":"User","name":"a"}"#, r#"{"kind":"User","name":"b"}"#);
        assert_eq!(reconciled(&binding(one), &binding(two)), tree(&binding(&format!("{two},{one}"))));
        let role = |rule: &str| format!(r#"{{"metadata":{{}}{rule}}}"#);
        let aggregated = |name: &str| {
            format!(r#","aggregationRule":{{"clusterRoleSelectors":[{{"matchLabels":{{"{name}":""}}}}]}}"#)
        };
        assert_eq!(reconciled(&role(""), &role(&aggregated("x"))), tree(&role("")));
        let found = reconciled(&role(&aggregated("a")), &role(&aggregated("x")));
        assert_eq!(found.items_at(&["aggregationRule", "clusterRoleSelectors"]).len(), 2);
    }
}
