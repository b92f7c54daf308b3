//! Rows of webhook configurations and admission policies.

use super::cell::{text, texts};
use pintle_value::Value;

pub(super) fn param_ref(object: &Value) -> Value {
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
