//! The conflicts that an apply of a file would have: a dry run of the apply, and the owners of the fields in conflict.

use super::client::{Client, ClientError};
use super::resolve;
use super::tree::title;
use crate::check::documents::Document;
use crate::output::one_line;
use pintle_apply::managed::{Blame, blame};
use pintle_apply::{FieldPath, PathElement};
use pintle_meta::GroupVersion;
use pintle_value::Value;
use pintle_value::yaml::Position;
use std::fmt::Write;

/// The longest value that is printed.
const VALUE_CHARS_MAX: usize = 60;

const CONFLICT: u16 = 409;
const NOT_FOUND: u16 = 404;

/// The manager and namespace of the apply.
pub(super) struct Applier<'a> {
    pub(super) manager: &'a str,
    pub(super) namespace: &'a str,
}

/// The expected result for an object of the file.
pub(super) struct Expected {
    file: String,
    position: Position,
    kind: String,
    name: String,
    outcome: Outcome,
}

enum Outcome {
    Created,
    Applied,
    Conflicts(Vec<Conflict>),
    Refused(String),
}

/// A field that another manager owns.
struct Conflict {
    field: String,
    /// The server's message.
    message: String,
    /// Each owner, with operation and time.
    owners: Vec<String>,
    /// The value on the server, and the one of the file.
    live: Option<Value>,
    wanted: Option<Value>,
    position: Position,
}

impl Expected {
    /// The number of fields in conflict; a rejected object counts as one.
    pub(super) fn problems(&self) -> usize {
        match &self.outcome {
            Outcome::Created | Outcome::Applied => 0,
            Outcome::Conflicts(all) => all.len(),
            Outcome::Refused(_) => 1,
        }
    }
}

/// Determines the result of applying this document by a dry run on the server.
pub(super) async fn expect(
    connection: &Client,
    document: &Document,
    applier: &Applier<'_>,
) -> Result<Expected, ClientError> {
    let (kind, name) = (document.tree.str_at(&["kind"]), document.tree.str_at(&["metadata", "name"]));
    let expected = |outcome| Expected {
        file: document.place.file.clone(),
        position: document.place.of(""),
        kind: kind.to_string(),
        name: name.to_string(),
        outcome,
    };
    if let Some(why) = &document.error {
        return Ok(expected(Outcome::Refused(why.clone())));
    }
    let version = GroupVersion::parse(document.tree.str_at(&["apiVersion"])).unwrap_or_default();
    let namespace = match document.tree.str_at(&["metadata", "namespace"]) {
        "" => applier.namespace,
        given => given,
    };
    let Some(path) = resolve::collection_of_kind(connection, &version, kind, namespace).await? else {
        return Ok(expected(Outcome::Refused("the server does not know this kind".to_string())));
    };
    if name.is_empty() {
        return Ok(expected(Outcome::Refused("apply needs metadata.name".to_string())));
    }
    let path = format!("{path}/{}", resolve::escaped(name));
    let (status, live) = connection.send("GET", &path, "", bytes::Bytes::new()).await?;
    let query = format!("dryRun=All&force=false&fieldManager={}", resolve::escaped(applier.manager));
    let content = "application/apply-patch+yaml";
    let applied =
        connection.send("PATCH", &format!("{path}?{query}"), content, document.body.clone()).await?;
    let outcome = match applied {
        (200..=299, _) if status == NOT_FOUND => Outcome::Created,
        (200..=299, _) => Outcome::Applied,
        (CONFLICT, answer) if !answer.items_at(&["details", "causes"]).is_empty() => {
            Outcome::Conflicts(read_conflicts(&answer, &live, document))
        }
        (_, answer) => Outcome::Refused(answer.str_at(&["message"]).to_string()),
    };
    Ok(expected(outcome))
}

fn read_conflicts(answer: &Value, live: &Value, document: &Document) -> Vec<Conflict> {
    let blame = blame(live);
    let of_cause = |cause: &Value| {
        let field = cause.str_at(&["field"]);
        let line = blame.lines.iter().find(|line| line.path.to_string() == field);
        let place = line.map(|line| locate_in_file(&line.path, &document.tree));
        Conflict {
            field: field.to_string(),
            message: cause.str_at(&["message"]).to_string(),
            owners: line.map(|line| titles(&blame, &line.owners)).unwrap_or_default(),
            live: line.map(|line| line.value.clone()),
            wanted: place.as_ref().and_then(|(_, value)| value.cloned()),
            position: document.place.of(place.as_ref().map_or("", |(path, _)| path)),
        }
    };
    answer.items_at(&["details", "causes"]).iter().map(of_cause).collect()
}

fn titles(blame: &Blame<'_>, owners: &[usize]) -> Vec<String> {
    owners.iter().filter_map(|owner| blame.managers.get(*owner)).map(title).collect()
}

/// Returns the path of a field in the file, with list items by index, and its value if it exists.
fn locate_in_file<'v>(path: &FieldPath, tree: &'v Value) -> (String, Option<&'v Value>) {
    let mut text = String::new();
    let mut value = Some(tree);
    for element in &path.0 {
        let next = match (element, value) {
            (_, None) => break,
            (PathElement::Field(name), Some(value)) => {
                _ = write!(text, ".{name}");
                value.get(name)
            }
            (element, Some(Value::Array(items))) => {
                let matches_element = |(at, item): &(usize, &Value)| match element {
                    PathElement::Key(fields) => {
                        fields.iter().all(|(name, value)| item.get(name) == Some(value))
                    }
                    PathElement::Value(value) => value == *item,
                    PathElement::Index(index) => usize::try_from(*index) == Ok(*at),
                    PathElement::Field(_) => false,
                };
                let found = items.iter().enumerate().find(matches_element);
                if let Some((at, _)) = found {
                    _ = write!(text, "[{at}]");
                }
                found.map(|(_, item)| item)
            }
            _ => None,
        };
        value = next;
    }
    (text.trim_start_matches('.').to_string(), value)
}

/// A line for each object and for each conflict, with its position in the file.
pub(super) fn text(all: &[Expected]) -> String {
    let mut out = String::new();
    for Expected { file, position, kind, name, outcome } in all {
        let head = format!("{file}:{}:{}: {kind} {name}", position.line, position.column);
        _ = match outcome {
            Outcome::Created => writeln!(out, "{head}: would be created"),
            Outcome::Applied => writeln!(out, "{head}: no conflicts"),
            Outcome::Refused(why) => writeln!(out, "{head}: refused: {why}"),
            Outcome::Conflicts(conflicts) => writeln!(out, "{head}: conflicts: {}", conflicts.len()),
        };
        let Outcome::Conflicts(conflicts) = outcome else { continue };
        for conflict in conflicts {
            let place = format!("{file}:{}:{}", conflict.position.line, conflict.position.column);
            let values = match (&conflict.live, &conflict.wanted) {
                (Some(live), Some(wanted)) => {
                    format!(
                        ": {} on the server, {} here",
                        one_line(live, VALUE_CHARS_MAX),
                        one_line(wanted, VALUE_CHARS_MAX)
                    )
                }
                _ => String::new(),
            };
            let owners = match conflict.owners.as_slice() {
                [] => conflict.message.clone(),
                owners => owners.join("; "),
            };
            _ = writeln!(out, "{place}: {}{values} ({owners})", conflict.field);
        }
    }
    out
}

/// A list of `{file, line, column, kind, name, outcome, conflicts}`.
pub(super) fn tree(all: &[Expected]) -> Value {
    use crate::output::{number, object};
    let position = |out: &mut Value, position: &Position| {
        out.set_at(&["line"], number(position.line));
        out.set_at(&["column"], number(position.column));
    };
    let conflict = |conflict: &Conflict| {
        let owners = conflict.owners.iter().map(|owner| owner.as_str().into()).collect();
        let mut out = object([
            ("field", conflict.field.as_str().into()),
            ("message", conflict.message.as_str().into()),
            ("owners", Value::Array(owners)),
        ]);
        position(&mut out, &conflict.position);
        for (key, value) in [("live", &conflict.live), ("wanted", &conflict.wanted)] {
            if let Some(value) = value {
                out.set_at(&[key], value.clone());
            }
        }
        out
    };
    let one = |expected: &Expected| {
        let (outcome, message, conflicts) = match &expected.outcome {
            Outcome::Created => ("created", "", &[][..]),
            Outcome::Applied => ("applied", "", &[][..]),
            Outcome::Refused(why) => ("refused", why.as_str(), &[][..]),
            Outcome::Conflicts(all) => ("conflicts", "", all.as_slice()),
        };
        let mut out = object([
            ("file", expected.file.as_str().into()),
            ("kind", expected.kind.as_str().into()),
            ("name", expected.name.as_str().into()),
            ("outcome", outcome.into()),
            ("conflicts", Value::Array(conflicts.iter().map(conflict).collect())),
        ]);
        if !message.is_empty() {
            out.set_at(&["message"], message.into());
        }
        position(&mut out, &expected.position);
        out
    };
    Value::Array(all.iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_by_their_keys() {
        let tree = pintle_value::yaml::parse(
            b"spec: {containers: [{name: a}, {name: b, image: x}], finalizers: [u, v], list: [1, 2]}",
        );
        let tree = tree.unwrap().value;
        let field = |name: &str| PathElement::Field(name.into());
        let named = |name: &str| PathElement::key(vec![("name".into(), name.into())]);
        for (path, want, found) in [
            (
                vec![field("spec"), field("containers"), named("b"), field("image")],
                "spec.containers[1].image",
                true,
            ),
            (vec![field("spec"), field("containers"), named("c"), field("image")], "spec.containers", false),
            (
                vec![field("spec"), field("finalizers"), PathElement::Value("v".into())],
                "spec.finalizers[1]",
                true,
            ),
            (vec![field("spec"), field("list"), PathElement::Index(0)], "spec.list[0]", true),
            (vec![field("spec"), field("nope")], "spec.nope", false),
        ] {
            let (text, value) = locate_in_file(&FieldPath(path), &tree);
            assert_eq!((text.as_str(), value.is_some()), (want, found));
        }
    }
}
