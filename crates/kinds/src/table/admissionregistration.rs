//! Rows of webhook configurations and admission policies.

use super::BuiltinPrinter;
use super::cell::{age, count, is_set, name, text, text_at, texts};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[
    BuiltinPrinter {
        kind: "admissionregistration.k8s.io/MutatingWebhookConfiguration",
        needs: &["webhooks#"],
        cells: webhooks,
    },
    BuiltinPrinter {
        kind: "admissionregistration.k8s.io/ValidatingWebhookConfiguration",
        needs: &["webhooks#"],
        cells: webhooks,
    },
    BuiltinPrinter {
        kind: "admissionregistration.k8s.io/MutatingAdmissionPolicy",
        needs: &["spec.mutations#", "spec.paramKind"],
        cells: mutating_policy,
    },
    BuiltinPrinter {
        kind: "admissionregistration.k8s.io/ValidatingAdmissionPolicy",
        needs: &["spec.validations#", "spec.paramKind"],
        cells: validating_policy,
    },
    BuiltinPrinter {
        kind: "admissionregistration.k8s.io/MutatingAdmissionPolicyBinding",
        needs: &["spec.policyName", "spec.paramRef"],
        cells: binding,
    },
    BuiltinPrinter {
        kind: "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding",
        needs: &["spec.policyName", "spec.paramRef"],
        cells: binding,
    },
];

fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), Value::Int(count(object, &["webhooks"])), age(object, now)]
}

fn mutating_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        Value::Int(count(object, &["spec", "mutations"])),
        param_kind(object),
        age(object, now),
    ]
}

fn validating_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        Value::Int(count(object, &["spec", "validations"])),
        param_kind(object),
        age(object, now),
    ]
}

fn param_kind(object: &Value) -> Value {
    if !is_set(object, &["spec", "paramKind"]) {
        return text("<unset>");
    }
    let part = |key: &str| object.str_at(&["spec", "paramKind", key]);
    text(format!("{}/{}", part("apiVersion"), part("kind")))
}

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text_at(object, &["spec", "policyName"]), param_ref(object), age(object, now)]
}

fn param_ref(object: &Value) -> Value {
    let part = |key: &str| object.str_at(&["spec", "paramRef", key]);
    let selector = object.at(&["spec", "paramRef", "selector"]).filter(|selector| !selector.is_null());
    match (part("namespace"), part("name"), selector) {
        (_, "", None) => text("<unset>"),
        (_, "", Some(selector)) => text(go_selector(selector)),
        // It is unknown here whether the parameter is namespaced.
        ("", name, _) => text(format!("*/{name}")),
        (namespace, name, _) => text(format!("{namespace}/{name}")),
    }
}

/// A label selector as Go prints the struct.
fn go_selector(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object).map(|map| {
        map.iter().map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or(""))).collect::<String>()
    });
    let expressions: String = selector
        .items_at(&["matchExpressions"])
        .iter()
        .map(|expression| {
            let part = |key: &str| expression.str_at(&[key]);
            let values = texts(expression, &["values"]).join(" ");
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},",
                part("key"),
                part("operator")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}",
        labels.unwrap_or_default()
    )
}
