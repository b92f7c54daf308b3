//! Errors of decoding into Go types, with the messages and paths of Go's JSON decoder.

use crate::model::{Arena, Field, Shape, Struct};
use pintle_meta::field::quoted;
use pintle_value::Str;
use std::fmt::Write;

/// How many unknown fields are reported, as kube-apiserver caps its strict errors.
pub const STRICT_ERRORS_MAX: usize = 100;

/// Collects the errors that only matter to strict requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strict {
    /// Full paths of unknown fields (`spec.containers[0].nmae`), at most [`STRICT_ERRORS_MAX`].
    pub unknown: Vec<Str>,
    /// Whether the paths lack the keys of maps, as those of Go's converter of unstructured objects do.
    pub omits_keys: bool,
}

impl Strict {
    /// The errors with kube-apiserver's messages: `unknown field "spec.foo"`.
    pub fn texts(&self) -> Vec<String> {
        let text = |path: &Str| {
            if self.omits_keys {
                format!("unknown field \"{path}\"")
            } else {
                format!("unknown field {}", quoted(path))
            }
        };
        self.unknown.iter().map(text).collect()
    }
}

/// Why a tree does not match its type. The message is kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TypeError {
    message: String,
    mismatch: Option<Mismatch>,
}

/// The parts of the error for a value of the wrong type; the message depends on the encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// JSON's word for the value: `string`, `number 1.5`.
    pub found: String,
    /// The field of the outermost struct that contains it, or "".
    pub field: Str,
    /// The Go type that was expected.
    pub go: Str,
}

impl From<crate::structural::DefaultsTooLarge> for TypeError {
    fn from(error: crate::structural::DefaultsTooLarge) -> Self {
        TypeError { message: error.to_string(), mismatch: None }
    }
}

impl TypeError {
    pub(crate) fn new(message: &str) -> TypeError {
        TypeError { message: message.to_string(), mismatch: None }
    }

    /// This error for an object at `path`, which the message prints as `value_text`.
    pub(crate) fn within(&self, path: &str, value_text: &str) -> TypeError {
        let message = format!("{path}: Invalid value: {value_text}: {}", self.message);
        TypeError { message, mismatch: self.mismatch.clone() }
    }

    /// The text of the error.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The parts of the error, if it is about a value of the wrong type.
    pub fn mismatch(&self) -> Option<&Mismatch> {
        self.mismatch.as_ref()
    }
}

/// The position of the decoder: a linked list on the stack, converted to text only for errors.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) parent: Option<&'a Place<'a>>,
    pub(super) step: Step<'a>,
    pub(super) depth: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Root,
    Field(&'a Struct, &'a Field),
    Index(usize),
    Key(&'a str),
    /// A nested decoder begins here; the outer one wraps its errors.
    Nested,
}

impl<'a> Place<'a> {
    pub(super) const ROOT: Place<'static> = Place { parent: None, step: Step::Root, depth: 0 };

    pub(super) fn down(&'a self, step: Step<'a>) -> Place<'a> {
        Place { parent: Some(self), step, depth: self.depth.saturating_add(1) }
    }

    fn path_steps(&self) -> Vec<Step<'a>> {
        let mut steps = Vec::new();
        let mut place = Some(*self);
        while let Some(at) = place {
            steps.push(at.step);
            place = at.parent.copied();
        }
        steps.reverse();
        steps
    }

    /// The path in the form of strict errors: `spec.containers[0].name`, keys of maps like fields.
    pub(super) fn path(&self, omits_keys: bool) -> Str {
        let mut out = Str::default();
        for step in self.path_steps() {
            match step {
                Step::Root | Step::Nested => {}
                Step::Key(_) if omits_keys => {}
                Step::Field(_, field) => push_dotted(&mut out, &field.name),
                Step::Key(key) => push_dotted(&mut out, key),
                Step::Index(index) => _ = write!(out, "[{index}]"),
            }
        }
        out
    }

    fn is_nested(&self) -> bool {
        self.path_steps().iter().any(|step| matches!(step, Step::Nested))
    }

    /// Go's name of the struct and the path of its fields. It has inlined structs, but no indices and keys.
    fn go_context(&self, arena: &Arena) -> Option<(Str, Str)> {
        let (mut name, mut path, mut nested) = (None, Str::default(), false);
        for step in self.path_steps() {
            match step {
                Step::Field(s, field) => {
                    push_inlined(&mut path, arena, s, field);
                    push_dotted(&mut path, &field.name);
                    if !nested {
                        name = Some(s.go_name.clone());
                    }
                }
                Step::Nested => nested = true,
                Step::Root | Step::Index(_) | Step::Key(_) => {}
            }
        }
        name.map(|name| (name, path))
    }
}

fn push_dotted(out: &mut Str, name: &str) {
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(name);
}

/// The names of the inlined structs between `s` and its field.
fn push_inlined(path: &mut Str, arena: &Arena, s: &Struct, field: &Field) {
    let inlined = usize::from(field.inline).checked_sub(1).and_then(|at| s.inlined.get(at));
    let Some(inlined) = inlined else { return };
    push_dotted(path, &inlined.go_name);
    let Shape::Struct(inner) = &arena.node(inlined.node).shape else { return };
    if let Some(field) = inner.field(&field.name) {
        push_inlined(path, arena, inner, field);
    }
}

/// How an error affects the decoding.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Severity {
    /// Ends the decoding. Errors of types with their own decoder do, and take precedence over others.
    Fatal,
    /// The decoding continues, but the first such error is its outcome.
    Ordinary,
}

/// An error, before it is known whether it is the one to report.
pub(super) struct Found {
    severity: Severity,
    message: String,
    mismatch: Option<Mismatch>,
}

/// The errors of one decoding.
#[derive(Default)]
pub(super) struct Errors {
    found: Option<Found>,
}

impl Errors {
    /// Adds an error for a value whose JSON type does not match its Go type. `value` is Go's word for the value.
    pub(super) fn mismatch(
        &mut self,
        arena: &Arena,
        place: &Place<'_>,
        severity: Severity,
        value: &str,
        go: &str,
    ) {
        let message = match place.go_context(arena) {
            Some((name, path)) => {
                format!("json: cannot unmarshal {value} into Go struct field {name}.{path} of type {go}")
            }
            None => format!("json: cannot unmarshal {value} into Go value of type {go}"),
        };
        let field = place.path_steps().iter().find_map(|step| match step {
            Step::Field(_, field) => Some(field.name.clone()),
            _ => None,
        });
        let mismatch = Mismatch { found: value.into(), field: field.unwrap_or_default(), go: go.into() };
        self.record_error(place, severity, message, Some(mismatch));
    }

    /// Adds any other error; its message has no position.
    pub(super) fn add(&mut self, place: &Place<'_>, severity: Severity, message: String) {
        self.record_error(place, severity, message, None);
    }

    fn record_error(
        &mut self,
        place: &Place<'_>,
        severity: Severity,
        message: String,
        mismatch: Option<Mismatch>,
    ) {
        let severity = if place.is_nested() { Severity::Fatal } else { severity };
        if self.found.as_ref().is_none_or(|found| severity == Severity::Fatal && found.severity != severity) {
            self.found = Some(Found { severity, message, mismatch });
        }
    }

    pub(super) fn finish(self) -> Result<(), TypeError> {
        match self.found {
            Some(found) => Err(TypeError { message: found.message, mismatch: found.mismatch }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_by_all_but_the_converter() {
        for (omits_keys, expected) in
            [(false, r#"unknown field "say \"hi\"""#), (true, r#"unknown field "say "hi"""#)]
        {
            let strict = Strict { unknown: vec![r#"say "hi""#.into()], omits_keys };
            assert_eq!(strict.texts(), [expected]);
        }
    }
}
