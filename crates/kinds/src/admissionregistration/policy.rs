//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

use super::expressions::{Expressions, Offered, apply_configuration_type, json_patch_type};
use super::{Role, name_warnings, rules};
use crate::error_text::InternalList;
use crate::{Hooks, Scope, check, facts, fields};
use pintle_cel::types::Type;
use pintle_cel::words::is_keyword;
use pintle_meta::{FieldErrors, conditions};
use pintle_value::{Path, Value};

const AUDIT_ANNOTATIONS_MAX: usize = 20;
const VALUE_EXPRESSION_BYTES_MAX: usize = 5 * 1024;
const PATCH_TYPES: [&str; 2] = ["ApplyConfiguration", "JSONPatch"];
const SPEC: &str = "admissionregistration/v1.MutatingAdmissionPolicySpec";

pub(crate) struct Policy(pub(crate) Role);

impl Hooks for Policy {
    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        name_warnings(object)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        self.validate(object, false, errors);
    }

    fn validates_changed_metadata(&self, _scope: Scope<'_>) -> bool {
        false
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope != Scope::Main {
            return validate_status(object, errors);
        }
        let same = |key: &str| object.at(&["spec", key]) == old.at(&["spec", key]);
        self.validate(object, same("paramKind") && same("matchConditions"), errors);
    }
}

impl Policy {
    fn validate(&self, object: &Value, ignore_conditions: bool, errors: &mut FieldErrors) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let path = Path::of("spec");
        let has_params = fields::member(spec, "paramKind").is_some();
        let variables = fields::list(spec, "variables");
        let mut expressions = match (self.0, variables) {
            (Role::Validating, []) => Expressions::default(),
            _ => Expressions::composed(),
        };
        facts::check_fields(spec, SPEC, &["failurePolicy"], &path, errors);
        if let Some(kind) = fields::member(spec, "paramKind") {
            rules::validate_param_kind(kind, &path.field("paramKind"), errors);
        }
        self.validate_constraints(spec, &path.field("matchConstraints"), errors);
        if !ignore_conditions {
            rules::validate_conditions(
                fields::list(spec, "matchConditions"),
                has_params,
                &path.field("matchConditions"),
                errors,
            );
        }
        let offered = Offered { params: has_params, authorizer: true, patches: false };
        for (index, variable) in variables.iter().enumerate() {
            let at = path.field("variables");
            validate_variable(variable, &mut expressions, offered, &at.index(index), errors);
        }
        match self.0 {
            Role::Validating => validate_validations(object, spec, &expressions, offered, &path, errors),
            Role::Mutating => validate_mutations(spec, &expressions, offered, &path, errors),
        }
    }

    fn validate_constraints(&self, spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
        let Some(matches) = fields::member(spec, "matchConstraints") else {
            return errors.required(path, "");
        };
        rules::validate_match_resources(matches, path, errors);
        if fields::list(matches, "resourceRules").is_empty() {
            errors.required(&path.field("resourceRules"), "");
        }
        if self.0 == Role::Mutating {
            rules::validate_mutating_operations(matches, path, errors);
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    !name.starts_with(|c: char| c.is_ascii_digit()) && name.bytes().all(word) && !is_keyword(name)
}

fn validate_variable(
    variable: &Value,
    expressions: &mut Expressions,
    offered: Offered,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let name = fields::text(variable, "name");
    if name.trim().is_empty() {
        errors.required(&path.field("name"), "name is not specified");
    } else if !is_identifier(name) {
        errors.invalid(&path.field("name"), name, "must be a valid CEL identifier");
    }
    let expression = fields::text(variable, "expression");
    if expression.trim().is_empty() {
        return errors.required(&path.field("expression"), "expression is not specified");
    }
    let declared = expressions.declare(name, expression, offered);
    rules::report_invalid_expression(declared, expression, &path.field("expression"), errors);
}

fn validate_validations(
    object: &Value,
    spec: &Value,
    expressions: &Expressions,
    offered: Offered,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let validations = fields::list(spec, "validations");
    let annotations = fields::list(spec, "auditAnnotations");
    if validations.is_empty() && annotations.is_empty() {
        for key in ["validations", "auditAnnotations"] {
            errors
                .required(&path.field(key), "validations or auditAnnotations must contain at least one item");
        }
        return;
    }
    for (at, validation) in validations.iter().enumerate() {
        validate_validation(validation, expressions, offered, &path.field("validations").index(at), errors);
    }
    let at = path.field("auditAnnotations");
    if annotations.len() > AUDIT_ANNOTATIONS_MAX {
        let why = format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations");
        errors.invalid(&at, InternalList(annotations, "admissionregistration/v1.AuditAnnotation"), &why);
    }
    let name = object.str_at(&["metadata", "name"]);
    let mut keys = check::Unique::default();
    for (index, annotation) in annotations.iter().enumerate() {
        validate_audit_annotation(name, annotation, &at.index(index), errors);
        let text = fields::text(annotation, "valueExpression");
        if !text.trim().is_empty() && text.trim().len() <= VALUE_EXPRESSION_BYTES_MAX {
            let checked = expressions.check(text.trim(), offered, &[Type::String, Type::Null]);
            rules::report_invalid_expression(
                checked,
                text,
                &at.index(index).field("valueExpression"),
                errors,
            );
        }
        let key = fields::text(annotation, "key");
        keys.check(key, &at.index(index).field("key"), key, errors);
    }
}

fn validate_validation(
    validation: &Value,
    expressions: &Expressions,
    offered: Offered,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let text = |key: &str| fields::text(validation, key);
    let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    let (expression, at) = (text("expression"), path.field("expression"));
    if expression.trim().is_empty() {
        errors.required(&at, "expression is not specified");
    } else {
        let checked = expressions.check(expression, offered, &[Type::Bool]);
        rules::report_invalid_expression(checked, expression, &at, errors);
    }
    let (expression, at) = (text("messageExpression"), path.field("messageExpression"));
    if is_blank(expression) {
        errors.invalid(&at, expression, "must be non-empty if specified");
    } else if !expression.is_empty() {
        let offered = Offered { authorizer: false, ..offered };
        let checked = expressions.check(expression, offered, &[Type::String]);
        rules::report_invalid_expression(checked, expression, &at, errors);
    }
    let (message, at) = (text("message"), path.field("message"));
    if is_blank(message) {
        errors.invalid(&at, message, "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        errors.invalid(&at, message, "must not contain line breaks");
    }
    facts::check(validation, "admissionregistration/v1.Validation", path, errors);
}

fn validate_audit_annotation(policy: &str, annotation: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let key = fields::text(annotation, "key");
    if policy.is_empty() {
        errors.invalid(&path.field("key"), key, "requires metadata.name be non-empty");
    } else {
        check::qualified_name(&path.field("key"), &format!("{policy}/{key}"), errors);
    }
    let expression = fields::text(annotation, "valueExpression").trim();
    let at = path.field("valueExpression");
    if expression.is_empty() {
        errors.required(&at, "valueExpression is not specified");
    } else if expression.len() > VALUE_EXPRESSION_BYTES_MAX {
        errors.required(&at, &format!("must not exceed {VALUE_EXPRESSION_BYTES_MAX} bytes in length"));
    }
}

fn validate_mutations(
    spec: &Value,
    expressions: &Expressions,
    offered: Offered,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let mutations = fields::list(spec, "mutations");
    if mutations.is_empty() {
        errors.required(&path.field("mutations"), "mutations must contain at least one item");
    }
    for (at, mutation) in mutations.iter().enumerate() {
        validate_mutation(mutation, expressions, offered, &path.field("mutations").index(at), errors);
    }
    facts::check_fields(spec, SPEC, &["reinvocationPolicy"], path, errors);
}

fn validate_mutation(
    mutation: &Value,
    expressions: &Expressions,
    offered: Offered,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let kind = fields::text(mutation, "patchType");
    let (own, other, wanted) = match kind {
        "JSONPatch" => ("jsonPatch", "applyConfiguration", json_patch_type()),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", apply_configuration_type()),
        _ => return check::required_supported(&path.field("patchType"), kind, &PATCH_TYPES, errors),
    };
    let at = path.field(own);
    match fields::member(mutation, own) {
        None => errors.required(&at, &format!("must be specified when patchType is {kind}")),
        Some(patch) if fields::text(patch, "expression").trim().is_empty() => {
            errors.required(&at.field("expression"), "");
        }
        Some(patch) => {
            let text = fields::text(patch, "expression").trim();
            let checked = expressions.check(text, Offered { patches: true, ..offered }, &[wanted]);
            rules::report_invalid_expression(checked, text, &at.field("expression"), errors);
        }
    }
    if fields::member(mutation, other).is_some() {
        let error_text = format!("{{{other}}}");
        let why = format!("must not be specified when patchType is {kind}");
        errors.invalid(&path.field(other), error_text.as_str(), &why);
    }
}

fn validate_status(object: &Value, errors: &mut FieldErrors) {
    let status = Path::of("status");
    let path = status.field("typeChecking.expressionWarnings");
    for (at, warning) in object.items_at(&["status", "typeChecking", "expressionWarnings"]).iter().enumerate()
    {
        facts::check(warning, "admissionregistration/v1.ExpressionWarning", &path.index(at), errors);
        if fields::text(warning, "fieldRef").trim().is_empty() {
            errors.required(&path.index(at).field("fieldRef"), "");
        }
    }
    let given = object.items_at(&["status", "conditions"]);
    conditions::validate_conditions(given, &status.field("conditions"), errors);
}
