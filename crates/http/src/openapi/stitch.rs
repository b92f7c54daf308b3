//! Assembles documents from parts.

use super::model::Dialect;
use super::part::{Form, Member};
use super::proto;
use super::text::{Text, Texts};
use pintle_value::{Value, json};
use std::sync::Arc;

/// A document without its paths and schemas: what comes before, between and after them.
pub(super) struct Frame {
    pub(super) dialect: Dialect,
    pub(super) head: Value,
    pub(super) tail: Value,
}

impl Frame {
    /// Assembles the document with these paths and schemas, each sorted.
    pub(super) fn around(&self, form: Form, paths: &[Member], schemas: &[Member]) -> Texts {
        match form {
            Form::Json => self.stitch_json(paths, schemas),
            Form::Protobuf => self.stitch_protobuf(paths, schemas),
        }
    }

    fn stitch_json(&self, paths: &[Member], schemas: &[Member]) -> Texts {
        let mut tree = self.head.clone();
        for (key, value) in self.tail.as_object().into_iter().flat_map(|tail| tail.iter()) {
            tree.set_at(&[key.as_str()], value.clone());
        }
        tree.set_at(&["paths"], Value::object());
        match self.dialect {
            Dialect::V2 => tree.set_at(&["definitions"], Value::object()),
            Dialect::V3 if schemas.is_empty() => tree.set_at(&["components"], Value::object()),
            Dialect::V3 => tree.set_at(&["components", "schemas"], Value::object()),
        }
        let frame = json::bytes(&tree);
        let opening = if self.dialect == Dialect::V2 { "\"definitions\":{" } else { "\"schemas\":{" };
        let (before_schemas, rest) = split_after(&frame, opening);
        let (before_paths, end) = split_after(rest, "\"paths\":{");
        let mut out = vec![text(before_schemas)];
        add(&mut out, schemas);
        out.push(text(before_paths));
        add(&mut out, paths);
        out.push(text(end));
        Texts(out.into())
    }

    fn stitch_protobuf(&self, paths: &[Member], schemas: &[Member]) -> Texts {
        let size = |members: &[Member]| members.iter().map(|m| m.text.plain().len()).sum();
        let mut head = proto::encode(&self.head, self.dialect);
        proto::begin_paths(&mut head, size(paths), self.dialect);
        let mut between = Vec::new();
        proto::begin_schemas(&mut between, (!schemas.is_empty()).then(|| size(schemas)), self.dialect);
        let all = |members: &[Member]| members.iter().map(|m| m.text.clone()).collect::<Vec<_>>();
        let mut out = vec![text(&head)];
        out.extend(all(paths));
        out.push(text(&between));
        out.extend(all(schemas));
        out.push(text(&proto::encode(&self.tail, self.dialect)));
        Texts(out.into())
    }
}

fn text(bytes: &[u8]) -> Arc<Text> {
    Arc::new(Text::new(bytes.to_vec()))
}

/// Appends members in JSON; the first one without its comma.
fn add(out: &mut Vec<Arc<Text>>, members: &[Member]) {
    let mut members = members.iter();
    if let Some(first) = members.next() {
        out.push(Arc::new(first.text.first(1)));
    }
    out.extend(members.map(|m| m.text.clone()));
}

/// Splits after `mark`. The frame contains only the server's own text, so the first occurrence is the right one;
/// without an occurrence the first part is empty.
fn split_after<'a>(bytes: &'a [u8], mark: &str) -> (&'a [u8], &'a [u8]) {
    let found = bytes.windows(mark.len()).position(|window| window == mark.as_bytes());
    bytes.split_at(found.map_or(0, |at| at.saturating_add(mark.len())))
}

/// Sorts members by name; of several with the same name the last one wins.
pub(super) fn merged<'a>(members: impl Iterator<Item = &'a Member>) -> Vec<Member> {
    let mut all: Vec<&Member> = members.collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out: Vec<Member> = Vec::with_capacity(all.len());
    for member in all {
        match out.last_mut() {
            Some(last) if last.name == member.name => *last = member.clone(),
            _ => out.push(member.clone()),
        }
    }
    out
}
