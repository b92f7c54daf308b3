//! The output: lines of YAML with columns before them, and JSON.

use pintle_apply::PathElement;
use pintle_apply::managed::{Blame, Line, Manager, blame};
use pintle_value::{Map, Value, json, yaml};
use std::fmt::Write;

/// Colours of the managers, in turn.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];

/// The columns of a line.
type Row = Vec<String>;

/// The object as YAML, each line after its last writer (`+1` means that there are other owners), or after all owners.
pub(super) fn text(object: &Value, wide: bool, coloured: bool) -> String {
    let blame = blame(object);
    let mut rows: Vec<(Row, Option<usize>, String)> = Vec::with_capacity(blame.lines.len());
    let mut dashes = 0_usize;
    for (at, line) in blame.lines.iter().enumerate() {
        let inside = blame.lines.get(at.saturating_add(1)).is_some_and(|next| next.depth > line.depth);
        if line.key.is_none() && inside {
            // The item begins on the line of its first member.
            dashes = dashes.saturating_add(1);
            continue;
        }
        let latest =
            line.owners.iter().copied().max_by_key(|owner| blame.managers.get(*owner).map(|m| &m.time));
        let text = format!("{}{}", indent(line, dashes), written(line, inside));
        dashes = 0;
        rows.push((line_columns(&blame, line, latest, wide), latest, text));
    }
    let widths: Vec<usize> = (0..if wide { 5 } else { 3 })
        .map(|column| {
            let width = |(row, ..): &(Row, _, _)| row.get(column).map_or(0, |cell| cell.chars().count());
            rows.iter().map(width).max().unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for (row, latest, text) in rows {
        let mut cells = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            _ = write!(cells, "{cell:<width$}  ");
        }
        match latest.filter(|_| coloured) {
            Some(owner) => {
                let colour = COLOURS.iter().cycle().nth(owner).copied().unwrap_or(0);
                _ = write!(out, "\x1b[{colour}m{cells}\x1b[0m");
            }
            None => out.push_str(&cells),
        }
        out.push_str(&text);
        out.push('\n');
    }
    out
}

/// The spaces and dashes before a line that also begins `dashes` items. Items have the indentation of their list's key.
fn indent(line: &Line<'_>, dashes: usize) -> String {
    let is_field = |element: &PathElement| matches!(element, PathElement::Field(_));
    let deeper =
        |pair: &&[PathElement]| !matches!(pair, [outer, inner] if is_field(outer) && !is_field(inner));
    let level = line.path.0.windows(2).filter(deeper).count();
    let own_dash = usize::from(line.key.is_none());
    format!("{}{}", "  ".repeat(level.saturating_sub(dashes)), "- ".repeat(dashes.saturating_add(own_dash)))
}

/// `key: value`, `key:` or the value of an item.
fn written(line: &Line<'_>, inside: bool) -> String {
    let value = if inside { String::new() } else { scalar(line.value) };
    match line.key {
        None => value,
        Some(key) if inside => format!("{}:", scalar(&Value::String(key.clone()))),
        Some(key) => format!("{}: {value}", scalar(&Value::String(key.clone()))),
    }
}

/// A value on one line.
pub(super) fn scalar(value: &Value) -> String {
    let mut out = Vec::new();
    yaml::print(value, &mut out);
    let text = String::from_utf8_lossy(&out).trim_end().to_string();
    if text.contains('\n') {
        out.clear();
        json::print(value, &mut out);
        return String::from_utf8_lossy(&out).into_owned();
    }
    text
}

fn line_columns(blame: &Blame<'_>, line: &Line<'_>, latest: Option<usize>, wide: bool) -> Row {
    let owners: Vec<&Manager> = line.owners.iter().filter_map(|owner| blame.managers.get(*owner)).collect();
    let Some(latest) = latest.and_then(|owner| blame.managers.get(owner)) else {
        return vec![String::new(); if wide { 5 } else { 3 }];
    };
    if !wide {
        let others = owners.len().saturating_sub(1);
        let more = if others > 0 { format!(" +{others}") } else { String::new() };
        return vec![format!("{}{more}", latest.manager), request_kind(latest), latest.time.to_string()];
    }
    let all =
        |part: &dyn Fn(&Manager) -> String| owners.iter().map(|m| part(m)).collect::<Vec<_>>().join(",");
    vec![
        all(&|m| m.manager.to_string()),
        all(&|m| m.operation.to_string()),
        all(&|m| m.time.to_string()),
        all(&|m| m.api_version.to_string()),
        all(&|m| if m.subresource.is_empty() { "-".to_string() } else { m.subresource.to_string() }),
    ]
}

/// The operation, with the subresource that it was sent to: `Update/status`.
fn request_kind(manager: &Manager) -> String {
    match manager.subresource.as_str() {
        "" => manager.operation.to_string(),
        subresource => format!("{}/{subresource}", manager.operation),
    }
}

/// A list of `{apiVersion, kind, namespace, name, fields: [{path, value, owners: […]}]}`; only scalars have a `value`.
pub(super) fn json(objects: &[Value]) -> String {
    let list = objects.iter().map(|object| {
        let mut out = Map::new();
        for (key, text) in [
            ("apiVersion", object.str_at(&["apiVersion"])),
            ("kind", object.str_at(&["kind"])),
            ("namespace", object.str_at(&["metadata", "namespace"])),
            ("name", object.str_at(&["metadata", "name"])),
        ] {
            out.insert(key, text.into());
        }
        let blame = blame(object);
        let fields = blame.lines.iter().map(|line| field_json(&blame, line)).collect::<Vec<_>>();
        out.insert("fields", Value::Array(fields));
        Value::Object(out)
    });
    let mut out = Vec::new();
    json::print_pretty(&Value::Array(list.collect()), &mut out);
    let mut text = String::from_utf8_lossy(&out).into_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn field_json(blame: &Blame<'_>, line: &Line<'_>) -> Value {
    let mut out = Map::new();
    out.insert("path", line.path.to_string().into());
    let has_parts = match line.value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => false,
    };
    if !has_parts {
        out.insert("value", line.value.clone());
    }
    let owners = line.owners.iter().filter_map(|owner| blame.managers.get(*owner)).map(|manager| {
        let mut out = Map::new();
        for (key, text) in [
            ("manager", &manager.manager),
            ("operation", &manager.operation),
            ("apiVersion", &manager.api_version),
            ("subresource", &manager.subresource),
            ("time", &manager.time),
        ] {
            out.insert(key, Value::String(text.clone()));
        }
        Value::Object(out)
    });
    out.insert("owners", Value::Array(owners.collect()));
    Value::Object(out)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use expect_test::expect;

    fn object() -> Value {
        deployment(r#"{name: c, image: "nginx", args: ["a b", "line\nline"], ports: [{containerPort: 80}]}"#)
    }

    /// A Deployment with this container, which two managers own.
    pub(in crate::owners) fn deployment(container: &str) -> Value {
        let text = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
  managedFields:
  - {manager: kubectl, operation: Apply, apiVersion: apps/v1, time: "2026-01-01T00:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}}}}}}}
  - {manager: hpa, operation: Update, apiVersion: apps/v1, subresource: scale, time: "2026-01-02T00:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:replicas": {}}}}
spec:
  replicas: 3
  template:
    spec:
      containers:
      - CONTAINER
"#;
        yaml::parse(text.replace("CONTAINER", container).as_bytes()).unwrap().value
    }

    #[test]
    fn lines_are_printed_after_their_owners() {
        expect![[r#"
                                                         apiVersion: apps/v1
                                                         kind: Deployment
                                                         metadata:
                                                           labels:
            kubectl  Apply         2026-01-01T00:00:00Z      app: web
                                                           name: web
                                                         spec:
            hpa +1   Update/scale  2026-01-02T00:00:00Z    replicas: 3
                                                           template:
                                                             spec:
                                                               containers:
                                                               - args:
                                                                 - a b
                                                                 - "line\nline"
            kubectl  Apply         2026-01-01T00:00:00Z          image: nginx
            kubectl  Apply         2026-01-01T00:00:00Z          name: c
                                                                 ports:
                                                                 - containerPort: 80
        "#]]
        .assert_eq(&text(&object(), false, false));
    }

    #[test]
    fn wide_lines_name_all_owners_and_colours_are_only_for_terminals() {
        let wide = text(&object(), true, false);
        assert!(wide.contains("kubectl,hpa  Apply,Update"), "{wide}");
        assert!(wide.contains("-,scale"), "{wide}");
        assert!(!wide.contains('\x1b'));
        assert!(text(&object(), false, true).contains("\x1b[33mhpa +1"));
    }

    #[test]
    fn json_is_stable() {
        let all = json(&[object()]);
        let parsed = json::parse(all.as_bytes()).unwrap().value;
        let fields = parsed.as_array().unwrap()[0].items_at(&["fields"]).to_vec();
        let replicas = fields.iter().find(|f| f.str_at(&["path"]) == ".spec.replicas").unwrap();
        expect![[r#"{"owners":[{"apiVersion":"apps/v1","manager":"kubectl","operation":"Apply","subresource":"","time":"2026-01-01T00:00:00Z"},{"apiVersion":"apps/v1","manager":"hpa","operation":"Update","subresource":"scale","time":"2026-01-02T00:00:00Z"}],"path":".spec.replicas","value":3}"#]]
            .assert_eq(&json::text(replicas));
    }
}
