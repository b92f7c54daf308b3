//! Checks the expressions of a ValidatingAdmissionPolicy against the types of the objects that it matches: what
//! kube-controller-manager writes to `status.typeChecking`. The result has no effect on the policy.

mod schemas;
#[cfg(test)]
mod tests;

pub use schemas::{custom_schema, published_schema};

use pintle_cel::shape::Shape;
use pintle_kinds::admission_expressions::{Expressions, Offered};
use pintle_meta::{GroupVersion, GroupVersionKind};
use pintle_schema::rules::object_shape;
use pintle_value::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The maximum number of types that one rule of a policy is checked against.
const TYPES_MAX: usize = 10;

/// Every variable of a validation; the environment of typed expressions declares them itself.
const OFFERED: Offered = Offered { params: true, authorizer: true, patches: false };

/// The types that the server knows.
pub trait Types {
    /// The kinds that serve a resource, given by its plural or singular. An empty group stands for every group, as in
    /// client-go's RESTMapper.
    fn kinds_for(&self, group: &str, version: &str, resource: &str) -> Vec<GroupVersionKind>;

    /// The schema of a kind, without references; `None` if there is none.
    fn schema(&self, kind: &GroupVersionKind) -> Option<Value>;
}

/// One entry of `status.typeChecking.expressionWarnings`.
#[derive(Debug, PartialEq, Eq)]
pub struct Warning {
    /// The field of the policy.
    pub field: String,
    /// The errors, one paragraph for each kind of object.
    pub text: String,
}

/// A type that expressions are checked against. The shape is `None` if the schema says nothing about the type.
struct CheckedType {
    kind: GroupVersionKind,
    shape: Option<Arc<Shape>>,
}

/// Checks the validations of `policy`. `unique` ends the names of types, which errors may contain.
pub fn check(policy: &Value, types: &dyn Types, unique: u32) -> Vec<Warning> {
    let resolve = |kind: GroupVersionKind| {
        let schema = types.schema(&kind)?;
        let shape = object_shape(&schema, &format!("{}{unique}", kind.kind));
        Some(CheckedType { kind, shape })
    };
    let objects: Vec<CheckedType> = kinds_to_check(policy, types).into_iter().filter_map(resolve).collect();
    let param_kind = policy.at(&["spec", "paramKind"]).map(|param| {
        let version = GroupVersion::parse(param.str_at(&["apiVersion"])).unwrap_or_default();
        let kind = GroupVersionKind::new(&version.group, &version.version, param.str_at(&["kind"]));
        resolve(kind).and_then(|resolved| resolved.shape)
    });
    // One compiler for each type: the variables have the types that they have for objects of that type.
    let compilers: Vec<(&GroupVersionKind, Expressions)> = objects
        .iter()
        .map(|checked| (&checked.kind, expression_compiler(policy, checked, param_kind.as_ref())))
        .collect();
    let mut warnings = Vec::new();
    for (at, validation) in policy.items_at(&["spec", "validations"]).iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let text = validation.str_at(&[field]);
            if text.is_empty() && field == "messageExpression" {
                continue;
            }
            let errors: Vec<String> = compilers
                .iter()
                .filter_map(|(kind, compiler)| Some((kind, compiler.compile(text, OFFERED).err()?)))
                .map(|(kind, error)| format!("{kind}: {error}\n"))
                .collect();
            if !errors.is_empty() {
                let field = format!("spec.validations[{at}].{field}");
                warnings.push(Warning { field, text: errors.join("\n") });
            }
        }
    }
    warnings
}

fn expression_compiler(
    policy: &Value,
    checked: &CheckedType,
    params: Option<&Option<Arc<Shape>>>,
) -> Expressions {
    let mut compiler = Expressions::typed(checked.shape.as_ref(), params.map(Option::as_ref));
    for variable in policy.items_at(&["spec", "variables"]) {
        // An invalid variable accepts everything; validation reported it.
        let _ = compiler.declare(variable.str_at(&["name"]), variable.str_at(&["expression"]), OFFERED);
    }
    compiler
}

/// The kinds that the rules of a policy name without wildcards, in order.
fn kinds_to_check(policy: &Value, types: &dyn Types) -> BTreeSet<GroupVersionKind> {
    let mut kinds = BTreeSet::new();
    for rule in policy.items_at(&["spec", "matchConstraints", "resourceRules"]) {
        // A rule with a wildcard as a group or version is not checked at all.
        let (Some(groups), Some(versions)) =
            (listed_names(rule, "apiGroups"), listed_names(rule, "apiVersions"))
        else {
            continue;
        };
        let mut resources: Vec<&str> =
            rule.items_at(&["resources"]).iter().filter_map(Value::as_str).collect();
        resources.retain(|resource| !resource.contains(['*', '/']));
        resources.sort_unstable();
        let mut found = 0_usize;
        for group in &groups {
            for version in &versions {
                for resource in &resources {
                    for kind in types.kinds_for(group, version, resource) {
                        kinds.insert(kind);
                        found = found.saturating_add(1);
                        // kube-controller-manager stops here, and does not look at further rules.
                        if found == TYPES_MAX {
                            return kinds;
                        }
                    }
                }
            }
        }
    }
    kinds
}

fn listed_names<'a>(rule: &'a Value, field: &str) -> Option<Vec<&'a str>> {
    let mut names: Vec<&str> = rule.items_at(&[field]).iter().filter_map(Value::as_str).collect();
    names.sort_unstable();
    (!names.iter().any(|name| name.contains('*'))).then_some(names)
}
