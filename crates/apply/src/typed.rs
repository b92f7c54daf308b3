//! Values with their schema: which fields they set, how two of them differ, how they merge.
//!
//! A value is validated once; the other functions rely on that. Parts without a schema get their type from the value:
//! objects field by field, lists as a whole.

mod atomics;
mod compare;
mod fields;
mod items;
mod merge;
mod narrow;
mod reconcile;
mod remove;
mod validate;

pub use atomics::atomics;
pub use compare::{Comparison, compare, compare_unmanaged};
pub use fields::{field_set, with_named_fields};
pub use merge::merge;
pub use narrow::narrow;
pub use reconcile::reconcile;
pub use remove::remove;
pub use validate::{
    Duplicates, Foreign, Form, ValidationErrors, refuse_foreign, validate, validate_unmanaged,
};

use pintle_schema::{Arena, Field, ListKind, MapKind, Node, NodeId, Omit, Schema, Shape, Struct};
use pintle_value::{Str, Value, compare_text, is_same_text};

/// The type of a value.
#[derive(Clone, Copy)]
pub struct Type<'s> {
    arena: &'s Arena,
    /// The root of the schema. Embedded objects have its kind, apiVersion and metadata too.
    root: NodeId,
    at: TypePosition,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TypePosition {
    /// A node. `open` is set below a node that preserves unknown fields: then all nodes below it do.
    Node { id: NodeId, open: bool },
    /// No schema: objects field by field, lists as a whole.
    Deduced,
    /// No schema: objects and lists as a whole.
    Opaque,
}

/// How a value is treated, according to its type and its form.
enum Atom<'s> {
    Scalar(Scalar),
    List(List<'s>),
    Map(Fields<'s>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scalar {
    Numeric,
    String,
    Boolean,
    Any,
}

#[derive(Clone, Copy)]
struct List<'s> {
    item: Type<'s>,
    kind: &'s ListKind,
}

impl List<'_> {
    fn is_atomic(&self) -> bool {
        *self.kind == ListKind::Atomic
    }
}

#[derive(Clone, Copy)]
struct Fields<'s> {
    arena: &'s Arena,
    root: NodeId,
    /// Whether the type is an embedded object.
    embedded: bool,
    known: Option<&'s Struct>,
    /// The type of fields without a schema of their own; `None` if there may be no such fields.
    others: Option<Type<'s>>,
    open: bool,
    atomic: bool,
}

impl<'s> Fields<'s> {
    fn is_known(&self, name: &str) -> bool {
        self.known_field(name).is_some()
    }

    fn known_field(&self, name: &str) -> Option<&'s Field> {
        let own = self.known.and_then(|known| known.field(name));
        match &self.arena.node(self.root).shape {
            Shape::Struct(root) if self.embedded && matches!(name, "apiVersion" | "kind" | "metadata") => {
                root.field(name)
            }
            _ => own,
        }
    }

    fn field(&self, name: &str) -> Option<Type<'s>> {
        self.type_of(self.known_field(name))
    }

    /// Returns `field` for names that come in ascending order, as the keys of a map do: one pass over the fields, which
    /// are sorted too, finds all of them.
    fn ascending(&self) -> impl FnMut(&str) -> Option<Type<'s>> {
        let this = *self;
        let mut rest = self.known.map(|known| &*known.fields).unwrap_or_default();
        move |name| {
            if this.embedded {
                return this.field(name);
            }
            while let [first, after @ ..] = rest
                && compare_text(&first.name, name).is_lt()
            {
                rest = after;
            }
            this.type_of(rest.first().filter(|field| is_same_text(&field.name, name)))
        }
    }

    /// The type of a known field, or that of the others.
    fn type_of(&self, field: Option<&'s Field>) -> Option<Type<'s>> {
        match field {
            Some(field) => {
                // Metadata has its own type, even if the object around it preserves unknown fields.
                let is_metadata = self.arena.node(self.root).metadata == Some(field.node);
                let at = TypePosition::Node { id: field.node, open: self.open && !is_metadata };
                Some(Type { arena: self.arena, root: self.root, at })
            }
            None => self.others,
        }
    }

    /// Whether there are no known fields, and others have no certain type. Embedded objects have known fields.
    fn is_untyped(&self) -> bool {
        !self.embedded
            && self.known.is_none_or(|known| known.fields.is_empty())
            && self.others.is_some_and(Type::is_untyped)
    }
}

impl<'s> Type<'s> {
    /// The type at the root of a schema.
    pub fn of(schema: &'s Schema) -> Self {
        let root = schema.root();
        Type { arena: schema.arena(), root, at: TypePosition::Node { id: root, open: false } }
    }

    fn deduced(self) -> Self {
        Type { at: TypePosition::Deduced, ..self }
    }

    /// Whether values of several types are allowed, as the published schema says: it has no type for strings with a format.
    fn is_untyped(self) -> bool {
        let TypePosition::Node { id, .. } = self.at else { return self.at == TypePosition::Deduced };
        let node = self.arena.node(id);
        match &node.shape {
            Shape::Any => !node.go.ends_with("RawExtension"),
            Shape::IntOrString if node.type_name == "string" => has_format(node),
            Shape::IntOrString => node.type_name.is_empty(),
            Shape::String => has_format(node),
            _ => false,
        }
    }

    fn opaque(self) -> Self {
        Type { at: TypePosition::Opaque, ..self }
    }

    fn node(self, id: NodeId, open: bool) -> Self {
        Type { at: TypePosition::Node { id, open }, ..self }
    }

    /// How `value` is treated. The type decides; if it allows several forms, the form of the value decides.
    fn atom(self, value: Option<&Value>) -> Atom<'s> {
        let (id, open) = match self.at {
            TypePosition::Deduced => return self.formless(value, self.deduced(), false),
            TypePosition::Opaque => return self.formless(value, self.opaque(), true),
            TypePosition::Node { id, open } => (id, open),
        };
        let node = self.arena.node(id);
        let open = open || node.preserve_unknown;
        match &node.shape {
            // Raw extensions are atomic; any other JSON gets its type from the value.
            Shape::Any if node.go.ends_with("RawExtension") => self.formless(value, self.opaque(), true),
            // An int-or-string need not declare a type; if it does, that type is published.
            Shape::IntOrString if matches!(node.type_name.as_str(), "integer" | "number") => {
                Atom::Scalar(Scalar::Numeric)
            }
            Shape::IntOrString if node.type_name == "string" && !has_format(node) => {
                Atom::Scalar(Scalar::String)
            }
            Shape::IntOrString if node.type_name == "boolean" => Atom::Scalar(Scalar::Boolean),
            Shape::IntOrString if node.type_name == "array" => {
                let item = node.checks.as_ref().and_then(|checks| checks.items);
                let item = item.map_or(self.opaque(), |item| self.node(item, open));
                Atom::List(List { item, kind: &ListKind::Atomic })
            }
            Shape::IntOrString if node.type_name == "object" => {
                let fields = node.checks.as_ref().and_then(|checks| checks.fields);
                fields.map_or_else(
                    || self.formless(None, self.deduced(), false),
                    |fields| self.node(fields, open).atom(value),
                )
            }
            Shape::Any | Shape::IntOrString => self.formless(value, self.deduced(), false),
            Shape::Bool => Atom::Scalar(Scalar::Boolean),
            Shape::Int { .. } | Shape::Float => Atom::Scalar(Scalar::Numeric),
            Shape::String if has_format(node) => Atom::Scalar(Scalar::Any),
            Shape::String | Shape::Bytes | Shape::Duration => Atom::Scalar(Scalar::String),
            Shape::Time | Shape::MicroTime | Shape::Quantity => Atom::Scalar(Scalar::Any),
            Shape::List { item, kind } => Atom::List(List { item: self.node(*item, open), kind }),
            Shape::Map { value, kind } => Atom::Map(Fields {
                arena: self.arena,
                root: self.root,
                embedded: false,
                known: None,
                others: Some(self.node(*value, open)),
                open,
                atomic: *kind == MapKind::Atomic,
            }),
            Shape::Struct(known) => Atom::Map(Fields {
                arena: self.arena,
                root: self.root,
                embedded: node.embedded,
                known: Some(known),
                others: (open || known.fields.is_empty()).then(|| self.deduced()),
                open,
                atomic: known.kind == MapKind::Atomic,
            }),
        }
    }

    /// A type without a fixed form: `null` is treated as an object.
    fn formless(self, value: Option<&Value>, members: Type<'s>, atomic: bool) -> Atom<'s> {
        match value {
            None | Some(Value::Null | Value::Object(_)) => Atom::Map(Fields {
                arena: self.arena,
                root: self.root,
                embedded: false,
                known: None,
                others: Some(members),
                open: false,
                atomic,
            }),
            Some(Value::Array(_)) => Atom::List(List { item: self.opaque(), kind: &ListKind::Atomic }),
            Some(_) => Atom::Scalar(Scalar::Any),
        }
    }

    /// The default of a key field that a list item omits. The published schemas of Go types also have zero values as
    /// defaults of scalars that are always written.
    fn key_default(self, name: &str) -> Option<Value> {
        let TypePosition::Node { id, .. } = self.at else { return None };
        let Shape::Struct(known) = &self.arena.node(id).shape else { return None };
        let field = known.field(name)?;
        let node = self.arena.node(field.node);
        if node.default.is_some() {
            return node.default.clone();
        }
        if known.go_name.is_empty() || field.pointer || field.omit != Omit::Never {
            return None;
        }
        match node.shape {
            Shape::String => Some(Value::from("")),
            Shape::Int { .. } | Shape::Float => Some(Value::Int(0)),
            Shape::Bool => Some(Value::Bool(false)),
            _ => None,
        }
    }
}

/// Whether the schema of a text names a format. The published schemas of such texts leave their type open.
fn has_format(node: &Node) -> bool {
    node.checks.as_ref().is_some_and(|checks| !matches!(checks.format.as_str(), "" | "byte"))
}

/// Whether two values are treated as different forms of one type.
fn forms_differ(a: &Atom<'_>, b: &Atom<'_>) -> bool {
    std::mem::discriminant(a) != std::mem::discriminant(b)
}

/// Iterates over the members of two objects in step, by key.
fn zip<'v>(
    left: Option<&'v Value>,
    right: Option<&'v Value>,
) -> impl Iterator<Item = (&'v Str, Option<&'v Value>, Option<&'v Value>)> {
    let members =
        |value: Option<&'v Value>| value.and_then(Value::as_object).into_iter().flat_map(|m| m.iter());
    let (mut left, mut right) = (members(left).peekable(), members(right).peekable());
    std::iter::from_fn(move || {
        let order = match (left.peek(), right.peek()) {
            (Some((l, _)), Some((r, _))) => l.as_str().cmp(r.as_str()),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return None,
        };
        let l = if order.is_le() { left.next() } else { None };
        let r = if order.is_ge() { right.next() } else { None };
        let key = l.or(r).map(|(key, _)| key)?;
        Some((key, l.map(|(_, v)| v), r.map(|(_, v)| v)))
    })
}

/// The value if it is an object with members.
fn filled_map(value: Option<&Value>) -> Option<&Value> {
    value.filter(|v| v.as_object().is_some_and(|m| !m.is_empty()))
}

/// The items of a list; empty if it is not a list.
fn list_items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).unwrap_or(&[])
}

#[cfg(test)]
mod tests;
