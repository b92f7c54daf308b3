//! What was found, for people and for programs.

use super::costs::RuleCost;
use super::documents::Document;
use pintle_meta::Status;
use pintle_value::{Value, json};
use std::fmt::Write;

/// What would become of an object.
pub(super) enum Outcome {
    /// It would be stored like this.
    Accepted(Option<Value>),
    /// It would be refused.
    Refused(Box<Status>),
    /// It was not looked at.
    Skipped(&'static str),
}

/// An object and what would become of it.
pub(super) struct Finding {
    file: String,
    kind: String,
    name: String,
    pub(super) outcome: Outcome,
    pub(super) warnings: Vec<String>,
    pub(super) costs: Vec<RuleCost>,
}

impl Finding {
    pub(super) fn skipped(document: &Document, why: &'static str) -> Finding {
        let text = |path: &[&str]| document.tree.str_at(path).to_string();
        let name = match text(&["metadata", "name"]) {
            name if name.is_empty() => text(&["metadata", "generateName"]),
            name => name,
        };
        Finding {
            file: document.file.clone(),
            kind: text(&["kind"]),
            name,
            outcome: Outcome::Skipped(why),
            warnings: Vec::new(),
            costs: Vec::new(),
        }
    }
}

/// A line for each object, lines below it for what is wrong, and a sum.
pub(super) fn text(found: &[Finding]) -> String {
    let mut out = String::new();
    let (mut refused, mut skipped) = (0, 0);
    for Finding { file, kind, name, outcome, warnings, costs } in found {
        _ = write!(out, "{file}: {kind} {name}: ");
        match outcome {
            Outcome::Accepted(_) => out.push_str("ok\n"),
            Outcome::Skipped(why) => {
                skipped += 1;
                _ = writeln!(out, "skipped: {why}");
            }
            Outcome::Refused(status) if status.details.causes.is_empty() => {
                refused += 1;
                _ = writeln!(out, "{}", status.message);
            }
            Outcome::Refused(status) => {
                refused += 1;
                out.push_str("invalid\n");
                for cause in &status.details.causes {
                    _ = writeln!(out, "  {}: {}", cause.field, cause.message);
                }
            }
        }
        warnings.iter().for_each(|warning| _ = writeln!(out, "  warning: {warning}"));
        for RuleCost { path, estimated, limit } in costs {
            let percent = *estimated as f64 * 100.0 / (*limit).max(1) as f64;
            _ = writeln!(out, "  {path}: cost {estimated} of {limit} ({percent:.1} %)");
        }
    }
    _ = writeln!(out, "{} checked, {refused} refused, {skipped} skipped", found.len() - skipped);
    out
}

/// A list of objects.
pub(super) fn json(found: &[Finding]) -> String {
    let mut out = Vec::new();
    json::print(&Value::Array(found.iter().map(in_json).collect()), &mut out);
    out.push(b'\n');
    String::from_utf8_lossy(&out).into_owned()
}

fn in_json(finding: &Finding) -> Value {
    let mut out = Value::object();
    for (key, text) in [("file", &finding.file), ("kind", &finding.kind), ("name", &finding.name)] {
        out.set_at(&[key], text.as_str().into());
    }
    match &finding.outcome {
        Outcome::Accepted(_) => out.set_at(&["outcome"], "accepted".into()),
        Outcome::Skipped(why) => {
            out.set_at(&["outcome"], "skipped".into());
            out.set_at(&["message"], (*why).into());
        }
        Outcome::Refused(status) => {
            out.set_at(&["outcome"], "refused".into());
            out.set_at(&["status"], status.to_value());
        }
    }
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
