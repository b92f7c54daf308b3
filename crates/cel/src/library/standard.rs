//! The standard library of the language: its functions, with cel-go's names for their overloads. Operators are declared
//! here for the checker; the evaluator runs them itself.

use crate::ast::operators as op;
use crate::decl::{Function, Run, declare};
use crate::eval::operator::{self, Operator};
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
    declare(
        &[],
        &[
            (op::CONDITIONAL, "conditional", "(bool, A, A) -> A", unreachable_run),
            (op::AND, "logical_and", "(bool, bool) -> bool", unreachable_run),
            (op::OR, "logical_or", "(bool, bool) -> bool", unreachable_run),
            (op::NOT, "logical_not", "(bool) -> bool", unreachable_run),
            (op::NOT_STRICTLY_FALSE, "not_strictly_false", "(bool) -> bool", unreachable_run),
            (op::EQUALS, "equals", "(A, A) -> bool", unreachable_run),
            (op::NOT_EQUALS, "not_equals", "(A, A) -> bool", unreachable_run),
        ],
    )
}

fn arithmetic_functions() -> Vec<Function> {
    let add: Run = |args| operator::run(Operator::Add, args);
    let divide: Run = |args| operator::run(Operator::Divide, args);
    let modulo: Run = |args| operator::run(Operator::Modulo, args);
    let multiply: Run = |args| operator::run(Operator::Multiply, args);
    let subtract: Run = |args| operator::run(Operator::Subtract, args);
    declare(
        &[],
        &[
            (op::ADD, "add_bytes", "(bytes, bytes) -> bytes", add),
            (op::ADD, "add_double", "(double, double) -> double", add),
            (op::ADD, "add_duration_duration", "(duration, duration) -> duration", add),
            (op::ADD, "add_duration_timestamp", "(duration, timestamp) -> timestamp", add),
            (op::ADD, "add_timestamp_duration", "(timestamp, duration) -> timestamp", add),
            (op::ADD, "add_int64", "(int, int) -> int", add),
            (op::ADD, "add_list", "(list(A), list(A)) -> list(A)", add),
            (op::ADD, "add_string", "(string, string) -> string", add),
            (op::ADD, "add_uint64", "(uint, uint) -> uint", add),
            (op::DIVIDE, "divide_double", "(double, double) -> double", divide),
            (op::DIVIDE, "divide_int64", "(int, int) -> int", divide),
            (op::DIVIDE, "divide_uint64", "(uint, uint) -> uint", divide),
            (op::MODULO, "modulo_int64", "(int, int) -> int", modulo),
            (op::MODULO, "modulo_uint64", "(uint, uint) -> uint", modulo),
            (op::MULTIPLY, "multiply_double", "(double, double) -> double", multiply),
            (op::MULTIPLY, "multiply_int64", "(int, int) -> int", multiply),
            (op::MULTIPLY, "multiply_uint64", "(uint, uint) -> uint", multiply),
            (op::NEGATE, "negate_double", "(double) -> double", operator::negate),
            (op::NEGATE, "negate_int64", "(int) -> int", operator::negate),
            (op::SUBTRACT, "subtract_double", "(double, double) -> double", subtract),
            (op::SUBTRACT, "subtract_duration_duration", "(duration, duration) -> duration", subtract),
            (op::SUBTRACT, "subtract_int64", "(int, int) -> int", subtract),
            (op::SUBTRACT, "subtract_timestamp_duration", "(timestamp, duration) -> timestamp", subtract),
            (op::SUBTRACT, "subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration", subtract),
            (op::SUBTRACT, "subtract_uint64", "(uint, uint) -> uint", subtract),
        ],
    )
}

/// The overloads of one comparison, in the order of cel-go.
macro_rules! comparison {
    ($name:expr, $operator:expr, $prefix:literal) => {{
        let run: Run = |args| operator::run($operator, args);
        declare(
            &[],
            &[
                ($name, concat!($prefix, "_bool"), "(bool, bool) -> bool", run),
                ($name, concat!($prefix, "_int64"), "(int, int) -> bool", run),
                ($name, concat!($prefix, "_int64_double"), "(int, double) -> bool", run),
                ($name, concat!($prefix, "_int64_uint64"), "(int, uint) -> bool", run),
                ($name, concat!($prefix, "_uint64"), "(uint, uint) -> bool", run),
                ($name, concat!($prefix, "_uint64_double"), "(uint, double) -> bool", run),
                ($name, concat!($prefix, "_uint64_int64"), "(uint, int) -> bool", run),
                ($name, concat!($prefix, "_double"), "(double, double) -> bool", run),
                ($name, concat!($prefix, "_double_int64"), "(double, int) -> bool", run),
                ($name, concat!($prefix, "_double_uint64"), "(double, uint) -> bool", run),
                ($name, concat!($prefix, "_string"), "(string, string) -> bool", run),
                ($name, concat!($prefix, "_bytes"), "(bytes, bytes) -> bool", run),
                ($name, concat!($prefix, "_timestamp"), "(timestamp, timestamp) -> bool", run),
                ($name, concat!($prefix, "_duration"), "(duration, duration) -> bool", run),
            ],
        )
    }};
}

fn comparison_functions() -> Vec<Function> {
    let comparisons = [
        comparison!(op::LESS, Operator::Less, "less"),
        comparison!(op::LESS_EQUALS, Operator::LessEquals, "less_equals"),
        comparison!(op::GREATER, Operator::Greater, "greater"),
        comparison!(op::GREATER_EQUALS, Operator::GreaterEquals, "greater_equals"),
    ];
    comparisons.into_iter().flatten().collect()
}

fn aggregate_functions() -> Vec<Function> {
    let contains: Run = |args| operator::run(Operator::In, args);
    declare(
        &[],
        &[
            (op::INDEX, "index_list", "(list(A), int) -> A", unreachable_run),
            (op::INDEX, "index_map", "(map(A, B), A) -> B", unreachable_run),
            (op::IN, "in_list", "(A, list(A)) -> bool", contains),
            (op::IN, "in_map", "(A, map(A, B)) -> bool", contains),
            ("size", "size_bytes", "(bytes) -> int", operator::size),
            ("size", "bytes_size", "bytes.() -> int", operator::size),
            ("size", "size_list", "(list(A)) -> int", operator::size),
            ("size", "list_size", "list(A).() -> int", operator::size),
            ("size", "size_map", "(map(A, B)) -> int", operator::size),
            ("size", "map_size", "map(A, B).() -> int", operator::size),
            ("size", "size_string", "(string) -> int", operator::size),
            ("size", "string_size", "string.() -> int", operator::size),
        ],
    )
}
