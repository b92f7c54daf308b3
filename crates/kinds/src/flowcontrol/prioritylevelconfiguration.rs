//! PriorityLevelConfiguration: the concurrency of a level, and what happens to excess requests.

use super::{fixed, validate_conditions};
use crate::error_text::Internal;
use crate::{Hooks, Scope, check, facts, fields, metadata};
use pintle_meta::FieldErrors;
use pintle_meta::field::Named;
use pintle_value::{Path, Value};

const EXEMPT: &str = "exempt";
const CATCH_ALL: &str = "catch-all";
const ROUND_TRIP: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

const LIMITED: &str = "flowcontrol/v1.LimitedPriorityLevelConfiguration";
/// How many bits of a hash shuffle sharding may use.
const HASH_BITS_MAX: i64 = 60;

pub(crate) struct PriorityLevelConfiguration;

impl Hooks for PriorityLevelConfiguration {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        if metadata::annotation(object, ROUND_TRIP).is_some() {
            errors.forbidden(
                &Path::of("metadata.annotations"),
                &format!("annotation '{ROUND_TRIP}' is forbidden"),
            );
        }
        let path = Path::of("spec");
        let name = object.str_at(&["metadata", "name"]);
        let spec = object.get("spec").unwrap_or(&Value::Null);
        validate_spec(name, spec, &path, errors);
        validate_mandatory(name, spec, &path, errors);
        validate_conditions(object, errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, _old: &Value, errors: &mut FieldErrors) {
        match scope {
            Scope::Main => self.validate_create(object, errors),
            Scope::Sub(_) => validate_conditions(object, errors),
        }
    }
}

fn validate_mandatory(name: &str, spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let error_text = || Internal(Some(spec), "flowcontrol/v1.PriorityLevelConfigurationSpec");
    if name == EXEMPT {
        let mut have = spec.clone();
        have.remove_at(&["exempt"]);
        if have != fixed(r#"{"type":"Exempt"}"#) {
            let why = format!("spec of '{name}' except the 'spec.exempt' field must equal the fixed value");
            errors.invalid(path, error_text(), &why);
        }
    }
    let catch_all = r#"{"limited":{"lendablePercent":0,"limitResponse":{"type":"Reject"},"nominalConcurrencyShares":5},"type":"Limited"}"#;
    if name == CATCH_ALL && *spec != fixed(catch_all) {
        errors.invalid(path, error_text(), &format!("spec of '{name}' must equal the fixed value"));
    }
}

fn validate_spec(name: &str, spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let kind = fields::text(spec, "type");
    let at = path.field("type");
    if (name == EXEMPT) != (kind == "Exempt") {
        errors.invalid(&at, Named(kind), "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    let (limited, exempt) = (fields::member(spec, "limited"), fields::member(spec, "exempt"));
    match kind {
        "Exempt" => {
            if limited.is_some() {
                errors.forbidden(&path.field("limited"), "must be nil if the type is not Limited");
            }
            if let Some(exempt) = exempt {
                let block = "flowcontrol/v1.ExemptPriorityLevelConfiguration";
                facts::check(exempt, block, &path.field("exempt"), errors);
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.forbidden(&path.field("exempt"), "must be nil if the type is Limited");
            }
            match limited {
                None => errors.required(&path.field("limited"), "must not be empty when type is Limited"),
                Some(limited) => validate_limited(limited, &path.field("limited"), errors),
            }
        }
        other => check::required_supported(&at, other, &["Exempt", "Limited"], errors),
    }
}

fn validate_limited(limited: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check_fields(limited, LIMITED, &["nominalConcurrencyShares"], path, errors);
    let response = limited.get("limitResponse").unwrap_or(&Value::Null);
    validate_response(response, &path.field("limitResponse"), errors);
    facts::check_fields(limited, LIMITED, &["lendablePercent", "borrowingLimitPercent"], path, errors);
}

fn validate_response(response: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let queuing = fields::member(response, "queuing");
    let at = path.field("queuing");
    match (fields::text(response, "type"), queuing) {
        ("Reject", Some(_)) => {
            errors.forbidden(&at, "must be nil if limited.limitResponse.type is not Limited")
        }
        ("Reject", None) => {}
        ("Queue", None) => errors.required(&at, "must not be empty if limited.limitResponse.type is Limited"),
        ("Queue", Some(queuing)) => validate_queuing(queuing, &at, errors),
        (other, _) => check::required_supported(&path.field("type"), other, &["Queue", "Reject"], errors),
    }
}

fn validate_queuing(queuing: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check(queuing, "flowcontrol/v1.QueuingConfiguration", path, errors);
    let (queues, hand) = (fields::int(queuing, "queues"), fields::int(queuing, "handSize"));
    if hand <= 0 {
        return;
    }
    let at = path.field("handSize");
    if hand > queues {
        errors.invalid(&at, hand, &format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues, hand) > HASH_BITS_MAX {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS_MAX}"
        );
        errors.invalid(&at, hand, &why);
    }
}

/// How many bits of a hash dealing a hand of queues needs.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "an estimate, as Go makes it"
)]
fn entropy_bits(queues: i64, hand: i64) -> i64 {
    ((queues as f64).log2() * hand as f64).ceil() as i64
}
