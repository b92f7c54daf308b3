use super::*;
use pintle_value::json;

/// Deployments, Pods, both kinds of Events, and a custom resource.
struct Known;

const WIDGET: &str = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
    "size":{"type":"integer"},"port":{"x-kubernetes-int-or-string":true},
    "template":{"type":"object","x-kubernetes-embedded-resource":true}}}}}"#;

impl Types for Known {
    fn kinds_for(&self, group: &str, version: &str, resource: &str) -> Vec<GroupVersionKind> {
        let all = [
            ("", "v1", "events", "Event"),
            ("", "v1", "pods", "Pod"),
            ("apps", "v1", "deployments", "Deployment"),
            ("events.k8s.io", "v1", "events", "Event"),
            ("example.com", "v1", "widgets", "Widget"),
        ];
        let serves = |of: &&(&str, &str, &str, &str)| {
            (group.is_empty() || of.0 == group) && of.1 == version && of.2 == resource
        };
        all.iter().filter(serves).map(|of| GroupVersionKind::new(of.0, of.1, of.3)).collect()
    }

    fn schema(&self, kind: &GroupVersionKind) -> Option<Value> {
        match &*kind.kind {
            "Widget" => Some(custom_schema(&tree(WIDGET))),
            _ => published_schema(kind),
        }
    }
}

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).expect("JSON").value
}

fn policy(rule: &str, expression: &str) -> Value {
    let mut policy = Value::object();
    policy.set_at(&["spec", "matchConstraints", "resourceRules"], tree(&format!("[{rule}]")));
    policy.set_at(&["spec", "validations"], tree("[{}]"));
    if let Some(validations) = policy.at_mut(&["spec", "validations"]).and_then(Value::as_array_mut) {
        validations[0].set_at(&["expression"], expression.into());
    }
    policy
}

const DEPLOYMENTS: &str = r#"{"apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments"]}"#;
const PODS: &str = r#"{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}"#;
const WIDGETS: &str = r#"{"apiGroups":["example.com"],"apiVersions":["v1"],"resources":["widgets"]}"#;

fn warnings(rule: &str, expression: &str) -> Vec<Warning> {
    check(&policy(rule, expression), &Known, 7)
}

#[test]
fn what_a_warning_says() {
    let found = warnings(DEPLOYMENTS, "object.foo > 1");
    let text = "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'foo'\n | object.foo > 1\n | ......^\n";
    assert_eq!(found, [Warning { field: "spec.validations[0].expression".into(), text: text.into() }]);
}

#[test]
fn types_of_objects() {
    let accepted = [
        (DEPLOYMENTS, "object.spec.replicas > 1 && oldObject.metadata.labels['a'] == 'b'"),
        (DEPLOYMENTS, "object.spec.template.spec.containers.all(c, c.ports.all(p, p.containerPort > 1))"),
        // A port may be a number or a name.
        (PODS, "object.spec.containers[0].livenessProbe.httpGet.port == 1"),
        (PODS, "object.spec.containers[0].livenessProbe.httpGet.port == 'a'"),
        (PODS, "object.metadata.creationTimestamp < timestamp('2020-01-01T00:00:00Z')"),
        (WIDGETS, "object.spec.size > 1 && object.spec.port == 'a' && object.metadata.labels.size() > 0"),
        (WIDGETS, "object.spec.template.metadata.labels.size() > 0"),
        // The result may have any type.
        (WIDGETS, "object.spec.size"),
    ];
    for (rule, expression) in accepted {
        assert_eq!(warnings(rule, expression), [], "{expression}");
    }
    let refused = [
        (
            DEPLOYMENTS,
            "object.spec.replicas > '1'",
            "found no matching overload for '_>_' applied to '(int, string)'",
        ),
        // Quantities have two types, and fields of such types are not declared.
        (PODS, "object.spec.containers[0].resources.limits['cpu'] == '1'", "undefined field 'limits'"),
        (WIDGETS, "object.spec.size == 'a'", "applied to '(int, string)'"),
        (WIDGETS, "object.spec == 1", "applied to '(Widget7.spec, int)'"),
        (
            PODS,
            "authorizer.requestResource.check('get').allowed()",
            "unexpected failed resolution of 'kubernetes.authorization.Authorizer'",
        ),
        (PODS, "params.a == 1", "undeclared reference to 'params'"),
    ];
    for (rule, expression, message) in refused {
        let found = warnings(rule, expression);
        assert!(matches!(&*found, [one] if one.text.contains(message)), "{expression}: {found:?}");
    }
}

#[test]
fn each_kind_has_a_paragraph() {
    let rule = r#"{"apiGroups":["apps",""],"apiVersions":["v1"],"resources":["deployments","events","*","pods/log"]}"#;
    let found = warnings(rule, "object.foo");
    // An empty group stands for every group.
    let kinds: Vec<&str> =
        found[0].text.lines().filter_map(|line| line.split_once(": ERROR")).map(|l| l.0).collect();
    assert_eq!(kinds, ["/v1, Kind=Event", "apps/v1, Kind=Deployment", "events.k8s.io/v1, Kind=Event"]);
    assert!(found[0].text.contains("......^\n\napps/v1"), "{}", found[0].text);
    let wildcard = r#"{"apiGroups":["*"],"apiVersions":["v1"],"resources":["deployments"]}"#;
    assert_eq!(warnings(wildcard, "object.foo"), []);
}

#[test]
fn messages_params_and_variables() {
    let mut policy = policy(DEPLOYMENTS, "variables.replicas > 1 && variables.broken == 1");
    policy.set_at(&["spec", "variables"], tree(
        r#"[{"name":"replicas","expression":"object.spec.replicas"},{"name":"broken","expression":"object.foo"}]"#,
    ));
    assert_eq!(check(&policy, &Known, 7), []);
    policy.set_at(&["spec", "paramKind"], tree(r#"{"apiVersion":"example.com/v1","kind":"Widget"}"#));
    policy.set_at(
        &["spec", "validations"],
        tree(
            r#"[{"expression":"params.spec.size > variables.replicas","messageExpression":"params.foo"},
            {"expression":"variables.replicas == 'a'"}]"#,
        ),
    );
    let found = check(&policy, &Known, 7);
    let fields: Vec<&str> = found.iter().map(|warning| &*warning.field).collect();
    assert_eq!(fields, ["spec.validations[0].messageExpression", "spec.validations[1].expression"]);
    // Parameters of an unknown kind accept everything.
    policy.set_at(&["spec", "paramKind", "kind"], "Unknown".into());
    assert_eq!(check(&policy, &Known, 7).len(), 1);
}

#[test]
fn at_most_ten_types() {
    struct Many;
    impl Types for Many {
        fn kinds_for(&self, group: &str, version: &str, resource: &str) -> Vec<GroupVersionKind> {
            vec![GroupVersionKind::new(group, version, resource)]
        }
        fn schema(&self, _: &GroupVersionKind) -> Option<Value> {
            Some(tree(r#"{"type":"object"}"#))
        }
    }
    let rule = r#"{"apiGroups":["a"],"apiVersions":["v1"],"resources":["l","k","j","i","h","g","f","e","d","c","b","a"]}"#;
    let found = check(&policy(rule, "object.foo"), &Many, 7);
    assert_eq!(found[0].text.matches("Kind=").count(), TYPES_MAX);
    assert!(!found[0].text.contains("Kind=k"), "the first ones in order");
}
