//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration.

use super::rules::{self, MATCH_POLICIES, REINVOCATION_POLICIES};
use super::{Role, name_warnings};
use crate::{Hooks, Scope, check, fields, webhook};
use pintle_meta::selector::label_validation::{Leniency, validate_label_selector};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Str, Value};

const TIMEOUT_SECONDS_MAX: i64 = 30;
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];

pub(crate) struct WebhookConfiguration(pub(crate) Role);

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
        self.validate(object, &options, errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        self.validate(object, &options_after(object, old), errors);
    }

    fn reset_fields(&self, _scope: Scope<'_>) -> &'static [&'static [&'static str]] {
        &[]
    }
}

fn options_after(object: &Value, old: &Value) -> Options {
    let (hooks, before) = (fields::list(object, "webhooks"), fields::list(old, "webhooks"));
    let same = |(a, b): (&Value, &Value)| a.get("matchConditions") == b.get("matchConditions");
    let versions =
        |hook: &Value| fields::texts(hook, "admissionReviewVersions").into_iter().map(String::from).collect();
    let speaks = |hook: &Value| {
        let versions: Vec<String> = versions(hook);
        versions.is_empty() || versions.iter().any(|v| REVIEW_VERSIONS.contains(&v.as_str()))
    };
    let bad_selector = |hook: &Value| {
        let mut errors = FieldErrors::new();
        for key in ["namespaceSelector", "objectSelector"] {
            validate_label_selector(hook.get(key), Leniency::default(), &Path::ROOT, &mut errors);
        }
        !errors.is_empty()
    };
    Options {
        ignore_conditions: hooks.len() == before.len() && hooks.iter().zip(before).all(same),
        no_side_effects: before
            .iter()
            .all(|hook| NO_SIDE_EFFECTS.contains(&fields::text(hook, "sideEffects"))),
        known_review: before.iter().all(speaks),
        unique_names: !check::has_repeated(before.iter().map(|hook| fields::text(hook, "name"))),
        leniency: Leniency { invalid_values: before.iter().any(bad_selector), ..Leniency::default() },
    }
}

impl WebhookConfiguration {
    fn validate(&self, object: &Value, options: &Options, errors: &mut FieldErrors) {
        let hooks = fields::list(object, "webhooks");
        let path = Path::of("webhooks");
        let mut seen = check::Unique::default();
        for (at, hook) in hooks.iter().enumerate() {
            self.validate_hook(hook, options, &path.index(at), errors);
            let versions = path.index(at);
            validate_review_versions(
                hook,
                options.known_review,
                &versions.field("admissionReviewVersions"),
                errors,
            );
            let name = fields::text(hook, "name");
            if options.unique_names && !name.is_empty() {
                seen.check(name, &path.index(at).field("name"), name, errors);
            }
        }
    }

    fn validate_hook(&self, hook: &Value, options: &Options, path: &Path<'_>, errors: &mut FieldErrors) {
        names::fully_qualified_name(&path.field("name"), fields::text(hook, "name"), errors);
        check::each_item(hook, "rules", path, |rule, path| rules::validate_rule(rule, path, errors));
        rules::validate_failure_policy(hook, false, path, errors);
        check::supported(
            &path.field("matchPolicy"),
            fields::opt_text(hook, "matchPolicy"),
            &MATCH_POLICIES,
            errors,
        );
        let allowed: &[&str] = if options.no_side_effects { &NO_SIDE_EFFECTS } else { &SIDE_EFFECTS };
        match fields::opt_text(hook, "sideEffects") {
            None => {
                let why = format!("must specify one of {}", allowed.join(", "));
                errors.required(&path.field("sideEffects"), &why);
            }
            effects => check::supported(&path.field("sideEffects"), effects, allowed, errors),
        }
        if let Some(timeout) = fields::opt_int(hook, "timeoutSeconds")
            && !(1..=TIMEOUT_SECONDS_MAX).contains(&timeout)
        {
            let why = "the timeout value must be between 1 and 30 seconds";
            errors.invalid(&path.field("timeoutSeconds"), timeout, why);
        }
        for key in ["namespaceSelector", "objectSelector"] {
            validate_label_selector(hook.get(key), options.leniency, &path.field(key), errors);
        }
        if self.0 == Role::Mutating {
            let policy = fields::opt_text(hook, "reinvocationPolicy");
            check::supported(&path.field("reinvocationPolicy"), policy, &REINVOCATION_POLICIES, errors);
        }
        validate_client(
            hook.get("clientConfig").unwrap_or(&Value::Null),
            &path.field("clientConfig"),
            errors,
        );
        if !options.ignore_conditions {
            rules::validate_conditions(
                fields::list(hook, "matchConditions"),
                false,
                &path.field("matchConditions"),
                errors,
            );
        }
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
    let versions: Vec<Str> =
        fields::texts(hook, "admissionReviewVersions").into_iter().map(Str::from).collect();
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
