//! Reads the table of Go types into one arena of nodes.
//!
//! The table is part of the program; a line that makes no sense is left out, and the tests notice.

use crate::Types;
use pintle_schema::{
    Arena, Choice, Field, Inlined, ListKind, MapKind, Member, Node, NodeId, Omit, Other, Shape, Struct, Wire,
};
use pintle_value::{Str, Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// The JSON schema type of custom resource definitions, on which some types are based.
const PROPS: &str = "apiextensions/v1.JSONSchemaProps";

/// Reads the whole table.
pub(crate) fn load(table: &'static str) -> Types {
    let mut loader = Loader {
        arena: Arena::default(),
        nodes: HashMap::with_capacity(1024),
        declared: Vec::new(),
        exprs: HashMap::new(),
    };
    let mut packages = Vec::new();
    let mut lines = table.lines().filter(|l| !l.starts_with('#')).peekable();
    while let Some(line) = lines.next() {
        let mut words = line.split(' ');
        let (what, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if what == "package" {
            if let Some(gv) = words.nth(1) {
                packages.push((gv, name));
            }
            continue;
        }
        let mut members = Vec::new();
        while let Some(member) = lines.next_if(|l| l.starts_with(' ')) {
            members.push(member.trim_start());
        }
        let mut node = Node::of(Shape::Any);
        node.go = reflected(name);
        let id = loader.arena.push(node);
        loader.nodes.insert(name, id);
        loader.declared.push(Declared {
            what,
            name,
            words: words.next().unwrap_or_default(),
            last: words.next(),
            members,
            filled: false,
        });
    }
    for at in 0..loader.declared.len() {
        loader.fill(at);
    }
    loader.arena.seal();
    Types { arena: Arc::new(loader.arena), nodes: loader.nodes, packages }
}

/// A type of the table.
struct Declared {
    what: &'static str,
    name: &'static str,
    /// The text after the name: an underlying type or `atomic`.
    words: &'static str,
    last: Option<&'static str>,
    members: Vec<&'static str>,
    filled: bool,
}

struct Loader {
    arena: Arena,
    /// Declared types; the n-th declared type has the n-th node of the arena.
    nodes: HashMap<&'static str, NodeId>,
    declared: Vec<Declared>,
    /// Nodes of type expressions without field-specific properties.
    exprs: HashMap<&'static str, NodeId>,
}

impl Loader {
    /// Completes a declared type, after the types that it inlines.
    fn fill(&mut self, at: usize) {
        let Some(declared) = self.declared.get_mut(at).filter(|d| !d.filled) else { return };
        declared.filled = true;
        let (what, name, words, last) = (declared.what, declared.name, declared.words, declared.last);
        let members = std::mem::take(&mut declared.members);
        let Some(id) = self.nodes.get(name).copied() else { return };
        if what == "struct" {
            let shape = Shape::Struct(self.add_struct(name, words, &members));
            self.arena.node_mut(id).shape = shape;
            return;
        }
        let (shape, choice) = self.add_underlying(words);
        let node = self.arena.node_mut(id);
        node.shape = shape;
        node.choice = choice;
        node.wrapped = last == Some("wrapped");
    }

    fn add_underlying(&mut self, expr: &'static str) -> (Shape, Option<Choice>) {
        let props = self.nodes.get(PROPS).copied().unwrap_or(NodeId(0));
        let choice = |other| (Shape::Any, Some(Choice { props, other }));
        match expr {
            "PropsOrArray" => choice(Other::List),
            "PropsOrBool" => choice(Other::Bool),
            "PropsOrStrings" => choice(Other::Strings),
            "Time" => (Shape::Time, None),
            "MicroTime" => (Shape::MicroTime, None),
            "Duration" => (Shape::Duration, None),
            "Quantity" => (Shape::Quantity, None),
            "IntOrString" => (Shape::IntOrString, None),
            "Raw" => (Shape::Any, None),
            _ => (self.shape(expr, ""), None),
        }
    }

    /// The shape of an unnamed Go type; `list` is the merge strategy of its lists.
    fn shape(&mut self, expr: &'static str, list: &str) -> Shape {
        if expr == "[]byte" {
            return Shape::Bytes;
        }
        if let Some(item) = expr.strip_prefix("[]") {
            let kind = match list {
                "" => ListKind::Atomic,
                "set" => ListKind::Set,
                keys => ListKind::Map(keys.split(',').map(Str::from).collect()),
            };
            return Shape::List { item: self.node(item), kind };
        }
        if let Some((_, value)) = expr.strip_prefix("map[").and_then(|e| e.split_once(']')) {
            return Shape::Map { value: self.node(value), kind: MapKind::Granular };
        }
        match expr {
            "string" => Shape::String,
            "bool" => Shape::Bool,
            "int32" => Shape::Int { bits: 32 },
            "int64" => Shape::Int { bits: 64 },
            "float64" => Shape::Float,
            _ => Shape::Any,
        }
    }

    /// The node of a type expression.
    fn node(&mut self, expr: &'static str) -> NodeId {
        if let Some(id) = self.nodes.get(expr).or_else(|| self.exprs.get(expr)) {
            return *id;
        }
        let mut node = Node::of(self.shape(expr, ""));
        node.go = reflected(expr);
        let id = self.arena.push(node);
        self.exprs.insert(expr, id);
        id
    }

    fn add_struct(&mut self, name: &'static str, words: &str, members: &[&'static str]) -> Struct {
        let mut fields: Vec<Field> = Vec::with_capacity(members.len());
        let mut inlined = Vec::new();
        let mut numbers: Vec<(u32, usize)> = Vec::new();
        for member in members {
            match member.strip_prefix("inline ") {
                Some(rest) => {
                    let (type_, number) = rest.split_once(" #").unwrap_or((rest, "0"));
                    numbers.push((number.parse().unwrap_or(0), inlined.len()));
                    self.inline(type_, &mut fields, &mut inlined);
                }
                None => fields.push(self.parse_field(member)),
            }
        }
        for (rank, field) in fields.iter_mut().enumerate() {
            field.rank = rank as u16;
        }
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        let mut order: Vec<u16> = (0..fields.len() as u16).collect();
        order.sort_by_key(|at| fields.get(usize::from(*at)).map(|f| f.rank));
        let own = fields
            .iter()
            .enumerate()
            .filter(|(_, f)| f.inline == 0)
            .map(|(at, f)| (f.proto, Member::Field(at as u16)));
        let nested = numbers.iter().map(|(number, at)| (*number, Member::Inlined(*at as u16)));
        let mut wire: Vec<Wire> = own
            .chain(nested)
            .filter(|(n, _)| *n > 0)
            .map(|(number, member)| Wire { number, member })
            .collect();
        wire.sort_by_key(|w| w.number);
        Struct {
            fields: fields.into(),
            order: order.into(),
            inlined: inlined.into(),
            always: Box::default(),
            wire: wire.into(),
            kind: if words == "atomic" { MapKind::Atomic } else { MapKind::Granular },
            go_name: Str::from(name.rsplit('.').next().unwrap_or(name)),
        }
    }

    /// Adds the fields of an inlined struct to those of the struct around it.
    fn inline(&mut self, type_: &'static str, fields: &mut Vec<Field>, inlined: &mut Vec<Inlined>) {
        let Some(id) = self.nodes.get(type_).copied() else { return };
        self.fill(id.0 as usize);
        let Shape::Struct(inner) = &self.arena.node(id).shape else { return };
        inlined.push(Inlined { go_name: inner.go_name.clone(), node: id });
        let inline = u8::try_from(inlined.len()).unwrap_or(u8::MAX);
        fields.extend(inner.in_order().map(|f| Field { inline, ..f.clone() }));
    }

    fn parse_field(&mut self, line: &'static str) -> Field {
        let (facts, default) = match line.split_once(" default=") {
            Some((facts, default)) => (facts, json::parse(default.as_bytes()).ok().map(|p| p.value)),
            None => (line, None),
        };
        let mut words = facts.split(' ');
        let (name, expr) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (pointer, expr) = expr.strip_prefix('*').map_or((false, expr), |e| (true, e));
        let mut field = Field { pointer, omit: Omit::Never, ..Field::new(name, NodeId(0)) };
        let (mut list, mut map) = ("", "");
        for word in words {
            match word.split_once('=').unwrap_or((word, "")) {
                ("e", _) => field.omit = Omit::Empty,
                ("z", _) => field.omit = Omit::Zero,
                ("r", _) => field.required = true,
                ("list", value) => list = value,
                ("map", value) => map = value,
                ("patch", value) => {
                    field.patch.merge = value.split(',').any(|s| s == "merge");
                    field.patch.replace = value.split(',').any(|s| s == "replace");
                    field.patch.retain_keys = value.split(',').any(|s| s == "retainKeys");
                }
                ("key", value) => field.patch.key = Str::from(value),
                (number, _) => field.proto = number.trim_start_matches('#').parse().unwrap_or(0),
            }
        }
        field.node = if list.is_empty() && map.is_empty() && default.is_none() {
            self.node(expr)
        } else {
            self.own_node(expr, list, map, default)
        };
        field
    }

    /// A separate node for a field with properties beyond those of its type.
    fn own_node(&mut self, expr: &'static str, list: &str, map: &str, default: Option<Value>) -> NodeId {
        let shared = self.node(expr);
        self.fill(shared.0 as usize);
        let mut node = self.arena.node(shared).clone();
        node.default = default;
        let map = if map == "atomic" { MapKind::Atomic } else { MapKind::Granular };
        match &mut node.shape {
            Shape::List { kind, .. } => {
                *kind = match list {
                    "" => ListKind::Atomic,
                    "set" => ListKind::Set,
                    keys => ListKind::Map(keys.split(',').map(Str::from).collect()),
                }
            }
            Shape::Map { kind, .. } => *kind = map,
            Shape::Struct(s) => s.kind = map,
            _ => {}
        }
        self.arena.push(node)
    }
}

/// A type as Go's reflection prints it: packages by their last name, `[]byte` as `[]uint8`.
fn reflected(expr: &str) -> Str {
    let mut out = Str::default();
    let mut rest = expr;
    while let Some(at) = rest.find('/') {
        let (before, after) = rest.split_at(at);
        let keep = before.rfind(['[', ']']).map_or(0, |end| end.saturating_add(1));
        out.push_str(before.get(..keep).unwrap_or_default());
        rest = after.get(1..).unwrap_or_default();
    }
    out.push_str(rest);
    let name = out.rfind([']', '*']).map_or(0, |at| at.saturating_add(1));
    let (prefix, name) = out.split_at(name);
    match name {
        "byte" => Str::from(format!("{prefix}uint8")),
        "interface" => Str::from(format!("{prefix}interface {{}}")),
        _ => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_reflection_names_them() {
        for (expr, name) in [
            ("[]core/v1.Container", "[]v1.Container"),
            ("map[string][]byte", "map[string][]uint8"),
            ("map[core/v1.ResourceName]resource.Quantity", "map[v1.ResourceName]resource.Quantity"),
            ("map[core/v1.A]core/v1.B", "map[v1.A]v1.B"),
            ("int32", "int32"),
        ] {
            assert_eq!(reflected(expr), name);
        }
    }
}
