//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration.

use super::{name_warnings, rules};
use crate::{Hooks, Scope, check, facts, fields, webhook};
use pintle_meta::selector::label_validation::{Leniency, validate_label_selector};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

const TYPE: &str = "admissionregistration/v1.MutatingWebhook";
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];

pub(crate) struct WebhookConfiguration;

/// Relaxed checks for values that the old object already has.
struct Options {
    ignore_conditions: bool,
    no_side_effects: bool,
    known_review: bool,
    unique_names: bool,
    leniency: Leniency,
}

impl Hooks for WebhookConfiguration {
    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        name_warnings(object)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let options = Options {
            ignore_conditions: false,
            no_side_effects: true,
            known_review: true,
            unique_names: true,
            leniency: Leniency::default(),
        };
        validate(object, &options, errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        validate(object, &options_after(object, old), errors);
    }

    fn reset_fields(&self, _scope: Scope<'_>) -> &'static [&'static [&'static str]] {
        &[]
    }
}

fn options_after(object: &Value, old: &Value) -> Options {
    let (hooks, before) = (fields::list(object, "webhooks"), fields::list(old, "webhooks"));
    let same = |(a, b): (&Value, &Value)| a.get("matchConditions") == b.get("matchConditions");
    let reviews_known = |hook: &Value| {
        let versions = fields::texts(hook, "admissionReviewVersions");
        versions.is_empty() || versions.iter().any(|version| REVIEW_VERSIONS.contains(version))
    };
    let bad_selector = |hook: &Value| {
        let is_bad = |key: &&str| Leniency::after(hook.get(key)).invalid_values;
        ["namespaceSelector", "objectSelector"].iter().any(is_bad)
    };
    Options {
        ignore_conditions: hooks.len() == before.len() && hooks.iter().zip(before).all(same),
        no_side_effects: before
            .iter()
            .all(|hook| NO_SIDE_EFFECTS.contains(&fields::text(hook, "sideEffects"))),
        known_review: before.iter().all(reviews_known),
        unique_names: !check::has_repeated(before.iter().map(|hook| fields::text(hook, "name"))),
        leniency: Leniency { invalid_values: before.iter().any(bad_selector), ..Leniency::default() },
    }
}

fn validate(object: &Value, options: &Options, errors: &mut FieldErrors) {
    let hooks = fields::list(object, "webhooks");
    let path = Path::of("webhooks");
    let mut seen = check::Unique::default();
    for (at, hook) in hooks.iter().enumerate() {
        let path = path.index(at);
        validate_hook(hook, options, &path, errors);
        let versions = path.field("admissionReviewVersions");
        validate_review_versions(hook, options.known_review, &versions, errors);
        let name = fields::text(hook, "name");
        if options.unique_names && !name.is_empty() {
            seen.check(name, &path.field("name"), name, errors);
        }
    }
}

fn validate_hook(hook: &Value, options: &Options, path: &Path<'_>, errors: &mut FieldErrors) {
    names::fully_qualified_name(&path.field("name"), fields::text(hook, "name"), errors);
    check::each_item(hook, "rules", path, |rule, path| rules::validate_rule(rule, path, errors));
    facts::check_fields(hook, TYPE, &["failurePolicy", "matchPolicy"], path, errors);
    let allowed: &[&str] = if options.no_side_effects { &NO_SIDE_EFFECTS } else { &SIDE_EFFECTS };
    match fields::opt_text(hook, "sideEffects") {
        None => {
            let why = format!("must specify one of {}", allowed.join(", "));
            errors.required(&path.field("sideEffects"), &why);
        }
        effects => check::supported(&path.field("sideEffects"), effects, allowed, errors),
    }
    facts::check_fields(hook, TYPE, &["timeoutSeconds"], path, errors);
    for key in ["namespaceSelector", "objectSelector"] {
        validate_label_selector(hook.get(key), options.leniency, &path.field(key), errors);
    }
    facts::check_fields(hook, TYPE, &["reinvocationPolicy"], path, errors);
    let client = hook.get("clientConfig").unwrap_or(&Value::Null);
    validate_client(client, &path.field("clientConfig"), errors);
    if !options.ignore_conditions {
        rules::validate_conditions(
            fields::list(hook, "matchConditions"),
            false,
            &path.field("matchConditions"),
            errors,
        );
    }
}

fn validate_client(client: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    match (fields::opt_text(client, "url"), fields::member(client, "service")) {
        (Some(url), None) => webhook::validate_url(url, true, &path.field("url"), errors),
        (None, Some(service)) => webhook::validate_service(service, true, &path.field("service"), errors),
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

fn validate_review_versions(hook: &Value, known: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let versions = fields::strings(hook, "admissionReviewVersions");
    if versions.is_empty() {
        return errors.required(path, &format!("must specify one of {}", REVIEW_VERSIONS.join(", ")));
    }
    let mut seen = check::Unique::default();
    for (at, version) in versions.iter().enumerate() {
        if seen.is_repeated(version) {
            errors.invalid(&path.index(at), version, "duplicate version");
            continue;
        }
        check::each(names::is_dns1035_label(version), &path.index(at), version, errors);
    }
    if known && !versions.iter().any(|version| REVIEW_VERSIONS.contains(&version.as_str())) {
        let why = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.invalid(path, &versions[..], &why);
    }
}
