//! The standard library of the language: its functions, with cel-go's names for their overloads. Operators are declared
//! here for the checker; the evaluator runs them itself.

use crate::ast::operators as op;
use crate::decl::{Function, Overload, Run};
use crate::eval::operator::{self, Operator};
use crate::types::Type;
use crate::value::{EvalError, Value};

mod convert;
mod text;
mod times;

pub(super) use times::whole_milliseconds;

/// All functions.
pub(super) fn functions() -> Vec<Function> {
    let mut functions = logic_functions();
    functions.extend(arithmetic_functions());
    functions.extend(comparison_functions());
    functions.extend(aggregate_functions());
    functions.extend(convert::functions());
    functions.extend(text::functions());
    functions.extend(times::functions());
    functions
}

/// Never called: the evaluator executes the operator itself.
fn unreachable_run<'a>(_: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Err(EvalError::NoSuchOverload)
}

fn logic_functions() -> Vec<Function> {
    let a = || Type::param("A");
    let bools = |count: usize| vec![Type::Bool; count];
    let one = |name, id, params: Vec<Type>, result| {
        Function::new(name, [Overload::function(id, params, result, unreachable_run)])
    };
    vec![
        one(op::CONDITIONAL, "conditional", vec![Type::Bool, a(), a()], a()),
        one(op::AND, "logical_and", bools(2), Type::Bool),
        one(op::OR, "logical_or", bools(2), Type::Bool),
        one(op::NOT, "logical_not", bools(1), Type::Bool),
        one(op::NOT_STRICTLY_FALSE, "not_strictly_false", bools(1), Type::Bool),
        one(op::EQUALS, "equals", vec![a(), a()], Type::Bool),
        one(op::NOT_EQUALS, "not_equals", vec![a(), a()], Type::Bool),
    ]
}

/// Overload id, left, right, result.
type Row = (&'static str, Type, Type, Type);

fn binary_function(name: &'static str, run: Run, rows: Vec<Row>) -> Function {
    let overloads =
        rows.into_iter().map(|(id, left, right, result)| Overload::function(id, [left, right], result, run));
    Function::new(name, overloads.collect::<Vec<_>>())
}

fn arithmetic_functions() -> Vec<Function> {
    use Type::{Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let list = || Type::list(Type::param("A"));
    let negate = |id, ty: Type| Overload::function(id, [ty.clone()], ty, operator::negate);
    vec![
        binary_function(
            op::ADD,
            |args| operator::run(Operator::Add, args),
            vec![
                ("add_bytes", Bytes, Bytes, Bytes),
                ("add_double", Double, Double, Double),
                ("add_duration_duration", Duration, Duration, Duration),
                ("add_duration_timestamp", Duration, Timestamp, Timestamp),
                ("add_timestamp_duration", Timestamp, Duration, Timestamp),
                ("add_int64", Int, Int, Int),
                ("add_list", list(), list(), list()),
                ("add_string", String, String, String),
                ("add_uint64", Uint, Uint, Uint),
            ],
        ),
        binary_function(
            op::DIVIDE,
            |args| operator::run(Operator::Divide, args),
            vec![
                ("divide_double", Double, Double, Double),
                ("divide_int64", Int, Int, Int),
                ("divide_uint64", Uint, Uint, Uint),
            ],
        ),
        binary_function(
            op::MODULO,
            |args| operator::run(Operator::Modulo, args),
            vec![("modulo_int64", Int, Int, Int), ("modulo_uint64", Uint, Uint, Uint)],
        ),
        binary_function(
            op::MULTIPLY,
            |args| operator::run(Operator::Multiply, args),
            vec![
                ("multiply_double", Double, Double, Double),
                ("multiply_int64", Int, Int, Int),
                ("multiply_uint64", Uint, Uint, Uint),
            ],
        ),
        Function::new(op::NEGATE, [negate("negate_double", Double), negate("negate_int64", Int)]),
        binary_function(
            op::SUBTRACT,
            |args| operator::run(Operator::Subtract, args),
            vec![
                ("subtract_double", Double, Double, Double),
                ("subtract_duration_duration", Duration, Duration, Duration),
                ("subtract_int64", Int, Int, Int),
                ("subtract_timestamp_duration", Timestamp, Duration, Timestamp),
                ("subtract_timestamp_timestamp", Timestamp, Timestamp, Duration),
                ("subtract_uint64", Uint, Uint, Uint),
            ],
        ),
    ]
}

/// The overloads of one comparison, in the order of cel-go.
macro_rules! comparison {
    ($name:expr, $operator:expr, $prefix:literal) => {{
        use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
        let rows = [
            (concat!($prefix, "_bool"), Bool, Bool),
            (concat!($prefix, "_int64"), Int, Int),
            (concat!($prefix, "_int64_double"), Int, Double),
            (concat!($prefix, "_int64_uint64"), Int, Uint),
            (concat!($prefix, "_uint64"), Uint, Uint),
            (concat!($prefix, "_uint64_double"), Uint, Double),
            (concat!($prefix, "_uint64_int64"), Uint, Int),
            (concat!($prefix, "_double"), Double, Double),
            (concat!($prefix, "_double_int64"), Double, Int),
            (concat!($prefix, "_double_uint64"), Double, Uint),
            (concat!($prefix, "_string"), String, String),
            (concat!($prefix, "_bytes"), Bytes, Bytes),
            (concat!($prefix, "_timestamp"), Timestamp, Timestamp),
            (concat!($prefix, "_duration"), Duration, Duration),
        ];
        let rows = rows.into_iter().map(|(id, left, right)| (id, left, right, Bool)).collect();
        binary_function($name, |args| operator::run($operator, args), rows)
    }};
}

fn comparison_functions() -> Vec<Function> {
    vec![
        comparison!(op::LESS, Operator::Less, "less"),
        comparison!(op::LESS_EQUALS, Operator::LessEquals, "less_equals"),
        comparison!(op::GREATER, Operator::Greater, "greater"),
        comparison!(op::GREATER_EQUALS, Operator::GreaterEquals, "greater_equals"),
    ]
}

fn aggregate_functions() -> Vec<Function> {
    let (a, b) = (|| Type::param("A"), || Type::param("B"));
    let (list, map) = (|| Type::list(a()), || Type::map(a(), b()));
    let sizes: [(&'static str, &'static str, Type); 4] = [
        ("size_bytes", "bytes_size", Type::Bytes),
        ("size_list", "list_size", list()),
        ("size_map", "map_size", map()),
        ("size_string", "string_size", Type::String),
    ];
    let sizes = sizes.into_iter().flat_map(|(function, method, ty)| {
        [
            Overload::function(function, [ty.clone()], Type::Int, operator::size),
            Overload::method(method, [ty], Type::Int, operator::size),
        ]
    });
    vec![
        binary_function(
            op::INDEX,
            unreachable_run,
            vec![("index_list", list(), Type::Int, a()), ("index_map", map(), a(), b())],
        ),
        binary_function(
            op::IN,
            |args| operator::run(Operator::In, args),
            vec![("in_list", a(), list(), Type::Bool), ("in_map", a(), map(), Type::Bool)],
        ),
        Function::new("size", sizes.collect::<Vec<_>>()),
    ]
}
