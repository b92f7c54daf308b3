//! Declarations: the functions and variables that an expression may use. Libraries are lists of these; a new function is
//! new data.

use std::sync::Arc;

use crate::types::{Type, split_types};
use crate::value::{EvalError, Value};

/// Executes a call. The target, if there is one, is the first argument.
pub type Run = for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, EvalError>;

/// A call whose constant arguments were processed once, when the program was planned (for example a compiled pattern).
pub type Prepared = Arc<dyn for<'a> Fn(&[Value<'a>]) -> Result<Value<'a>, EvalError> + Send + Sync>;

/// Processes the constant arguments of a call once; `None` if that does not make it faster.
pub type Prepare = fn(&[Option<Value<'static>>]) -> Option<Prepared>;

/// One overload of a function.
#[derive(Clone)]
pub struct Overload {
    /// cel-go's name of the overload: `string_to_int`. Cost models and tests refer to it.
    pub id: &'static str,
    /// Whether the overload is called with a dot: the first parameter is the target.
    pub member: bool,
    /// The parameters.
    pub params: Vec<Type>,
    /// The result.
    pub result: Type,
    /// Runs the overload. If the checker could not choose the overload, the evaluator does by the types at run time.
    pub run: Run,
    /// Called when the program is planned, with the constant arguments: returns a faster form of `run`.
    pub prepare: Option<Prepare>,
}

/// A function with its overloads.
#[derive(Clone)]
pub struct Function {
    /// The name: `matches`, `_+_`, `sets.contains`.
    pub name: &'static str,
    /// The overloads, tried in order.
    pub overloads: Vec<Overload>,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// The name, with dots if it has a namespace.
    pub name: Arc<str>,
    /// The variable's type.
    pub ty: Type,
}

/// A constant that an expression can refer to: a type (`int`), an enum value.
#[derive(Clone, Debug)]
pub struct Constant {
    /// The name.
    pub name: Arc<str>,
    /// The constant's type.
    pub ty: Type,
    /// The constant's value.
    pub value: Value<'static>,
}

impl Overload {
    /// Called as `name(a, b)`.
    pub fn function(id: &'static str, params: impl Into<Vec<Type>>, result: Type, run: Run) -> Overload {
        Overload { id, member: false, params: params.into(), result, run, prepare: None }
    }

    /// Called as `a.name(b)`.
    pub fn method(id: &'static str, params: impl Into<Vec<Type>>, result: Type, run: Run) -> Overload {
        Overload { member: true, ..Overload::function(id, params, result, run) }
    }

    fn parse(id: &'static str, signature: &str, own: &[(&str, Type)], run: Run) -> Option<Overload> {
        let (head, result) = signature.split_once(" -> ")?;
        let (target, params) =
            head.strip_suffix(')')?.split_once(if head.starts_with('(') { "(" } else { ".(" })?;
        let target = Some(target).filter(|target| !target.is_empty());
        let params = target.into_iter().chain(split_types(params)).map(|text| Type::parse(text, own));
        let (params, result) = (params.collect::<Option<Vec<Type>>>()?, Type::parse(result, own)?);
        Some(Overload { id, member: target.is_some(), params, result, run, prepare: None })
    }

    /// Adds a faster form for constant arguments.
    #[must_use]
    pub fn prepared(self, prepare: Prepare) -> Overload {
        Overload { prepare: Some(prepare), ..self }
    }
}

/// An overload in a table: the function's name, the overload's id, its signature, and what runs it.
pub type Row = (&'static str, &'static str, &'static str, Run);

/// The functions of a table, in which the overloads of a function follow each other. A signature is `string.(int) -> string` for
/// a method and `(string, int) -> string` for a function. Types are written as [`Type::parse`] reads them; `own` are the names that the
/// signatures have for the library's own types.
pub fn declare(own: &[(&str, Type)], rows: &[Row]) -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    for (name, id, signature, run) in rows {
        let overload = Overload::parse(id, signature, own, *run);
        debug_assert!(overload.is_some(), "{id}: {signature}");
        match functions.last_mut().filter(|last| last.name == *name) {
            Some(function) => function.overloads.extend(overload),
            None => functions.push(Function { name, overloads: overload.into_iter().collect() }),
        }
    }
    functions
}

impl Function {
    /// A function with its overloads.
    pub fn new(name: &'static str, overloads: impl Into<Vec<Overload>>) -> Function {
        Function { name, overloads: overloads.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_parsed() {
        let own = [("url", Type::Object("kubernetes.URL".into()))];
        let parse =
            |signature: &str| Overload::parse("id", signature, &own, |_| Err(EvalError::NoSuchOverload));
        let method = parse("url.(map(A, list(int)), bool) -> optional(A)").unwrap();
        let texts: Vec<String> = method.params.iter().map(Type::declared_name).collect();
        assert_eq!(texts, ["kubernetes.URL", "map(A, list(int))", "bool"]);
        assert_eq!((method.member, method.result), (true, Type::optional(Type::param("A"))));
        let function = parse("() -> type(A)").unwrap();
        assert!(!function.member && function.params.is_empty());
        for wrong in
            ["int -> int", "(int)", "(URL) -> int", "(int) -> list", "(list(int) -> int", "(map(int)) -> int"]
        {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
