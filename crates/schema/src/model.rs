//! The compiled schema: a graph of nodes in one arena, so that recursive types need no pointers.

use crate::rules::Scope;
use pintle_value::{Str, Value, compare_text};
use std::sync::{Arc, LazyLock};

/// A node of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// All nodes of a set of schemas. The built-in types share one arena, each custom resource version has its own.
#[derive(Debug, Default)]
pub struct Arena {
    /// The first nodes, which are shared with other arenas.
    base: Option<Arc<Arena>>,
    base_len: usize,
    nodes: Vec<Node>,
    /// For each node of a sealed arena, whether a `RawExtension` is at or below it.
    raw: Vec<bool>,
    /// For each node of a sealed arena, whether a field of bytes is at or below it.
    bytes: Vec<bool>,
}

impl Arena {
    /// Creates an arena that begins with the nodes of another one.
    pub fn on(base: Arc<Arena>) -> Arena {
        Arena {
            base_len: base.base_len.saturating_add(base.nodes.len()),
            base: Some(base),
            nodes: Vec::new(),
            raw: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Frees unused capacity.
    pub fn shrink(&mut self) {
        self.nodes.shrink_to_fit();
    }

    /// Adds a node.
    pub fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.base_len.saturating_add(self.nodes.len())).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    /// The node `id`. Ids come from this arena's `push`.
    #[expect(clippy::indexing_slicing, reason = "ids are handed out by push and nodes are never removed")]
    pub fn node(&self, id: NodeId) -> &Node {
        match (id.0 as usize).checked_sub(self.base_len) {
            Some(own) => &self.nodes[own],
            None => self.shared(id),
        }
    }

    #[cold]
    fn shared(&self, id: NodeId) -> &Node {
        match &self.base {
            Some(base) => base.node(id),
            None => unreachable!("only an arena with a base has a first node"),
        }
    }

    /// Computes, once all nodes exist, which fields the structs of Go types always write.
    pub fn seal(&mut self) {
        for at in 0..self.nodes.len() {
            let Some(Node { shape: Shape::Struct(s), .. }) = self.nodes.get(at) else { continue };
            if s.go_name.is_empty() {
                continue;
            }
            let always =
                s.fields.iter().enumerate().filter(|(_, f)| f.always_written(&self.node(f.node).shape));
            let always: Box<[u16]> = always.filter_map(|(at, _)| u16::try_from(at).ok()).collect();
            if let Some(Node { shape: Shape::Struct(s), .. }) = self.nodes.get_mut(at) {
                s.always = always;
            }
        }
        self.raw = self.reaching(Node::is_raw_extension);
        self.bytes = self.reaching(|node| matches!(node.shape, Shape::Bytes));
    }

    /// Computes, once all nodes exist, from which of them a node that satisfies `is` can be reached.
    fn reaching(&self, is: impl Fn(&Node) -> bool) -> Vec<bool> {
        let mut reached: Vec<bool> = self.nodes.iter().map(is).collect();
        loop {
            let reaches = |id: NodeId| {
                let own = (id.0 as usize).checked_sub(self.base_len);
                own.and_then(|at| reached.get(at)).copied().unwrap_or(false)
            };
            let found: Vec<usize> = (0..self.nodes.len())
                .filter(|at| reached.get(*at) == Some(&false))
                .filter(|at| match self.nodes.get(*at).map(|node| &node.shape) {
                    Some(Shape::List { item, .. }) => reaches(*item),
                    Some(Shape::Map { value, .. }) => reaches(*value),
                    Some(Shape::Struct(s)) => s.fields.iter().any(|field| reaches(field.node)),
                    _ => false,
                })
                .collect();
            if found.is_empty() {
                return reached;
            }
            for at in found {
                if let Some(reached) = reached.get_mut(at) {
                    *reached = true;
                }
            }
        }
    }

    /// Whether bytes are at or below this node.
    pub fn reaches_bytes(&self, id: NodeId) -> bool {
        match (id.0 as usize).checked_sub(self.base_len) {
            Some(own) => self.bytes.get(own).copied().unwrap_or(false),
            None => self.base.as_ref().is_some_and(|base| base.reaches_bytes(id)),
        }
    }

    /// Whether a `RawExtension` is at or below this node.
    pub fn reaches_raw(&self, id: NodeId) -> bool {
        match (id.0 as usize).checked_sub(self.base_len) {
            Some(own) => self.raw.get(own).copied().unwrap_or(false),
            None => self.base.as_ref().is_some_and(|base| base.reaches_raw(id)),
        }
    }

    /// Copies a part of another arena. Its structs become structs of a custom resource, whose fields are written in order
    /// of name.
    pub fn graft(&mut self, from: &Arena, id: NodeId) -> NodeId {
        let mut node = from.node(id).clone();
        match &mut node.shape {
            Shape::List { item, .. } => *item = self.graft(from, *item),
            Shape::Map { value, .. } => *value = self.graft(from, *value),
            Shape::Struct(s) => {
                for (rank, field) in s.fields.iter_mut().enumerate() {
                    field.node = self.graft(from, field.node);
                    field.rank = u16::try_from(rank).unwrap_or(u16::MAX);
                }
                s.order = (0..s.fields.len()).filter_map(|at| u16::try_from(at).ok()).collect();
            }
            _ => {}
        }
        self.push(node)
    }

    /// The node `id`, which must not be one of the base, while the arena is being built.
    #[expect(clippy::indexing_slicing, reason = "ids are handed out by push and nodes are never removed")]
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[(id.0 as usize).wrapping_sub(self.base_len)]
    }
}

/// A schema: a root within a shared arena. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Schema(Making);

#[derive(Clone, Debug)]
enum Making {
    Done(Compiled),
    /// Compiled on first use: of many definitions, most are never used.
    Later(Arc<LazyLock<Compiled, Make>>),
}

type Make = Box<dyn FnOnce() -> Compiled + Send + Sync>;

#[derive(Clone, Debug)]
struct Compiled {
    arena: Arc<Arena>,
    root: NodeId,
    rules: Option<Arc<Scope>>,
}

impl Schema {
    /// Creates the schema that begins at `root`.
    pub fn new(arena: Arc<Arena>, root: NodeId) -> Self {
        Schema(Making::Done(Compiled { arena, root, rules: None }))
    }

    /// A schema that `make` compiles on first use.
    pub fn later(make: impl FnOnce() -> Schema + Send + Sync + 'static) -> Self {
        let make: Make = Box::new(move || make().compiled().clone());
        Schema(Making::Later(Arc::new(LazyLock::new(make))))
    }

    fn compiled(&self) -> &Compiled {
        match &self.0 {
            Making::Done(compiled) => compiled,
            Making::Later(later) => later,
        }
    }

    /// This schema with the rules of a custom resource.
    #[must_use]
    pub fn with_rules(self, rules: Option<Scope>) -> Self {
        Schema(Making::Done(Compiled { rules: rules.map(Arc::new), ..self.compiled().clone() }))
    }

    /// The rules of a custom resource, if it has any.
    pub fn rules(&self) -> Option<&Scope> {
        self.compiled().rules.as_deref()
    }

    /// The arena, for access by id.
    pub fn arena(&self) -> &Arena {
        &self.compiled().arena
    }

    /// The root's id.
    pub fn root(&self) -> NodeId {
        self.compiled().root
    }

    /// The schema of a part.
    pub fn at(&self, id: NodeId) -> Schema {
        Schema::new(Arc::clone(&self.compiled().arena), id)
    }

    /// Whether this is the schema of a Go type of kube-apiserver. The functions below name the consequences.
    fn has_go_type(&self) -> bool {
        matches!(&self.node().shape, Shape::Struct(s) if !s.go_name.is_empty())
    }

    /// Whether the type is compiled into kube-apiserver, which has its own names, printers and rules for it.
    pub fn is_built_in(&self) -> bool {
        self.has_go_type()
    }

    /// Whether documents are decoded into a Go struct, with its zero values and error messages. The documents of custom
    /// resources are maps.
    pub fn decodes_into_go_struct(&self) -> bool {
        self.has_go_type()
    }

    /// Whether members are written in the order of the type's fields. The members of custom resources are sorted.
    pub fn has_field_order(&self) -> bool {
        self.has_go_type()
    }

    /// Whether objects are validated against the schema and pruned to its fields. Hooks validate built-in kinds.
    pub fn validates_objects(&self) -> bool {
        !self.has_go_type()
    }

    /// Whether any version converts to any other through an internal version. Here the storage version takes the role of
    /// the internal one.
    pub fn converts_through_internal_version(&self) -> bool {
        self.has_go_type()
    }

    /// Whether some part is a `RawExtension`, of which the exact text matters.
    pub fn has_raw(&self) -> bool {
        self.arena().reaches_raw(self.root())
    }

    /// The root itself.
    pub fn node(&self) -> &Node {
        let Compiled { arena, root, .. } = self.compiled();
        arena.node(*root)
    }
}

/// The schema of one value.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its type.
    pub shape: Shape,
    /// The Go type kube-apiserver decodes it into (`int32`, `v1.PodSpec`, `[]v1.Container`), for error texts.
    /// Empty for custom resources.
    pub go: Str,
    /// The default: schema defaults of custom resources; `+default` markers of built-in types, which also complete the
    /// keys of list entries.
    pub default: Option<Value>,
    /// Whether `null` is a valid value (custom resources).
    pub nullable: bool,
    /// Whether unknown fields below are preserved (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// Whether the value is a whole object with kind, apiVersion and metadata (`x-kubernetes-embedded-resource`).
    pub embedded: bool,
    /// Set for the few built-in types of shape `Any` that are a JSON schema or an alternative to one.
    pub choice: Option<Choice>,
    /// Whether protobuf nests the list in a message of its own (named list types such as `ExtraValue`).
    pub wrapped: bool,
    /// The value validations (custom resources).
    pub checks: Option<Box<Checks>>,
    /// The `type` in the schema of a custom resource; "integer,string" for either, "" for none.
    pub type_name: Str,
    /// The node of the metadata of a whole object, which has its own validation.
    pub metadata: Option<NodeId>,
    /// The metadata in the schema of a custom resource.
    pub metadata_rules: Option<NodeId>,
}

/// The value validations of a custom resource's schema.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are those of JSON schema")]
pub struct Checks {
    pub format: Str,
    pub pattern: Str,
    pub enumeration: Vec<Value>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<usize>,
    pub max_length: Option<i64>,
    pub min_items: Option<usize>,
    pub max_items: Option<i64>,
    pub unique_items: bool,
    /// `items` of a schema whose type is not `array`. kube-apiserver validates the items of a list with it, in addition to
    /// the error about the type.
    pub items: Option<NodeId>,
    /// A node with the `properties` of a schema whose type is not `object`, which are validated in the same way.
    pub fields: Option<NodeId>,
    /// Whether `additionalProperties` is false.
    pub is_closed: bool,
    pub min_properties: Option<usize>,
    pub max_properties: Option<i64>,
    pub required: Vec<Str>,
    pub all_of: Vec<NodeId>,
    pub any_of: Vec<NodeId>,
    pub one_of: Vec<NodeId>,
    pub not: Option<NodeId>,
}

/// A value that is a JSON schema or an alternative to one; its JSON type distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The node of the JSON schema.
    pub props: NodeId,
    /// The alternative.
    pub other: Other,
}

/// The alternatives to a JSON schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// A list of JSON schemas (`items`).
    List,
    /// A boolean (`additionalProperties`).
    Bool,
    /// A list of field names (`dependencies`).
    Strings,
}

impl Node {
    /// The schema of list items. A definition may declare one whatever the type is.
    pub fn items(&self) -> Option<NodeId> {
        match self.shape {
            Shape::List { item, .. } => Some(item),
            _ => self.checks.as_ref()?.items,
        }
    }

    /// The shape with the schemas of an object's fields. A definition may declare them whatever the type is.
    pub fn fields<'a>(&'a self, arena: &'a Arena) -> &'a Shape {
        let fields = self.checks.as_ref().and_then(|checks| checks.fields);
        fields.map_or(&self.shape, |fields| &arena.node(fields).shape)
    }

    /// Whether Go stores the raw bytes of the request here.
    pub fn is_raw_extension(&self) -> bool {
        matches!(self.shape, Shape::Any) && self.go.ends_with("RawExtension")
    }

    /// A node of this shape without further properties.
    pub fn of(shape: Shape) -> Self {
        Node {
            shape,
            go: Str::default(),
            default: None,
            nullable: false,
            preserve_unknown: false,
            embedded: false,
            choice: None,
            wrapped: false,
            checks: None,
            type_name: Str::default(),
            metadata: None,
            metadata_rules: None,
        }
    }
}

/// The type of a value.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Any JSON: raw extensions, schemaless parts.
    Any,
    /// A boolean.
    Bool,
    /// An integer of 32 or 64 bits.
    Int {
        /// 32 or 64.
        bits: u8,
    },
    /// A floating point number.
    Float,
    /// Text.
    String,
    /// Bytes: base64 text in JSON, raw in protobuf and CBOR.
    Bytes,
    /// RFC 3339 time of whole seconds.
    Time,
    /// RFC 3339 time with microseconds.
    MicroTime,
    /// A Go duration as text (`1h0m0s`).
    Duration,
    /// A resource quantity; canonical text.
    Quantity,
    /// An integer or text.
    IntOrString,
    /// A list.
    List {
        /// Schema of each item.
        item: NodeId,
        /// How lists are merged.
        kind: ListKind,
    },
    /// A map with arbitrary keys.
    Map {
        /// Schema of each value.
        value: NodeId,
        /// How maps are merged.
        kind: MapKind,
    },
    /// An object with named fields.
    Struct(Struct),
}

impl Shape {
    /// Whether Go represents it as a struct, which `omitempty` never omits.
    pub fn is_go_struct(&self) -> bool {
        use Shape::{Any, Duration, IntOrString, MicroTime, Quantity, Struct, Time};
        matches!(self, Any | Duration | IntOrString | MicroTime | Quantity | Struct(_) | Time)
    }
}

/// How two lists are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// The value is replaced as a whole.
    Atomic,
    /// By value.
    Set,
    /// By these fields of each item.
    Map(Box<[Str]>),
}

/// How two maps or structs are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// Field by field.
    Granular,
    /// The value is replaced as a whole.
    Atomic,
}

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
    /// How it is merged.
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
    /// Name of the Go field that embeds it, for error messages.
    pub go_name: Str,
    /// Its own node; its fields are also fields of the surrounding struct.
    pub node: NodeId,
}

/// A member of a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Its number.
    pub number: u32,
    /// Its content.
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
    /// Schema of its value.
    pub node: NodeId,
    /// Whether Go has a pointer, so that unset and zero are different.
    pub pointer: bool,
    /// When the field is omitted from the output.
    pub omit: Omit,
    /// Whether a custom resource must have it.
    pub required: bool,
    /// Protobuf number; 0 if it has none.
    pub proto: u32,
    /// Index into `Struct::inlined` plus one if it belongs to an inlined struct; 0 otherwise.
    pub inline: u8,
    /// Its index in `Struct::order`.
    pub rank: u16,
    /// How a strategic merge patch treats it.
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
    fn always_written(&self, shape: &Shape) -> bool {
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
    /// When it is Go-empty (`omitempty`): false, 0, "", nil, no items. A struct is never empty.
    Empty,
    /// When it is the zero value (`omitzero`), structs included.
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
