//! The output of the log: text with one line for each changed field, and JSON.

use super::changes::{Change, FieldPath, changes};
use super::log::{Log, Version, Writer};
use crate::output::{one_line, pretty_json};
use crate::terminal::{Colour, paint};
use pintle_value::{Map, Value};
use std::fmt::Write;

/// The longest value in the text form, in characters; JSON has all of it.
const VALUE_CHARS_MAX: usize = 200;

/// The versions, the newest first, each with its changes.
pub(super) fn text(log: &Log, limit: usize, coloured: bool) -> String {
    let mut out = String::new();
    for (version, before) in log.newest_first().take(limit) {
        out.push_str(&paint(&head(version, before), Colour::Yellow, coloured));
        out.push('\n');
        let is_start = version.change == "OLDEST";
        let old = before.and_then(|before| before.object.as_ref()).filter(|_| !is_start);
        // The changes of the oldest version are unknown, and a deletion removes everything.
        let changed = match (&version.object, is_start) {
            (Some(object), false) => changes(old, Some(object)),
            _ => Vec::new(),
        };
        if changed.is_empty() && version.object.is_some() && !is_start {
            out.push_str("  (only what the server records: managedFields, generation)\n");
        }
        let kind = version.object.as_ref().map_or("", |object| object.str_at(&["kind"]));
        for change in changed {
            let is_secret = kind == "Secret" && is_secret_field(&change);
            let text = |value| if is_secret { "***".to_string() } else { one_line(value, VALUE_CHARS_MAX) };
            for (sign, value, colour) in [('-', change.from, Colour::Red), ('+', change.to, Colour::Green)] {
                let Some(value) = value else { continue };
                out.push_str(&paint(&format!("  {sign} {}: {}", change.path, text(value)), colour, coloured));
                out.push('\n');
            }
        }
        out.push('\n');
    }
    if log.versions.len() > limit || log.has_older {
        out.push_str("older versions are retained: --limit shows more\n");
    } else {
        _ = writeln!(out, "changes are retained since resourceVersion {}", log.since);
    }
    out
}

/// Whether a changed field of a Secret has, or may have, a secret value: its data, and the copy that kubectl apply makes.
fn is_secret_field(change: &Change<'_>) -> bool {
    change.path.starts_with(".data") || change.path.contains("last-applied-configuration")
}

/// The values that a field had, the newest first.
pub(super) fn field(log: &Log, path: &FieldPath, limit: usize, coloured: bool) -> String {
    let mut out = String::new();
    for (version, before) in changed_at(log, path).into_iter().take(limit) {
        out.push_str(&paint(&head(version, before), Colour::Yellow, coloured));
        match value_at(Some(version), path) {
            Some(value) => _ = writeln!(out, "  {}", one_line(value, VALUE_CHARS_MAX)),
            None => out.push_str("  (not set)\n"),
        }
    }
    out
}

/// Returns whether any version has the field.
pub(super) fn has_field(log: &Log, path: &FieldPath) -> bool {
    log.versions.iter().any(|version| value_at(Some(version), path).is_some())
}

/// The log as a JSON list.
pub(super) fn as_json(log: &Log, limit: usize) -> String {
    let item = |(version, before): (&Version, Option<&Version>)| {
        let mut item = describe_version(version, before);
        let old = before.and_then(|before| before.object.as_ref());
        if version.change != "OLDEST" {
            let changed = changes(old, version.object.as_ref()).into_iter().map(|change| {
                let mut entry = Map::default();
                entry.insert("path", Value::String(change.path.into()));
                for (key, value) in [("from", change.from), ("to", change.to)] {
                    if let Some(value) = value {
                        entry.insert(key, value.clone());
                    }
                }
                Value::Object(entry)
            });
            item.insert("changes", Value::Array(changed.collect()));
        }
        Value::Object(item)
    };
    pretty_json(&Value::Array(log.newest_first().take(limit).map(item).collect()))
}

/// The values of a field as a JSON list.
pub(super) fn field_as_json(log: &Log, path: &FieldPath, limit: usize) -> String {
    let item = |(version, before): (&Version, Option<&Version>)| {
        let mut item = describe_version(version, before);
        if let Some(value) = value_at(Some(version), path) {
            item.insert("value", value.clone());
        }
        Value::Object(item)
    };
    pretty_json(&Value::Array(changed_at(log, path).into_iter().take(limit).map(item).collect()))
}

/// The versions in which a field has another value than before, the newest first.
fn changed_at<'l>(log: &'l Log, path: &FieldPath) -> Vec<(&'l Version, Option<&'l Version>)> {
    let differs = |(version, before): &(&'l Version, Option<&'l Version>)| {
        let is_first = before.is_none() && value_at(Some(version), path).is_some();
        is_first || value_at(Some(version), path) != value_at(*before, path)
    };
    log.newest_first().filter(differs).collect()
}

fn value_at<'v>(version: Option<&'v Version>, path: &FieldPath) -> Option<&'v Value> {
    path.find(version?.object.as_ref()?)
}

/// `resourceVersion 12, 2026-01-02T15:04:05Z`
pub(super) fn moment_of(version: &Version) -> String {
    let time = version.time.map(|time| format!(", {}", time.rfc3339())).unwrap_or_default();
    format!("resourceVersion {}{time}", version.revision)
}

/// The heading of a version: `resourceVersion 12  2026-01-02T15:04:05Z  update  kubectl-edit`.
fn head(version: &Version, before: Option<&Version>) -> String {
    let time = version.time.map_or_else(|| "-".to_string(), |time| time.rfc3339().to_string());
    let writers: Vec<String> = version.writers(before).iter().map(writer_text).collect();
    let by = if writers.is_empty() { "-".to_string() } else { writers.join(", ") };
    format!("resourceVersion {}  {time}  {}  {by}", version.revision, version.verb(before))
}

fn writer_text(writer: &Writer) -> String {
    let manager = if writer.manager.is_empty() { "-" } else { &writer.manager };
    if writer.subresource.is_empty() {
        manager.to_string()
    } else {
        format!("{manager} ({})", writer.subresource)
    }
}

fn describe_version(version: &Version, before: Option<&Version>) -> Map {
    let text = |text: &str| Value::String(text.into());
    let mut item = Map::default();
    item.insert("resourceVersion", text(&version.revision.to_string()));
    if let Some(time) = version.time {
        item.insert("time", text(&time.rfc3339_micro()));
    }
    item.insert("type", text(&version.change));
    item.insert("verb", text(version.verb(before)));
    let writers = version.writers(before).into_iter().map(|writer| {
        let mut entry = Map::default();
        entry.insert("manager", text(&writer.manager));
        entry.insert("operation", text(&writer.operation));
        if !writer.subresource.is_empty() {
            entry.insert("subresource", text(&writer.subresource));
        }
        Value::Object(entry)
    });
    item.insert("managers", Value::Array(writers.collect()));
    item
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    fn log() -> Log {
        let page = br#"{"since":"1","items":[
          {"type":"ADDED","resourceVersion":"2","time":"2026-01-02T15:04:05.000000Z","object":{"spec":{"replicas":1},"metadata":{
            "managedFields":[{"manager":"kubectl","operation":"Update","time":"2026-01-02T15:04:05Z"}]}}},
          {"type":"MODIFIED","resourceVersion":"4","time":"2026-01-02T15:05:05.000000Z","object":{"spec":{"replicas":2},"metadata":{
            "managedFields":[{"manager":"kubectl","operation":"Update","time":"2026-01-02T15:04:05Z"},
              {"manager":"hpa","operation":"Update","subresource":"scale","time":"2026-01-02T15:05:05Z"}]}}},
          {"type":"DELETED","resourceVersion":"5"}]}"#;
        let mut log = Log::default();
        log.add_older(&json::parse(page).unwrap().value);
        log
    }

    #[test]
    fn the_text_says_when_who_and_what() {
        let want = "\
resourceVersion 5  -  delete  -

resourceVersion 4  2026-01-02T15:05:05Z  update  hpa (scale)
  - .spec.replicas: 1
  + .spec.replicas: 2

resourceVersion 2  2026-01-02T15:04:05Z  create  kubectl
  + .spec.replicas: 1

changes are retained since resourceVersion 1
";
        assert_eq!(text(&log(), 10, false), want);
        let coloured = text(&log(), 10, true);
        assert!(coloured.contains("\x1b[32m  + .spec.replicas: 2\x1b[0m"), "{coloured}");
        assert!(text(&log(), 1, false).ends_with("--limit shows more\n"));
    }

    #[test]
    fn secrets_are_not_printed() {
        let page = br#"{"since":"1","items":[
          {"type":"ADDED","resourceVersion":"2","object":{"kind":"Secret","data":{"a":"aHVudGVy"},"metadata":{"name":"s"}}},
          {"type":"MODIFIED","resourceVersion":"3","object":{"kind":"Secret","data":{"a":"b3RoZXI="},"metadata":{"name":"s"}}},
          {"type":"MODIFIED","resourceVersion":"4","object":{"kind":"Secret","data":{"a":"b3RoZXI="},"metadata":{"name":"s","generation":2}}}]}"#;
        let mut log = Log::default();
        log.add_older(&json::parse(page).unwrap().value);
        let want = "\
resourceVersion 4  -  update  -
  (only what the server records: managedFields, generation)

resourceVersion 3  -  update  -
  - .data.a: ***
  + .data.a: ***

resourceVersion 2  -  create  -
  + .data.a: ***
  + .kind: \"Secret\"
  + .metadata.name: \"s\"

changes are retained since resourceVersion 1
";
        assert_eq!(text(&log, 10, false), want);
        assert!(as_json(&log, 10).contains("aHVudGVy"));
    }

    #[test]
    fn a_field_is_followed() {
        let path = FieldPath::parse(".spec.replicas").unwrap();
        let want = "\
resourceVersion 5  -  delete  -  (not set)
resourceVersion 4  2026-01-02T15:05:05Z  update  hpa (scale)  2
resourceVersion 2  2026-01-02T15:04:05Z  create  kubectl  1
";
        assert_eq!(field(&log(), &path, 10, false), want);
        let parsed = json::parse(field_as_json(&log(), &path, 1).as_bytes()).unwrap().value;
        assert_eq!(parsed.as_array().map(<[Value]>::len), Some(1));
    }
}
