#![allow(clippy::unwrap_used, reason = "a check fails where it unwraps")]

use super::*;
use crate::testing::{kind, tree, with_request};
use pintle_auth::Authorizer;
use pintle_auth::authz::PrivilegedGroup;
use pintle_cel::types::Type;
use std::sync::Arc;

const OFFERED: Offered = Offered { params: true, authorizer: true, patches: false };

fn with_inputs<T>(object: &str, then: impl FnOnce(Inputs<'_>) -> T) -> T {
    let authorizer: Arc<dyn Authorizer> = Arc::new(PrivilegedGroup("dev"));
    let pods = kind("", "pods");
    let (object, request) = (tree(object), tree(r#"{"operation":"CREATE","userInfo":{}}"#));
    with_request(&pods, None, |attributes| {
        let request_authorizer = RequestAuthorizer::new(&authorizer, attributes);
        then(Inputs {
            object: Some(&object),
            old: None,
            request: &request,
            namespace: None,
            params: None,
            request_authorizer: Some(&request_authorizer),
        })
    })
}

/// The result of an expression with these variables, and the rest of a budget of 1,000,000.
fn evaluated(variables: &[(&str, &str)], text: &str) -> (String, u64) {
    let entries: Vec<Value> = variables
        .iter()
        .map(|(name, text)| {
            let mut entry = Value::object();
            entry.set_at(&["name"], (*name).into());
            entry.set_at(&["expression"], (*text).into());
            entry
        })
        .collect();
    let mut expressions = Expressions::composed();
    let variables = Variables::compile(&entries, &mut expressions, OFFERED);
    let expression = Expression::new(text, expressions.check(text, OFFERED, &[Type::Bool, Type::String]));
    with_inputs(r#"{"a":1,"text":"x"}"#, |inputs| {
        let activation = Activation::new(inputs, Some(&variables));
        let mut budget = 1_000_000;
        match activation.evaluate(&expression, &mut budget) {
            Ok(Ok(value)) => (value.to_string(), budget),
            Ok(Err(why)) => (why, budget),
            Err(out) => (out.text(), 0),
        }
    })
}

#[test]
fn expressions_see_their_inputs_and_fail_in_kube_apiservers_words() {
    for (text, expected) in [
        ("object.a == 1 && oldObject == null && params == null", "true"),
        ("request.operation", "CREATE"),
        ("namespaceObject == null", "true"),
        ("object.b == 1", "expression 'object.b == 1' resulted in error: no such key: b"),
        (
            "request.subResource == ''",
            "expression 'request.subResource == ''' resulted in error: no such key: subResource",
        ),
        ("authorizer.group('').resource('pods').check('get').allowed()", "true"),
        ("authorizer.requestResource.check('get').allowed()", "true"),
        ("authorizer.serviceAccount('n', 'x').path('/').check('get').allowed()", "false"),
    ] {
        assert_eq!(evaluated(&[], text).0, expected, "{text}");
    }
}

#[test]
fn variables_are_worked_out_once_and_when_needed() {
    for (variables, text, expected) in [
        (&[("a", "object.a + 1")][..], "variables.a == 2 && variables.a == 2", "true"),
        (&[("a", "object.nope"), ("b", "1")], "variables.b == 1", "true"),
        (&[("a", "object.a"), ("b", "variables.a + 1")], "variables.b == 2", "true"),
        (&[("a", "1")], "has(variables.a) && variables.?a.orValue(2) == 1", "true"),
        (
            &[("a", "object.nope")],
            "variables.a == 1",
            "expression 'variables.a == 1' resulted in error: composited variable \"a\" fails to evaluate: no such key: nope",
        ),
        (
            &[("a", "object.a"), ("a", "variables.a")],
            "variables.a == 1",
            "expression 'variables.a == 1' resulted in error: composited variable \"a\" fails to evaluate: variable \"a\" depends on itself",
        ),
    ] {
        assert_eq!(evaluated(variables, text).0, expected, "{text}");
    }
    let spends = |text: &str| 1_000_000 - evaluated(&[("a", "object.text + object.text")], text).1;
    assert_eq!(spends("variables.a == 'xx' || variables.a == 'yy'"), spends("variables.a == 'xx'"));
    assert!(spends("variables.a == 'yy' || variables.a == 'zz'") < 2 * spends("variables.a == 'yy'"));
}

#[test]
fn conditions_are_false_before_they_fail() {
    let (yes, no, fails) = ("true", "false", "object.nope");
    let error = "expression 'object.nope == 1' resulted in error: no such key: nope";
    for (conditions, fail, expected) in [
        (&[yes, yes][..], true, Ok(true)),
        (&[yes, no], true, Ok(false)),
        (&[fails, no], true, Ok(false)),
        (&[fails, yes], true, Err(error.to_string())),
        (&[fails, fails], true, Err(error.to_string())),
        (&[fails, yes], false, Ok(false)),
    ] {
        let entries: Vec<Value> = conditions
            .iter()
            .map(|text| {
                let text = if *text == fails { "object.nope == 1" } else { text };
                let mut entry = Value::object();
                entry.set_at(&["expression"], text.into());
                entry
            })
            .collect();
        let found = with_inputs("{}", |inputs| Conditions::compile(&entries).matches(&inputs, fail));
        assert_eq!(found, expected, "{conditions:?}");
    }
}

#[test]
fn budgets_end_everything() {
    let text = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a + b + c + d + e + f > 0))))))";
    let (found, left) = evaluated(&[], text);
    assert!(
        found.ends_with("resulted in error: operation cancelled: actual cost limit exceeded") || left == 0
    );
}
