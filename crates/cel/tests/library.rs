//! The libraries, by expressions: true ones, ones that fail at run time, and ones that are rejected at compile time.

#![expect(clippy::indexing_slicing, reason = "a failed index is a failed test")]

use pintle_cel::cost::{CostEstimate, CostModel};
use pintle_cel::env::Env;
use pintle_cel::value::Value;

#[path = "library/cost.rs"]
mod cost;
#[path = "library/extensions.rs"]
mod extensions;
#[path = "library/kubernetes.rs"]
mod of_kubernetes;
#[path = "library/own.rs"]
mod own;

/// Everything that a Kubernetes expression can use.
fn kubernetes() -> Env {
    Env::kubernetes()
}

/// Each expression is true.
fn check_holds(env: &Env, expressions: &[&str]) {
    let wrong: Vec<String> = expressions
        .iter()
        .filter_map(|text| match outcome(env, text) {
            Ok(found) if found == "true" => None,
            Ok(found) | Err(found) => Some(format!("{text}\n    {found}")),
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), expressions.len(), wrong.join("\n"));
}

/// Each expression fails at run time, or before, with an error that contains the text.
fn check_fails(env: &Env, expressions: &[(&str, &str)]) {
    let wrong: Vec<String> = expressions
        .iter()
        .filter_map(|(text, expected)| match outcome(env, text) {
            Err(found) if found.contains(expected) => None,
            Ok(found) | Err(found) => Some(format!("{text}\n    {found}\n    not {expected}")),
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), expressions.len(), wrong.join("\n"));
}

/// The compiler rejects each expression with an error that contains the text.
fn check_refused(env: &Env, expressions: &[(&str, &str)]) {
    for (text, expected) in expressions {
        let issues = env.compile(text).err().unwrap_or_else(|| panic!("{text} compiles"));
        assert!(issues.to_string().contains(expected), "{text}: {issues}");
    }
}

/// Each expression's estimate is the range, and its actual cost is the third number.
fn check_costs(
    env: &Env,
    model: &dyn CostModel,
    variables: &[(&str, Value<'_>)],
    costs: &[(&str, u64, u64, u64)],
) {
    let mut wrong = Vec::new();
    for (text, min, max, cost) in costs {
        let checked = env.compile(text).unwrap_or_else(|issues| panic!("{text}: {issues}"));
        let estimate = checked.estimate(model);
        if estimate != (CostEstimate { min: *min, max: *max }) {
            wrong.push(format!("{text}\n    estimated {estimate:?}, not {min}..{max}"));
        }
        let program = checked.plan().unwrap_or_else(|error| panic!("{text}: {error}"));
        let evaluation = program.eval(variables, None);
        if let Err(error) = &evaluation.result {
            wrong.push(format!("{text}\n    {error}"));
        } else if evaluation.cost != *cost {
            wrong.push(format!("{text}\n    cost {}, not {cost}", evaluation.cost));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), costs.len(), wrong.join("\n"));
}

fn outcome(env: &Env, text: &str) -> Result<String, String> {
    let checked = env.compile(text).map_err(|issues| format!("refused: {issues}"))?;
    let program = checked.plan().map_err(|error| error.to_string())?;
    match program.eval(&[], None).result {
        Ok(Value::Bool(value)) => Ok(value.to_string()),
        Ok(value) => Ok(format!("gives {value}")),
        Err(error) => Err(error.to_string()),
    }
}
