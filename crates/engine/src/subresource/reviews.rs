//! Access reviews and SelfSubjectRulesReview: what a user may do.

use super::Access;
use pintle_auth::UserInfo;
use pintle_auth::authz::rbac::Rule;
use pintle_auth::authz::{Attributes, Decision, RulesFound};
use pintle_meta::field::Plain;
use pintle_meta::selector::field::Term;
use pintle_meta::selector::label_validation::{Leniency, validate_field_requirement, validate_requirement};
use pintle_meta::selector::{FieldSelector, LabelSelector, Operator, Requirement};
use pintle_meta::{FieldErrors, GroupKind, Status};
use pintle_value::{Map, Path, Value, json};

/// The type of an access review.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewScope {
    Subject,
    Own,
    Local,
}

impl ReviewScope {
    pub(super) fn of(kind: &str) -> Self {
        match kind {
            "SelfSubjectAccessReview" => ReviewScope::Own,
            "LocalSubjectAccessReview" => ReviewScope::Local,
            _ => ReviewScope::Subject,
        }
    }
}

/// Validates an access review: it must be about exactly one of a resource and a path. kube-apiserver's error names
/// neither kind nor name.
pub(super) fn check(scope: ReviewScope, review: &Value) -> Result<(), Status> {
    let mut errors = FieldErrors::new();
    let root = Path::of("spec");
    let resource = present(review, "resourceAttributes");
    let other = present(review, "nonResourceAttributes");
    let other_text = other.map(go_text_of_path);
    if let (Some(_), Some(text)) = (resource, &other_text) {
        let why = "cannot be specified in combination with resourceAttributes";
        errors.invalid(&root.field("nonResourceAttributes"), Plain(text), why);
    }
    if resource.is_none() && other.is_none() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.invalid(&root.field("resourceAttributes"), Plain("null"), why);
    }
    let nobody =
        review.str_at(&["spec", "user"]).is_empty() && review.items_at(&["spec", "groups"]).is_empty();
    if scope != ReviewScope::Own && nobody {
        errors.invalid(&root.field("user"), "", "at least one of user or group must be specified");
    }
    if let Some(resource) = resource {
        check_selectors(resource, &root.field("resourceAttributes"), &mut errors);
    }
    check_metadata(scope, review, &mut errors);
    if scope == ReviewScope::Local {
        let namespace = resource.map(|r| r.str_at(&["namespace"]));
        if let Some(requested) = namespace.filter(|n| *n != review.str_at(&["metadata", "namespace"])) {
            errors.invalid(
                &root.field("resourceAttributes.namespace"),
                requested,
                "must match metadata.namespace",
            );
        }
        if let Some(text) = &other_text {
            errors.invalid(
                &root.field("nonResourceAttributes"),
                Plain(text),
                "disallowed on this kind of request",
            );
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(&GroupKind::new("authorization.k8s.io", ""), "", &errors))
    }
}

fn present<'a>(review: &'a Value, key: &str) -> Option<&'a Value> {
    review.at(&["spec", key]).filter(|v| !v.is_null())
}

/// The non-resource attributes as Go prints the internal type, which has no JSON names.
fn go_text_of_path(attributes: &Value) -> String {
    let text = |key: &str| {
        let mut out = Vec::new();
        json::write_string(attributes.str_at(&[key]), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    format!("{{\"Path\":{},\"Verb\":{}}}", text("path"), text("verb"))
}

/// Refuses metadata other than what the server sets.
fn check_metadata(scope: ReviewScope, review: &Value, errors: &mut FieldErrors) {
    let Some(metadata) = review.get("metadata").and_then(Value::as_object) else { return };
    let allowed = |key: &str| key == "managedFields" || (key == "namespace" && scope == ReviewScope::Local);
    let empty = |value: &Value| matches!(value, Value::Null) || value.as_str() == Some("");
    if metadata.iter().all(|(key, value)| allowed(key) || empty(value)) {
        return;
    }
    let why =
        if scope == ReviewScope::Local { "must be empty except for namespace" } else { "must be empty" };
    errors.invalid(&Path::of("metadata"), Plain(&go_text_of_metadata(metadata)), why);
}

/// Metadata as Go prints it: its fields, and those of its owners and entries, in the order of Go's types.
fn go_text_of_metadata(metadata: &Map) -> String {
    const FIELDS: &str = "name generateName namespace selfLink uid resourceVersion generation creationTimestamp \
                          deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences finalizers \
                          managedFields";
    const OWNER: &str = "apiVersion kind name uid controller blockOwnerDeletion";
    const ENTRY: &str = "manager operation apiVersion time fieldsType fieldsV1 subresource";
    let ordered = |map: &Map, order: &str, print: &dyn Fn(&str, &Value) -> String| {
        let fields = order.split(' ').filter_map(|key| Some((key, map.get(key)?)));
        let fields: Vec<String> =
            fields.map(|(key, value)| format!("\"{key}\":{}", print(key, value))).collect();
        format!("{{{}}}", fields.join(","))
    };
    ordered(metadata, FIELDS, &|key, value| {
        let order = match key {
            "ownerReferences" => OWNER,
            "managedFields" => ENTRY,
            _ => return json::text(value),
        };
        let items = value.as_array().unwrap_or_default().iter().filter_map(Value::as_object);
        let items: Vec<String> =
            items.map(|item| ordered(item, order, &|_, value| json::text(value))).collect();
        format!("[{}]", items.join(","))
    })
}

fn check_selectors(resource: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    for key in ["fieldSelector", "labelSelector"] {
        let Some(selector) = resource.get(key).filter(|v| !v.is_null()) else { continue };
        let path = path.field(key);
        let raw = selector.str_at(&["rawSelector"]);
        let requirements = selector.items_at(&["requirements"]);
        if !raw.is_empty() && !requirements.is_empty() {
            errors.invalid(
                &path.field("rawSelector"),
                raw,
                "may not specified at the same time as requirements",
            );
        }
        if raw.is_empty() && requirements.is_empty() {
            let why = format!("when {path} is specified, requirements or rawSelector is required");
            errors.required(&path.field("requirements"), &why);
        }
        let list = path.field("requirements");
        let leniency = Leniency { unknown_operators: true, ..Leniency::default() };
        for (index, requirement) in requirements.iter().enumerate() {
            match key {
                "fieldSelector" => {
                    validate_field_requirement(requirement, leniency, &list.index(index), errors)
                }
                _ => validate_requirement(requirement, leniency, &list.index(index), errors),
            }
        }
    }
}

/// Calls the authorizer and returns the review with its decision.
pub(super) async fn answer(scope: ReviewScope, mut review: Value, access: &Access, user: &UserInfo) -> Value {
    let subject = if scope == ReviewScope::Own { user.clone() } else { reviewed_user(&review) };
    let mut attributes = Attributes { user: subject.into(), ..Attributes::default() };
    let mut errors = Vec::new();
    if let Some(resource) = present(&review, "resourceAttributes") {
        let text = |key: &str| resource.str_at(&[key]).to_string();
        attributes.resource_request = true;
        attributes.verb = text("verb");
        attributes.namespace = text("namespace");
        attributes.group = text("group");
        attributes.version = Some(text("version")).filter(|v| !v.is_empty()).unwrap_or_else(|| "*".into());
        attributes.resource = text("resource");
        attributes.subresource = text("subresource");
        attributes.name = text("name");
        read_selectors(resource, &mut attributes, &mut errors);
    } else if let Some(other) = present(&review, "nonResourceAttributes") {
        attributes.path = other.str_at(&["path"]).to_string();
        attributes.verb = other.str_at(&["verb"]).to_string();
    }
    let mut status = Value::object();
    let decision = access.authorizer.authorize(&attributes).await;
    errors.splice(0..0, decision.error().map(str::to_string));
    let denied = match &decision {
        Decision::Deny(_) => true,
        Decision::Failed(failure) => failure.denied,
        Decision::Allow(_) | Decision::NoOpinion(_) => false,
    };
    status.set_at(&["allowed"], Value::Bool(decision.is_allowed()));
    if denied {
        status.set_at(&["denied"], Value::Bool(true));
    }
    status.set_at(&["reason"], decision.reason().into());
    status.set_at(&["evaluationError"], errors.join("; ").into());
    review.set_at(&["status"], status);
    review
}

/// Parses the selectors. Invalid requirements are ignored and reported in `errors`.
fn read_selectors(resource: &Value, attributes: &mut Attributes, errors: &mut Vec<String>) {
    let mut note = |key: &str, is_empty: bool| {
        let how = if is_empty { "ignored" } else { "partially ignored" };
        errors.push(format!("spec.resourceAttributes.{key} {how} due to parse error"));
    };
    let raw = |key: &str| resource.at(&[key, "rawSelector"]).and_then(Value::as_str).unwrap_or("");
    let listed = |key: &str| resource.items_at(&[key, "requirements"]);
    let (text, all) = (raw("fieldSelector"), listed("fieldSelector"));
    if all.is_empty() {
        match FieldSelector::parse(text) {
            Ok(selector) => attributes.field_selector = selector,
            Err(_) => note("fieldSelector", true),
        }
    } else {
        let terms: Vec<Term> = all.iter().filter_map(field_term).collect();
        if terms.len() < all.len() {
            note("fieldSelector", terms.is_empty());
        }
        attributes.field_selector = FieldSelector::of(terms);
    }
    let (text, all) = (raw("labelSelector"), listed("labelSelector"));
    if all.is_empty() {
        match LabelSelector::parse(text) {
            Ok(selector) => attributes.label_selector = selector.requirements().to_vec(),
            Err(_) => note("labelSelector", true),
        }
    } else {
        attributes.label_selector = all.iter().filter_map(label_requirement).collect();
        if attributes.label_selector.len() < all.len() {
            note("labelSelector", attributes.label_selector.is_empty());
        }
    }
}

fn field_term(requirement: &Value) -> Option<Term> {
    let [value] = requirement.items_at(&["values"]) else { return None };
    let equal = match requirement.str_at(&["operator"]) {
        "In" => true,
        "NotIn" => false,
        _ => return None,
    };
    Some(Term { field: requirement.str_at(&["key"]).into(), equal, value: value.as_str()?.into() })
}

fn label_requirement(requirement: &Value) -> Option<Requirement> {
    let operator = match requirement.str_at(&["operator"]) {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => return None,
    };
    let values = requirement.items_at(&["values"]).iter().filter_map(Value::as_str).map(Into::into);
    Requirement::new(requirement.str_at(&["key"]), operator, values.collect(), None).ok()
}

fn reviewed_user(review: &Value) -> UserInfo {
    let texts = |items: &[Value]| -> Vec<String> {
        items.iter().filter_map(Value::as_str).map(str::to_string).collect()
    };
    let extra = review.at(&["spec", "extra"]).and_then(Value::as_object);
    UserInfo {
        name: review.str_at(&["spec", "user"]).to_string(),
        uid: review.str_at(&["spec", "uid"]).to_string(),
        groups: texts(review.items_at(&["spec", "groups"])),
        extra: extra
            .into_iter()
            .flat_map(|map| map.iter())
            .map(|(key, values)| (key.to_string(), texts(values.as_array().unwrap_or_default())))
            .collect(),
    }
}

/// Refuses a rules review without a namespace.
pub(super) fn check_rules_review(review: &Value) -> Result<(), Status> {
    if review.str_at(&["spec", "namespace"]).is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    Ok(())
}

/// The rules that apply to a user in a namespace.
pub(super) fn rules(review: &Value, access: &Access, user: &UserInfo) -> Value {
    let namespace = review.str_at(&["spec", "namespace"]);
    let RulesFound { rules: found, incomplete, errors } = access.authorizer.rules_for(user, namespace);
    let list = |items: &[String]| Value::Array(items.iter().map(|item| Value::from(item.as_str())).collect());
    let text = |rule: &Rule, fields: &[(&str, &[String])]| {
        let mut out = Value::object();
        out.set_at(&["verbs"], list(&rule.verbs));
        for (key, items) in fields.iter().filter(|(_, items)| !items.is_empty()) {
            out.set_at(&[key], list(items));
        }
        out
    };
    let of_resources = found.iter().filter(|rule| !rule.resources.is_empty()).map(|rule| {
        let names = ("resourceNames", rule.resource_names.as_slice());
        text(rule, &[("apiGroups", &rule.api_groups), ("resources", &rule.resources), names])
    });
    let of_paths = found.iter().filter(|rule| !rule.non_resource_urls.is_empty());
    let of_paths = of_paths.map(|rule| text(rule, &[("nonResourceURLs", &rule.non_resource_urls)]));
    let mut status = Value::object();
    status.set_at(&["resourceRules"], Value::Array(of_resources.collect()));
    status.set_at(&["nonResourceRules"], Value::Array(of_paths.collect()));
    status.set_at(&["incomplete"], Value::Bool(incomplete));
    if !errors.is_empty() {
        status.set_at(&["evaluationError"], pintle_auth::aggregate(errors).into());
    }
    let mut out = Value::object();
    out.set_at(&["kind"], "SelfSubjectRulesReview".into());
    out.set_at(&["apiVersion"], "authorization.k8s.io/v1".into());
    out.set_at(&["metadata"], Value::object());
    out.set_at(&["spec"], Value::object());
    out.set_at(&["status"], status);
    out
}
