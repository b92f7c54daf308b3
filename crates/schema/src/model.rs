//! The compiled schema: a graph of nodes in one arena, so that recursive types need no pointers.

mod arena;
mod fields;

pub use arena::Arena;
pub use fields::{Field, Inlined, Member, Omit, Patch, Struct, Wire};

use crate::rules::Scope;
use pintle_value::{Str, Value};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// A node of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// A schema: a root within a shared arena. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Schema(Compilation);

#[derive(Clone, Debug)]
enum Compilation {
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
        Schema(Compilation::Done(Compiled { arena, root, rules: None }))
    }

    /// A schema that `make` compiles on first use.
    pub fn later(make: impl FnOnce() -> Schema + Send + Sync + 'static) -> Self {
        let make: Make = Box::new(move || make().compiled().clone());
        Schema(Compilation::Later(Arc::new(LazyLock::new(make))))
    }

    fn compiled(&self) -> &Compiled {
        match &self.0 {
            Compilation::Done(compiled) => compiled,
            Compilation::Later(later) => later,
        }
    }

    /// This schema with the rules of a custom resource.
    #[must_use]
    pub fn with_rules(self, rules: Option<Scope>) -> Self {
        Schema(Compilation::Done(Compiled { rules: rules.map(Arc::new), ..self.compiled().clone() }))
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

    /// Whether an object of this type may have the member `name` at its top.
    pub fn may_have(&self, name: &str) -> bool {
        let root = self.node();
        root.preserve_unknown || matches!(&root.shape, Shape::Struct(known) if known.field(name).is_some())
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
    /// The node's type.
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
    /// The texts of a long enumeration, for looking one up; empty if it is short.
    pub enumeration_texts: HashSet<Str>,
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
