//! Plans trees: names become slots, fields and overloads are resolved once, constants are evaluated, and loops of the
//! common macros get their own form. A plan charges exactly what cel-go charges for the tree.

use std::sync::Arc;

use pintle_value::Str;

use crate::ast::{Expr, ExprKind, Literal};
use crate::decl::{Function, Prepared, Run};
use crate::env::{Checked, Env, Reference};
use crate::eval::operator::Operator;
use crate::eval::{Price, literal_list, literal_map};
use crate::library::Tracker;
use crate::program::PlanError;
use crate::shape::Shape;
use crate::types::Type;
use crate::value::Value;

mod attribute;
mod call;
mod fold;

/// Deeper trees are rejected: the evaluator recurses.
const DEPTH_MAX: usize = 1_000;

/// One step of a plan.
pub(crate) enum Node {
    /// A constant; it has no cost.
    Constant(Value<'static>),
    /// A variable or a value, with fields and indices applied.
    Attribute(Box<Attribute>),
    /// `has(attribute)`: the last qualifier is only tested.
    Has(Box<Attribute>),
    /// `a && b && …`
    And(Box<[Node]>),
    /// `a || b || …`
    Or(Box<[Node]>),
    /// `a == b`
    Equal(Box<(Node, Node)>),
    /// `a != b`
    NotEqual(Box<(Node, Node)>),
    /// An operator with two operands.
    Binary(Box<Binary>),
    /// `!a`
    Not(Box<Node>),
    /// False only if its operand is.
    NotStrictlyFalse(Box<Node>),
    /// `a in [1, 2]` with constant elements.
    Member(Box<Member>),
    /// `a.or(b)`
    OptionalOr(Box<(Node, Node)>),
    /// `a.orValue(b)`
    OptionalOrValue(Box<(Node, Node)>),
    /// A function.
    Call(Box<Call>),
    /// `[a, ?b]`
    List(Box<[Element]>),
    /// `{a: b, ?c: d}`
    Map(Box<[(Node, Element)]>),
    /// `Name{a: b}`
    Object(Box<ObjectLiteral>),
    /// A loop.
    Fold(Box<Fold>),
}

/// A part of a literal.
pub(crate) struct Element {
    pub(crate) node: Node,
    /// Written with `?`: an empty optional is omitted.
    pub(crate) optional: bool,
}

/// An object literal.
pub(crate) struct ObjectLiteral {
    pub(crate) name: Arc<str>,
    pub(crate) fields: Vec<(Arc<str>, Element)>,
}

/// An operator with two operands.
pub(crate) struct Binary {
    pub(crate) operator: Operator,
    pub(crate) price: Price,
    pub(crate) left: Node,
    pub(crate) right: Node,
}

/// Membership in a constant list.
pub(crate) struct Member {
    pub(crate) wanted: Node,
    pub(crate) set: Set,
}

/// The elements of a constant list.
pub(crate) enum Set {
    /// Sorted.
    Texts(Vec<Arc<str>>),
    /// Numbers and others, compared one by one.
    Other(Vec<Value<'static>>),
}

/// A function's call.
pub(crate) struct Call {
    pub(crate) function: &'static str,
    pub(crate) args: Box<[Node]>,
    pub(crate) dispatch: Dispatch,
    pub(crate) price: Price,
    /// The trackers that may know the cost; they take precedence over `price`.
    pub(crate) trackers: Vec<Tracker>,
}

/// How the implementation of a call is chosen.
pub(crate) enum Dispatch {
    /// The types are known, or the implementation checks them itself.
    Direct(Run),
    /// The types must be checked first.
    Guarded(Run, Vec<Type>),
    /// With processed constant arguments.
    Prepared(Prepared),
    /// The first overload that accepts the arguments.
    ByOverload(Arc<Function>),
}

/// A value with a chain of fields and indices.
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) qualifiers: Vec<Qualifier>,
}

/// The start of an attribute.
pub(crate) enum Root {
    /// A variable of the environment.
    Input(Arc<str>),
    /// A variable of a loop.
    Local(usize),
    /// The first of these names that exists (in unchecked trees).
    OneOf(Vec<Candidate>),
    /// A computed value.
    Node(Node),
    /// `condition ? a : b`
    Conditional(Box<(Node, Attribute, Attribute)>),
}

/// A possible meaning of a name in an unchecked tree.
pub(crate) struct Candidate {
    pub(crate) name: Arc<str>,
    /// The constant with this name, if there is one.
    pub(crate) constant: Option<Value<'static>>,
    /// How many qualifiers are part of the name.
    pub(crate) taken: usize,
}

/// One step into a value.
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    /// `.?` or `[?`
    pub(crate) optional: bool,
}

/// The field, key or index of a step.
pub(crate) enum QualifierKey {
    /// A field whose position in the tree is known from its type.
    Field(Arc<str>, Str, Arc<Shape>),
    /// A constant field name or key.
    Key(Value<'static>),
    /// Another attribute.
    Attribute(Box<Attribute>),
    /// A computed key.
    Node(Box<Node>),
}

/// A loop.
pub(crate) struct Fold {
    pub(crate) range: Node,
    /// The element or key; with two variables the index or key.
    pub(crate) variable: usize,
    /// The value.
    pub(crate) second: Option<usize>,
    pub(crate) kind: FoldKind,
}

/// The form of a loop.
pub(crate) enum FoldKind {
    /// Any other loop.
    General(General),
    /// `all`: ends at false.
    All(Node),
    /// `exists`: ends at true.
    Exists(Node),
    /// `exists_one`: counts.
    ExistsOne(Node),
    /// `map`, `filter`: appends to a list.
    Append {
        filter: Option<Node>,
        /// The appended items: a list literal, or a constant list.
        items: Node,
        /// The cost of creating the empty list.
        init: u64,
    },
    /// `transformMap`, `transformMapEntry`: inserts into a map.
    Insert {
        filter: Option<Node>,
        entry: NewEntry,
        /// The cost of creating the empty map.
        init: u64,
    },
}

/// The entries that are inserted into a map.
pub(crate) enum NewEntry {
    /// A key and its value.
    One(Node, Node),
    /// All entries of a map.
    All(Node),
}

/// A loop without a special form.
pub(crate) struct General {
    pub(crate) accumulator: usize,
    pub(crate) init: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

/// A plan and the number of slots it needs.
pub(crate) struct Plan {
    pub(crate) root: Node,
    /// The number of slots that the variables of all loops need.
    pub(crate) locals: usize,
}

/// Plans a checked tree.
pub(crate) fn checked(checked: &Checked) -> Result<Plan, PlanError> {
    Planner::new(checked.env(), Some(checked)).finish(&checked.ast.root)
}

/// Plans an unchecked tree.
pub(crate) fn unchecked(env: &Env, root: &Expr) -> Result<Plan, PlanError> {
    Planner::new(env, None).finish(root)
}

struct Planner<'e> {
    env: &'e Env,
    checked: Option<&'e Checked>,
    /// The variables of the enclosing loops, innermost last, and their slots.
    scope: Vec<(Arc<str>, usize)>,
    locals: usize,
    depth: usize,
}

impl<'e> Planner<'e> {
    fn new(env: &'e Env, checked: Option<&'e Checked>) -> Planner<'e> {
        Planner { env, checked, scope: Vec::new(), locals: 0, depth: 0 }
    }

    fn finish(mut self, root: &Expr) -> Result<Plan, PlanError> {
        let root = self.plan(root)?;
        Ok(Plan { root, locals: self.locals })
    }

    fn plan(&mut self, expr: &Expr) -> Result<Node, PlanError> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > DEPTH_MAX {
            return Err(PlanError("expression nested too deeply".into()));
        }
        let node = match &expr.kind {
            ExprKind::Literal(literal) => Ok(Node::Constant(constant_value(literal))),
            ExprKind::Ident(name) => self.plan_ident(expr, name),
            ExprKind::Select { operand, field, test_only } => {
                self.plan_select(expr, operand, field, *test_only)
            }
            ExprKind::Call { function, target, args } => {
                self.plan_call(expr, function, target.as_deref(), args)
            }
            ExprKind::List { elements, optional } => self.plan_list(elements, optional),
            ExprKind::Map(entries) => self.plan_map(entries),
            ExprKind::Struct { name, fields } => self.plan_object(name, fields),
            ExprKind::Comprehension(comprehension) => self.plan_fold(comprehension),
        };
        self.depth = self.depth.saturating_sub(1);
        node
    }

    fn folds(&self) -> bool {
        self.env.options().fold_constants
    }

    fn reference(&self, expr: &Expr) -> Option<&'e Reference> {
        self.checked.and_then(|checked| checked.reference(expr.id))
    }

    fn plan_list(&mut self, elements: &[Expr], optional: &[u32]) -> Result<Node, PlanError> {
        let mut planned = Vec::with_capacity(elements.len());
        for (index, element) in elements.iter().enumerate() {
            let optional = optional.iter().any(|&at| at as usize == index);
            planned.push(Element { node: self.plan(element)?, optional });
        }
        let constants: Option<Vec<_>> = planned.iter().map(Element::as_constant).collect();
        match constants {
            Some(constants) if self.folds() => Ok(Node::Constant(literal_list(constants))),
            _ => Ok(Node::List(planned.into())),
        }
    }

    fn plan_map(&mut self, entries: &[crate::ast::MapEntry]) -> Result<Node, PlanError> {
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = self.plan(&entry.key)?;
            planned.push((key, Element { node: self.plan(&entry.value)?, optional: entry.optional }));
        }
        let constants: Option<Vec<_>> =
            planned.iter().map(|(key, value)| Some((key.as_constant()?, value.as_constant()?))).collect();
        match constants {
            Some(constants) if self.folds() => Ok(Node::Constant(literal_map(constants))),
            _ => Ok(Node::Map(planned.into())),
        }
    }

    fn plan_object(
        &mut self,
        name: &Arc<str>,
        fields: &[crate::ast::StructField],
    ) -> Result<Node, PlanError> {
        let known = names_within(self.env.container(), name)
            .find(|name| self.env.provider().objects.contains_key(name) || self.env.provider().is_open(name));
        let Some(name) = known else { return Err(PlanError(format!("unknown type: {name}"))) };
        let mut planned = Vec::with_capacity(fields.len());
        for field in fields {
            let node = self.plan(&field.value)?;
            planned.push((field.name.clone(), Element { node, optional: field.optional }));
        }
        Ok(Node::Object(Box::new(ObjectLiteral { name, fields: planned })))
    }
}

impl Node {
    fn as_constant(&self) -> Option<Value<'static>> {
        match self {
            Node::Constant(value) => Some(value.clone()),
            _ => None,
        }
    }
}

impl Element {
    fn as_constant(&self) -> Option<Value<'static>> {
        if self.optional { None } else { self.node.as_constant() }
    }
}

/// The names that `name` may refer to in a container, the longest first; a name with a leading dot only refers to itself.
fn names_within<'n>(container: &'n str, name: &'n str) -> impl Iterator<Item = Arc<str>> + 'n {
    let (mut prefix, name) = match name.strip_prefix('.') {
        Some(absolute) => (None, absolute),
        None => (Some(container).filter(|container| !container.is_empty()), name),
    };
    let mut done = false;
    std::iter::from_fn(move || {
        if let Some(container) = prefix {
            prefix = container.rsplit_once('.').map(|(outer, _)| outer);
            return Some(format!("{container}.{name}").into());
        }
        (!std::mem::replace(&mut done, true)).then(|| name.into())
    })
}

fn constant_value(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => text.clone().into(),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}
