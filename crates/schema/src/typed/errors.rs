//! What is wrong with a tree, in the words of Go's JSON decoder, and where.

use crate::model::{Arena, Field, Shape, Struct};
use pintle_meta::field::quoted;
use pintle_value::Str;
use std::fmt::Write;

/// How many unknown fields are reported, as kube-apiserver caps its strict errors.
pub const STRICT_ERRORS_MAX: usize = 100;

/// Collects what only strict requests mind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strict {
    /// Full paths of unknown fields (`spec.containers[0].nmae`), at most [`STRICT_ERRORS_MAX`].
    pub unknown: Vec<Str>,
}

impl Strict {
    /// The errors as kube-apiserver words them: `unknown field "spec.foo"`.
    pub fn texts(&self) -> Vec<String> {
        self.unknown.iter().map(|path| format!("unknown field {}", quoted(path))).collect()
    }
}

/// Why a tree is none of its type. Its text is the one kube-apiserver shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TypeError {
    message: String,
    mismatch: Option<Mismatch>,
}

/// A value of another type than its field, in parts: other encodings word it in their own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// JSON's word for what was there: `string`, `number 1.5`.
    pub found: String,
    /// The field of the outermost struct it is in, or "".
    pub field: Str,
    /// The Go type that was wanted.
    pub go: Str,
}

impl From<crate::structural::DefaultsTooLarge> for TypeError {
    fn from(error: crate::structural::DefaultsTooLarge) -> Self {
        TypeError { message: error.to_string(), mismatch: None }
    }
}

impl TypeError {
    /// The same error, of an object that is found at `path` and was `shown` there.
    pub(crate) fn within(&self, path: &str, shown: &str) -> TypeError {
        let message = format!("{path}: Invalid value: {shown}: {}", self.message);
        TypeError { message, mismatch: self.mismatch.clone() }
    }

    /// The text of the error.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The parts of the error, if it is that a value is of another type than its field.
    pub fn mismatch(&self) -> Option<&Mismatch> {
        self.mismatch.as_ref()
    }
}

/// Where the decoder is: a list through the stack, made text only when something is wrong.
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
    /// A decoder of its own begins here; what it reports becomes an error of the one around it.
    Nested,
}

impl<'a> Place<'a> {
    pub(super) const ROOT: Place<'static> = Place { parent: None, step: Step::Root, depth: 0 };

    pub(super) fn down(&'a self, step: Step<'a>) -> Place<'a> {
        Place { parent: Some(self), step, depth: self.depth.saturating_add(1) }
    }

    fn steps(&self) -> Vec<Step<'a>> {
        let mut steps = Vec::new();
        let mut place = Some(*self);
        while let Some(at) = place {
            steps.push(at.step);
            place = at.parent.copied();
        }
        steps.reverse();
        steps
    }

    /// The path as strict errors write it: `spec.containers[0].name`, keys of maps like fields.
    pub(super) fn path(&self) -> Str {
        let mut out = Str::default();
        for step in self.steps() {
            match step {
                Step::Root | Step::Nested => {}
                Step::Field(_, field) => dotted(&mut out, &field.name),
                Step::Key(key) => dotted(&mut out, key),
                Step::Index(index) => _ = write!(out, "[{index}]"),
            }
        }
        out
    }

    fn is_nested(&self) -> bool {
        self.steps().iter().any(|step| matches!(step, Step::Nested))
    }

    /// Go's name of the struct and its path of fields. Indices and keys are no part of it; inlined structs are.
    fn go_context(&self, arena: &Arena) -> Option<(Str, Str)> {
        let (mut name, mut path, mut nested) = (None, Str::default(), false);
        for step in self.steps() {
            match step {
                Step::Field(s, field) => {
                    push_inlined(&mut path, arena, s, field);
                    dotted(&mut path, &field.name);
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

fn dotted(out: &mut Str, name: &str) {
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(name);
}

/// The names of the inlined structs between `s` and its field.
fn push_inlined(path: &mut Str, arena: &Arena, s: &Struct, field: &Field) {
    let inlined = usize::from(field.inline).checked_sub(1).and_then(|at| s.inlined.get(at));
    let Some(inlined) = inlined else { return };
    dotted(path, &inlined.go_name);
    let Shape::Struct(inner) = &arena.node(inlined.node).shape else { return };
    if let Some(field) = inner.field(&field.name) {
        push_inlined(path, arena, inner, field);
    }
}

/// An error that was found, before it is known whether it is the one to report.
pub(super) struct Found {
    /// Whether it ends the decoding: errors of types that decode themselves do, and win over those that do not.
    fatal: bool,
    message: String,
    mismatch: Option<Mismatch>,
}

/// The errors of one decoding.
#[derive(Default)]
pub(super) struct Errors {
    found: Option<Found>,
}

impl Errors {
    /// A value of another JSON type than its Go type takes. `value` is Go's word for what was there.
    pub(super) fn mismatch(&mut self, arena: &Arena, place: &Place<'_>, fatal: bool, value: &str, go: &str) {
        let message = match place.go_context(arena) {
            Some((name, path)) => {
                format!("json: cannot unmarshal {value} into Go struct field {name}.{path} of type {go}")
            }
            None => format!("json: cannot unmarshal {value} into Go value of type {go}"),
        };
        let field = place.steps().iter().find_map(|step| match step {
            Step::Field(_, field) => Some(field.name.clone()),
            _ => None,
        });
        let mismatch = Mismatch { found: value.into(), field: field.unwrap_or_default(), go: go.into() };
        self.found(place, fatal, message, Some(mismatch));
    }

    /// Any other error; its text says nothing of the place.
    pub(super) fn add(&mut self, place: &Place<'_>, fatal: bool, message: String) {
        self.found(place, fatal, message, None);
    }

    fn found(&mut self, place: &Place<'_>, fatal: bool, message: String, mismatch: Option<Mismatch>) {
        let fatal = fatal || place.is_nested();
        if self.found.as_ref().is_none_or(|found| fatal && !found.fatal) {
            self.found = Some(Found { fatal, message, mismatch });
        }
    }

    pub(super) fn finish(self) -> Result<(), TypeError> {
        match self.found {
            Some(found) => Err(TypeError { message: found.message, mismatch: found.mismatch }),
            None => Ok(()),
        }
    }
}
