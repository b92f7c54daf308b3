//! The results, and their text and JSON forms.

use super::costs::RuleCost;
use super::documents::{Document, Place};
use super::mistyped;
use crate::terminal::{Colour, paint};
use pintle_meta::Status;
use pintle_value::yaml::Position;
use pintle_value::{Value, json};
use std::fmt::Write;

/// What precedes the errors of strict decoding in a message.
const STRICT: &str = "strict decoding error: ";

/// The result for an object.
pub(super) enum Outcome {
    /// The object would be stored in this form.
    Accepted(Option<Value>),
    /// The object would be rejected.
    Refused(Box<Status>),
    /// The object was not checked.
    Skipped(&'static str),
    /// The document is not an object, or cannot be parsed.
    Unreadable(String),
}

/// An object and its result.
pub(super) struct Finding {
    pub(super) place: Place,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) outcome: Outcome,
    pub(super) warnings: Vec<String>,
    pub(super) costs: Vec<RuleCost>,
    /// The error that remains if unknown fields are ignored.
    pub(super) further: Option<Box<Status>>,
    /// The field whose value has the wrong type, if that is the error.
    mistyped: Option<String>,
}

/// One error of an object, and its position.
pub(super) struct Problem {
    /// A machine-readable reason, such as `FieldValueInvalid`.
    pub(super) reason: String,
    /// The field; empty if the error is about the object as a whole.
    pub(super) field: String,
    pub(super) message: String,
    pub(super) position: Position,
}

impl Problem {
    /// Field and message. Messages of strict decoding include the field.
    pub(super) fn text(&self) -> String {
        match self.field.as_str() {
            field if field.is_empty() || self.message.contains(&format!("\"{field}\"")) => {
                self.message.clone()
            }
            field => format!("{field}: {}", self.message),
        }
    }
}

impl Finding {
    pub(super) fn new(document: &Document, outcome: Outcome) -> Finding {
        let text = |path: &[&str]| document.tree.str_at(path).to_string();
        let name = match text(&["metadata", "name"]) {
            name if name.is_empty() => text(&["metadata", "generateName"]),
            name => name,
        };
        let mistyped = match &outcome {
            Outcome::Refused(status) => mistyped::field_of(&document.tree, &status.message),
            _ => None,
        };
        Finding {
            place: document.place.clone(),
            kind: text(&["kind"]),
            name,
            outcome,
            warnings: Vec::new(),
            costs: Vec::new(),
            further: None,
            mistyped,
        }
    }

    /// Returns whether strict decoding refused the object, so that it was not validated.
    pub(super) fn has_unknown_fields(&self) -> bool {
        matches!(&self.outcome, Outcome::Refused(status) if status.message.contains(STRICT))
    }

    /// `Deployment web`, as far as known.
    pub(super) fn title(&self) -> String {
        match (self.kind.as_str(), self.name.as_str()) {
            ("", "") => "document".to_string(),
            ("", name) => name.to_string(),
            (kind, "") => kind.to_string(),
            (kind, name) => format!("{kind} {name}"),
        }
    }

    /// The errors of the object.
    pub(super) fn problems(&self) -> Vec<Problem> {
        match &self.outcome {
            Outcome::Accepted(_) | Outcome::Skipped(_) => Vec::new(),
            Outcome::Unreadable(why) => vec![Problem {
                reason: "Unreadable".to_string(),
                field: String::new(),
                message: why.clone(),
                position: self.place.of(""),
            }],
            Outcome::Refused(status) => {
                let all = std::iter::once(status).chain(&self.further);
                all.flat_map(|status| self.problems_of(status)).collect()
            }
        }
    }

    fn problems_of(&self, status: &Status) -> Vec<Problem> {
        if status.details.causes.is_empty() {
            return self.complaints(status);
        }
        let problem = |cause: &pintle_meta::Cause| Problem {
            reason: cause.reason.to_string(),
            field: cause.field.to_string(),
            message: cause.message.to_string(),
            position: self.place.of(&cause.field),
        };
        status.details.causes.iter().map(problem).collect()
    }

    /// The errors in a message without causes. Strict decoding separates its errors with commas.
    fn complaints(&self, status: &Status) -> Vec<Problem> {
        let of = |message: &str, field: &str, position: Position| Problem {
            reason: status.reason.as_str().to_string(),
            field: field.to_string(),
            message: message.to_string(),
            position,
        };
        let message = status.message.as_str();
        let Some((before, listed)) = message.split_once(STRICT) else {
            let field = self.mistyped.as_deref().unwrap_or_default();
            return vec![of(message, field, self.place.of(field))];
        };
        let mut out = Vec::new();
        for part in listed.split(", ") {
            let field = part.split_once(" field \"").and_then(|(_, rest)| rest.strip_suffix('"'));
            let line = part.rsplit_once("line ").and_then(|(_, rest)| rest.split_once(':')?.0.parse().ok());
            match (field, line) {
                (Some(field), _) => out.push(of(part, field, self.place.of(field))),
                (None, Some(line)) => out.push(of(part, "", self.place.of_line(line))),
                // The comma is part of a name, so this is one message.
                (None, None) => return vec![of(message, "", self.place.of(""))],
            }
        }
        if let Some(first) = out.first_mut() {
            first.message = format!("{before}{STRICT}{}", first.message);
        }
        out
    }
}

/// `FILE:LINE:COLUMN`, the format of editors and compilers.
fn at(finding: &Finding, position: Position) -> String {
    format!("{}:{}:{}", finding.place.file, position.line, position.column)
}

/// A line for each object and for each error, and totals.
pub(super) fn text(found: &[Finding], coloured: bool) -> String {
    let mut out = String::new();
    let (mut refused, mut skipped) = (0_usize, 0_usize);
    for finding in found {
        let outcome = match &finding.outcome {
            Outcome::Accepted(_) => paint("ok", Colour::Green, coloured),
            Outcome::Skipped(why) => {
                skipped = skipped.saturating_add(1);
                format!("skipped: {why}")
            }
            Outcome::Refused(_) | Outcome::Unreadable(_) => {
                refused = refused.saturating_add(1);
                paint("invalid", Colour::Red, coloured)
            }
        };
        _ = writeln!(out, "{}: {}: {outcome}", at(finding, finding.place.of("")), finding.title());
        for problem in finding.problems() {
            let error = paint("error", Colour::Red, coloured);
            let place = at(finding, problem.position);
            _ = writeln!(out, "{place}: {error}: {}", problem.text());
        }
        for warning in &finding.warnings {
            let place = at(finding, finding.place.of(warned_field(warning)));
            _ = writeln!(out, "{place}: {}: {warning}", paint("warning", Colour::Yellow, coloured));
        }
        for RuleCost { path, estimated, limit } in &finding.costs {
            let percent = *estimated as f64 * 100.0 / (*limit).max(1) as f64;
            _ = writeln!(out, "  {path}: cost {estimated} of {limit} ({percent:.1} %)");
        }
    }
    _ = writeln!(
        out,
        "{} checked, {refused} refused, {skipped} skipped",
        found.len().saturating_sub(skipped)
    );
    out
}

/// Warnings of fields begin with the field's path.
pub(super) fn warned_field(warning: &str) -> &str {
    match warning.split_once(": ") {
        Some((field, _)) if !field.contains(' ') => field,
        _ => "",
    }
}

/// A list of objects.
pub(super) fn json(found: &[Finding]) -> String {
    print(&Value::Array(found.iter().map(in_json).collect()))
}

/// A tree as a line of JSON.
pub(super) fn print(tree: &Value) -> String {
    let mut out = Vec::new();
    json::print(tree, &mut out);
    out.push(b'\n');
    String::from_utf8_lossy(&out).into_owned()
}

pub(super) fn number(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn in_json(finding: &Finding) -> Value {
    let mut out = Value::object();
    let texts = [("file", &finding.place.file), ("kind", &finding.kind), ("name", &finding.name)];
    for (key, text) in texts {
        out.set_at(&[key], text.as_str().into());
    }
    set_position(&mut out, finding.place.of(""));
    let (outcome, message) = match &finding.outcome {
        Outcome::Accepted(_) => ("accepted", ""),
        Outcome::Skipped(why) => ("skipped", *why),
        Outcome::Refused(_) => ("refused", ""),
        Outcome::Unreadable(why) => ("unreadable", why.as_str()),
    };
    out.set_at(&["outcome"], outcome.into());
    if !message.is_empty() {
        out.set_at(&["message"], message.into());
    }
    if let Outcome::Refused(status) = &finding.outcome {
        out.set_at(&["status"], status.to_value());
    }
    let problem = |problem: Problem| {
        let mut out = Value::object();
        let texts = [("field", &problem.field), ("message", &problem.message), ("reason", &problem.reason)];
        for (key, text) in texts {
            out.set_at(&[key], text.as_str().into());
        }
        set_position(&mut out, problem.position);
        out
    };
    out.set_at(&["problems"], Value::Array(finding.problems().into_iter().map(problem).collect()));
    let texts = |all: &[String]| Value::Array(all.iter().map(|text| text.as_str().into()).collect());
    out.set_at(&["warnings"], texts(&finding.warnings));
    let cost = |cost: &RuleCost| {
        let mut out = Value::object();
        out.set_at(&["path"], cost.path.as_str().into());
        for (key, number) in [("estimated", cost.estimated), ("limit", cost.limit)] {
            out.set_at(&[key], Value::Int(i64::try_from(number).unwrap_or(i64::MAX)));
        }
        out
    };
    out.set_at(&["costs"], Value::Array(finding.costs.iter().map(cost).collect()));
    out
}

fn set_position(out: &mut Value, position: Position) {
    out.set_at(&["line"], number(position.line));
    out.set_at(&["column"], number(position.column));
}
