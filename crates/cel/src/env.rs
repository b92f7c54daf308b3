//! `Env`: the variables, functions, types and options for compiling expressions, and `Checked`, the result.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::ast::{Ast, Expr, Id};
use crate::cost::{self, CostEstimate, CostModel, Estimator};
use crate::decl::{Constant, Function, Variable};
use crate::issue::Issues;
use crate::library::{self, Library, Pricing, Tracker, Validator};
use crate::parser::Macro;
use crate::shape::{Provider, Shape};
use crate::types::{OPTIONAL, Type};
use crate::value::Value;
use crate::{checker, parser};

/// The environment for compiling an expression. Cheap to clone: another variable does not copy the functions.
#[derive(Clone)]
pub struct Env {
    base: Arc<Base>,
    variables: Arc<Vec<Variable>>,
    shapes: Arc<Vec<(Arc<str>, Arc<Shape>)>>,
    provider: Arc<Provider>,
    container: Arc<str>,
}

/// The part that many environments share.
#[derive(Clone, Default)]
struct Base {
    functions: HashMap<&'static str, Arc<Function>>,
    macros: Vec<Macro>,
    constants: HashMap<Arc<str>, Constant>,
    validators: Vec<Validator>,
    mixed_arguments: Vec<&'static str>,
    estimators: HashMap<&'static str, Estimator>,
    trackers: HashMap<&'static str, Tracker>,
    pricing: Option<Pricing>,
    options: Options,
}

/// Options of the language.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each named by cel-go")]
pub struct Options {
    /// Whether `a.?b`, `a[?b]`, `{?a: b}` and `[?a]` are allowed.
    pub optional_syntax: bool,
    /// Whether a field can be in backticks: a.`b-c`.
    pub escaped_identifiers: bool,
    /// Whether the checker accepts `1 < 1.5`.
    pub cross_type_comparisons: bool,
    /// Whether `has()` has a cost.
    pub presence_test_has_cost: bool,
    /// Whether a map literal with a duplicate or invalid key fails, and `has(x.y)` if `x` has no fields. The
    /// specification of the language requires that; cel-go does not do it.
    pub strict: bool,
    /// Whether literals and conversions of constants are evaluated when a program is planned: then they have no cost, and
    /// a failing conversion is an error of the expression.
    pub fold_constants: bool,
    /// Whether names of keys in maps may be escaped: `a.b__dot__c` is the key `b.c`.
    pub escaped_keys: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            optional_syntax: false,
            escaped_identifiers: false,
            cross_type_comparisons: false,
            presence_test_has_cost: true,
            strict: true,
            fold_constants: false,
            escaped_keys: false,
        }
    }
}

impl Env {
    /// No functions, no macros, no variables; only the names of the basic types.
    pub fn bare() -> Env {
        let mut base = Base::default();
        for (name, ty) in basic_types() {
            base.add_type(name, ty);
        }
        Env {
            base: Arc::new(base),
            variables: Arc::default(),
            shapes: Arc::default(),
            provider: Arc::default(),
            container: "".into(),
        }
    }

    /// The standard library of the language, with all its macros.
    pub fn standard() -> Env {
        static STANDARD: OnceLock<Env> = OnceLock::new();
        STANDARD.get_or_init(|| Env::bare().with_library(library::standard())).clone()
    }

    /// The environment that Kubernetes 1.36 offers to every expression.
    pub fn kubernetes() -> Env {
        static KUBERNETES: OnceLock<Env> = OnceLock::new();
        KUBERNETES
            .get_or_init(|| {
                let env = Env::standard().with_options(|options| {
                    options.cross_type_comparisons = true;
                    options.presence_test_has_cost = false;
                    options.strict = false;
                    options.fold_constants = true;
                });
                library::kubernetes().into_iter().fold(env, Env::with_library)
            })
            .clone()
    }

    /// Adds a library.
    #[must_use]
    pub fn with_library(mut self, library: Library) -> Env {
        let base = Arc::make_mut(&mut self.base);
        for function in library.functions {
            base.add_function(function);
        }
        base.macros.extend(library.macros);
        for (name, ty) in library.types {
            base.add_type(name, ty);
        }
        base.validators.extend(library.validators);
        base.mixed_arguments.extend(library.mixed_arguments);
        base.estimators.extend(library.estimators);
        base.trackers.extend(library.trackers);
        base.pricing = library.pricing.or(base.pricing);
        base.options.optional_syntax |= library.optional_syntax;
        self
    }

    /// Changes the options.
    #[must_use]
    pub fn with_options(mut self, change: impl FnOnce(&mut Options)) -> Env {
        change(&mut Arc::make_mut(&mut self.base).options);
        self
    }

    /// Declares a variable; one of the same name is replaced.
    #[must_use]
    pub fn with_variable(mut self, name: &str, ty: Type) -> Env {
        let variables = Arc::make_mut(&mut self.variables);
        variables.retain(|variable| &*variable.name != name);
        variables.push(Variable { name: name.into(), ty });
        self
    }

    /// Declares a variable of a shape: its type, its object types, and its sizes for the estimate.
    #[must_use]
    pub fn with_shape(mut self, name: &str, shape: Arc<Shape>) -> Env {
        Arc::make_mut(&mut self.provider).add(&shape);
        let ty = shape.cel_type();
        let shapes = Arc::make_mut(&mut self.shapes);
        shapes.retain(|(known, _)| &**known != name);
        shapes.push((name.into(), shape));
        self.with_variable(name, ty)
    }

    /// Declares the object types of a shape, without a variable.
    #[must_use]
    pub fn with_types_of(mut self, shape: &Shape) -> Env {
        Arc::make_mut(&mut self.provider).add(shape);
        self
    }

    /// Declares the types for whose names `open` returns true: they have every field, each of any type.
    #[must_use]
    pub fn with_open_types(mut self, open: fn(&str) -> bool) -> Env {
        Arc::make_mut(&mut self.provider).open = Some(open);
        self
    }

    /// Names are looked up within `container` first: `a.b.c` finds `x` as `a.b.c.x`, `a.b.x`, `a.x`, `x`.
    #[must_use]
    pub fn with_container(mut self, container: &str) -> Env {
        self.container = container.into();
        self
    }

    /// Parses `text` and expands macros, without checking.
    pub fn parse(&self, text: &str) -> Result<Ast, Issues> {
        parser::parse(text, &self.base.macros, &self.base.options)
    }

    /// Parses, checks types and runs the validators.
    pub fn compile(&self, text: &str) -> Result<Checked, Issues> {
        let checked = checker::check(self, self.parse(text)?)?;
        crate::validate::validate(&checked)?;
        Ok(checked)
    }

    /// A function by its full name.
    pub fn function(&self, name: &str) -> Option<&Arc<Function>> {
        self.base.functions.get(name)
    }

    /// A variable by its full name.
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|variable| &*variable.name == name)
    }

    /// Whether the type of a variable is `optional_type`.
    pub(crate) fn has_optional_variable(&self) -> bool {
        let is_optional = |ty: &Type| matches!(ty, Type::Opaque(name, _) if **name == *OPTIONAL);
        self.variables.iter().any(|variable| is_optional(&variable.ty))
    }

    /// The shape of a variable that was declared with one.
    pub fn shape(&self, name: &str) -> Option<&Arc<Shape>> {
        self.shapes.iter().find(|(known, _)| &**known == name).map(|(_, shape)| shape)
    }

    /// A type that can be used as a value.
    pub fn constant(&self, name: &str) -> Option<&Constant> {
        self.base.constants.get(name)
    }

    /// The object types.
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// The namespace in which names are looked up first.
    pub fn container(&self) -> &str {
        &self.container
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.base.options
    }

    pub(crate) fn validators(&self) -> &[Validator] {
        &self.base.validators
    }

    pub(crate) fn mixed_arguments(&self) -> &[&'static str] {
        &self.base.mixed_arguments
    }

    pub(crate) fn estimator(&self, overload: &str) -> Option<Estimator> {
        self.base.estimators.get(overload).copied()
    }

    /// The trackers that compute the cost of a call of the overload at run time: the first one that returns a cost wins.
    pub(crate) fn trackers(&self, function: &str, overload: &str) -> Vec<Tracker> {
        let own = self.base.trackers.get(overload).copied();
        let general = self.base.pricing.and_then(|pricing| pricing(function, overload));
        own.into_iter().chain(general).collect()
    }
}

impl Base {
    /// Adds overloads to an existing function; an overload with an existing id replaces it.
    fn add_function(&mut self, function: Function) {
        let Some(known) = self.functions.get_mut(function.name) else {
            self.functions.insert(function.name, Arc::new(function));
            return;
        };
        let known = Arc::make_mut(known);
        for overload in function.overloads {
            match known.overloads.iter_mut().find(|known| known.id == overload.id) {
                Some(known) => *known = overload,
                None => known.overloads.push(overload),
            }
        }
    }

    fn add_type(&mut self, name: &str, ty: Type) {
        let constant = Constant {
            name: name.into(),
            ty: Type::Type(Some(Arc::new(ty.clone()))),
            value: Value::Type(ty),
        };
        self.constants.insert(constant.name.clone(), constant);
    }
}

/// The types that every expression can refer to.
fn basic_types() -> Vec<(&'static str, Type)> {
    let (a, b) = (Type::param("A"), Type::param("B"));
    vec![
        ("bool", Type::Bool),
        ("bytes", Type::Bytes),
        ("double", Type::Double),
        ("google.protobuf.Duration", Type::Duration),
        ("google.protobuf.Timestamp", Type::Timestamp),
        ("int", Type::Int),
        ("list", Type::list(a.clone())),
        ("map", Type::map(a, b)),
        ("null_type", Type::Null),
        ("string", Type::String),
        ("type", Type::Type(None)),
        ("uint", Type::Uint),
    ]
}

/// A type-checked expression.
#[derive(Clone)]
pub struct Checked {
    /// The tree with resolved names: an `Ident` is the full name of a variable or constant, a `Call` the full name of a
    /// function (without `target` if that was a namespace), a `Struct` the full name of a type.
    pub ast: Ast,
    pub(crate) env: Env,
    /// The type of each node, by the node's id.
    pub(crate) types: Vec<Option<Type>>,
    /// What each node refers to, by the node's id.
    pub(crate) references: Vec<Option<Reference>>,
}

/// The resolution of a node.
#[derive(Clone)]
pub enum Reference {
    /// A variable (of the environment or of a macro), by its full name.
    Variable(Arc<str>),
    /// A constant.
    Constant(Constant),
    /// A function and the overloads (indices into `overloads`) that match the types.
    Function(Arc<Function>, Vec<u16>),
}

impl Checked {
    /// The type of the whole expression.
    pub fn output_type(&self) -> &Type {
        self.type_of(self.ast.root.id)
    }

    /// The type of a node.
    pub fn type_of(&self, id: Id) -> &Type {
        self.types.get(id as usize).and_then(Option::as_ref).unwrap_or(&Type::Dyn)
    }

    /// The resolution of a node.
    pub fn reference(&self, id: Id) -> Option<&Reference> {
        self.references.get(id as usize).and_then(Option::as_ref)
    }

    /// The environment in which the expression was compiled.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Estimates the cost of the expression.
    pub fn estimate(&self, model: &dyn CostModel) -> CostEstimate {
        cost::estimate(self, model)
    }

    /// Whether the expression reads or tests this field of the variable, as `variable.field` or `variable.?field`.
    pub fn selects_field(&self, variable: &str, field: &str) -> bool {
        use crate::ast::{ExprKind, Literal, operators};
        let is_variable = |expr: &Expr| matches!(&expr.kind, ExprKind::Ident(name) if name.trim_start_matches('.') == variable);
        let mut open = vec![&self.ast.root];
        while let Some(expr) = open.pop() {
            let found = match &expr.kind {
                ExprKind::Select { operand, field: name, .. } => &**name == field && is_variable(operand),
                ExprKind::Call { function, args, .. } if &**function == operators::OPT_SELECT => {
                    matches!(args.as_slice(), [operand, Expr { kind: ExprKind::Literal(Literal::String(name)), .. }]
                        if &**name == field && is_variable(operand))
                }
                _ => false,
            };
            if found {
                return true;
            }
            open.extend(expr.children());
        }
        false
    }

    /// Whether the expression reads the variable.
    pub fn uses(&self, variable: &str) -> bool {
        fn within(checked: &Checked, expr: &Expr, variable: &str) -> bool {
            matches!(checked.reference(expr.id), Some(Reference::Variable(name)) if &**name == variable)
                || expr.children().into_iter().any(|child| within(checked, child, variable))
        }
        within(self, &self.ast.root, variable)
    }
}
