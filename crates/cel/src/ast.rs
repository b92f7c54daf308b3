//! The syntax tree, which the parser builds and the checker, the cost estimate and the planner read.

use std::sync::Arc;

/// Identifies a node of one tree. Ids begin at 1 in the order in which the parser creates the nodes; 0 is no node.
pub type Id = u32;

/// A parsed expression with the positions of its nodes.
#[derive(Clone, Debug)]
pub struct Ast {
    /// The whole expression.
    pub root: Expr,
    /// The text from which the expression was parsed.
    pub source: Source,
}

/// The text of an expression and the positions of its nodes.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The expression as it was written.
    pub text: Arc<str>,
    /// Offset in code points of the node whose id is the index; `u32::MAX` if it has none.
    pub offsets: Vec<u32>,
}

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The expression's index in `Source::offsets` and in the checker's tables.
    pub id: Id,
    /// The kind of the expression, with its parts.
    pub kind: ExprKind,
}

/// The nodes of the language after macros are expanded.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `1`, `"a"`, `null`
    Literal(Literal),
    /// `a`, or `.a` including the dot.
    Ident(Arc<str>),
    /// `operand.field`, or `has(operand.field)` when `test_only`.
    Select {
        /// The value whose field is selected.
        operand: Box<Expr>,
        /// The field's name.
        field: Arc<str>,
        /// Whether only presence is tested.
        test_only: bool,
    },
    /// A function, a method (with `target`) or an operator (`_+_`, `_[_]`, `_?._`, `@in`, …: see `operators`).
    Call {
        /// The name.
        function: Arc<str>,
        /// The value before the dot of a method.
        target: Option<Box<Expr>>,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// `[a, ?b]`
    List {
        /// The elements.
        elements: Vec<Expr>,
        /// Indices of the elements written with `?`.
        optional: Vec<u32>,
    },
    /// `{k: v, ?k: v}`
    Map(Vec<MapEntry>),
    /// `Name{field: v}`
    Struct {
        /// The type's name as written.
        name: Arc<str>,
        /// The fields.
        fields: Vec<StructField>,
    },
    /// A loop: the expansion of the macros `all`, `exists`, `map`, `filter`, …
    Comprehension(Box<Comprehension>),
}

/// A constant as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.5`
    Double(f64),
    /// `"a"`
    String(Arc<str>),
    /// `b"a"`
    Bytes(Arc<[u8]>),
}

/// One entry of a map literal.
#[derive(Clone, Debug, PartialEq)]
pub struct MapEntry {
    /// The entry's own id.
    pub id: Id,
    /// The key.
    pub key: Expr,
    /// The value.
    pub value: Expr,
    /// Written with `?`.
    pub optional: bool,
}

/// One field of an object literal.
#[derive(Clone, Debug, PartialEq)]
pub struct StructField {
    /// The entry's own id.
    pub id: Id,
    /// The field's name.
    pub name: Arc<str>,
    /// The value.
    pub value: Expr,
    /// Written with `?`.
    pub optional: bool,
}

/// `for iter_var[, iter_var2] in iter_range, while loop_condition: accu_var = loop_step; result`
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    /// The list or map that is iterated.
    pub iter_range: Expr,
    /// The element (of a list) or the key (of a map); with a second variable: the index or the key.
    pub iter_var: Arc<str>,
    /// The value, in macros of two variables.
    pub iter_var2: Option<Arc<str>>,
    /// The name of the accumulator: `@result`.
    pub accu_var: Arc<str>,
    /// The accumulator's first value.
    pub accu_init: Expr,
    /// The loop continues while this is true.
    pub loop_condition: Expr,
    /// The next value.
    pub loop_step: Expr,
    /// The result of the loop.
    pub result: Expr,
}

impl Expr {
    /// The direct subexpressions, in the order of evaluation.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => Vec::new(),
            ExprKind::Select { operand, .. } => vec![operand],
            ExprKind::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
            ExprKind::List { elements, .. } => elements.iter().collect(),
            ExprKind::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
            ExprKind::Struct { fields, .. } => fields.iter().map(|field| &field.value).collect(),
            ExprKind::Comprehension(it) => {
                vec![&it.iter_range, &it.accu_init, &it.loop_condition, &it.loop_step, &it.result]
            }
        }
    }
}

/// The function names of operators.
pub mod operators {
    /// `c ? a : b`
    pub const CONDITIONAL: &str = "_?_:_";
    /// `a && b`
    pub const AND: &str = "_&&_";
    /// `a || b`
    pub const OR: &str = "_||_";
    /// `!a`
    pub const NOT: &str = "!_";
    /// `a == b`
    pub const EQUALS: &str = "_==_";
    /// `a != b`
    pub const NOT_EQUALS: &str = "_!=_";
    /// `a < b`
    pub const LESS: &str = "_<_";
    /// `a <= b`
    pub const LESS_EQUALS: &str = "_<=_";
    /// `a > b`
    pub const GREATER: &str = "_>_";
    /// `a >= b`
    pub const GREATER_EQUALS: &str = "_>=_";
    /// `a + b`
    pub const ADD: &str = "_+_";
    /// `a - b`
    pub const SUBTRACT: &str = "_-_";
    /// `a * b`
    pub const MULTIPLY: &str = "_*_";
    /// `a / b`
    pub const DIVIDE: &str = "_/_";
    /// `a % b`
    pub const MODULO: &str = "_%_";
    /// `-a`
    pub const NEGATE: &str = "-_";
    /// `a[b]`
    pub const INDEX: &str = "_[_]";
    /// `a[?b]`
    pub const OPT_INDEX: &str = "_[?_]";
    /// `a.?b`
    pub const OPT_SELECT: &str = "_?._";
    /// `a in b`
    pub const IN: &str = "@in";
    /// False only if its argument is false, so that `all` and `exists` continue after errors.
    pub const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
}
