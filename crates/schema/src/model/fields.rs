//! The fields of structs: their JSON, protobuf and patch properties.

use super::{MapKind, NodeId, Shape};
use pintle_value::{Str, compare_text};

/// An object with named fields.
#[derive(Clone, Debug)]
pub struct Struct {
    /// The fields, sorted by JSON name (inlined Go structs are flattened).
    pub fields: Box<[Field]>,
    /// Indices into `fields` in the order in which they are written: Go's struct order for built-in types,
    /// by name for custom resources.
    pub order: Box<[u16]>,
    /// The Go structs that are inlined here; `Field::inline` points here.
    pub inlined: Box<[Inlined]>,
    /// The members in order of their protobuf numbers.
    pub wire: Box<[Wire]>,
    /// Indices of the fields that are written even when they are unset; see [`Arena::seal`].
    pub always: Box<[u16]>,
    /// How apply merges the map.
    pub kind: MapKind,
    /// Go's name of the struct without its package (`PodSpec`), for error messages.
    pub go_name: Str,
}

impl Struct {
    /// A struct of a custom resource: its fields are written by name and have no protobuf.
    pub fn by_name(mut fields: Vec<Field>, kind: MapKind) -> Self {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        for (rank, field) in fields.iter_mut().enumerate() {
            field.rank = u16::try_from(rank).unwrap_or(u16::MAX);
        }
        Struct {
            order: fields.iter().map(|f| f.rank).collect(),
            fields: fields.into(),
            inlined: Box::default(),
            wire: Box::default(),
            always: Box::default(),
            kind,
            go_name: Str::default(),
        }
    }

    /// The field of this JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        let at = self.fields.binary_search_by(|f| compare_text(&f.name, name)).ok()?;
        self.fields.get(at)
    }

    /// The fields in the order in which they are written.
    pub fn in_order(&self) -> impl Iterator<Item = &Field> {
        self.order.iter().filter_map(|at| self.fields.get(usize::from(*at)))
    }
}

/// A Go struct whose fields are members of the surrounding object in JSON, while protobuf nests it.
#[derive(Clone, Debug)]
pub struct Inlined {
    /// The name of the Go field that embeds the field, for error messages.
    pub go_name: Str,
    /// The inlined struct's own node; its fields are also fields of the surrounding struct.
    pub node: NodeId,
}

/// A member of a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The field's number.
    pub number: u32,
    /// The field's content.
    pub member: Member,
}

/// The content of a member of a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// A field, by its position in `Struct::fields`.
    Field(u16),
    /// An inlined struct, by its position in `Struct::inlined`.
    Inlined(u16),
}

/// One field of a struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// JSON name.
    pub name: Str,
    /// The schema of the field's value.
    pub node: NodeId,
    /// Whether Go has a pointer, so that unset and zero are different.
    pub pointer: bool,
    /// When the field is omitted from the output.
    pub omit: Omit,
    /// Whether a custom resource must have the field.
    pub required: bool,
    /// The field's protobuf number; 0 if it has none.
    pub proto: u32,
    /// Index into `Struct::inlined` plus one if it belongs to an inlined struct; 0 otherwise.
    pub inline: u8,
    /// The field's index in `Struct::order`.
    pub rank: u16,
    /// How a strategic merge patch treats the field.
    pub patch: Patch,
}

impl Field {
    /// An optional field without further properties.
    pub fn new(name: &str, node: NodeId) -> Self {
        Field {
            name: Str::from(name),
            node,
            pointer: false,
            omit: Omit::Empty,
            required: false,
            proto: 0,
            inline: 0,
            rank: 0,
            patch: Patch::default(),
        }
    }

    /// Whether Go writes it even when it is unset: it lacks `omitempty`, or it is a struct, which is never empty.
    pub(super) fn always_written(&self, shape: &Shape) -> bool {
        match self.omit {
            Omit::Never => true,
            Omit::Zero => false,
            Omit::Empty => !self.pointer && shape.is_go_struct(),
        }
    }
}

/// When a field is omitted from the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omit {
    /// Never: its zero value is written (`""`, `0`, `null` for lists, maps and pointers, `{}` for structs).
    Never,
    /// When the value is Go-empty (`omitempty`): false, 0, "", nil, no items. A struct is never empty.
    Empty,
    /// When the value is the zero value (`omitzero`), structs included.
    Zero,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// Lists are merged, not replaced.
    pub merge: bool,
    /// Objects are replaced, not merged.
    pub replace: bool,
    /// Only the keys of the patch remain (`retainKeys`).
    pub retain_keys: bool,
    /// Items are merged by this key; "" merges primitive items.
    pub key: Str,
}
