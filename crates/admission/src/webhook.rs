//! Admission webhooks, parsed from their configurations once per change.

pub mod review;

use crate::cel::Conditions;
use crate::matching::Matcher;
use pintle_kinds::endpoint::Endpoint;
use pintle_meta::Status;
use pintle_meta::field::quoted;
use pintle_value::{Str, Value};
use review::ReviewVersion;
use std::collections::HashMap;
use std::time::Duration;

/// The default time-out of a webhook in seconds.
const TIMEOUT_SECONDS: i64 = 10;

/// One webhook of a configuration.
pub struct Webhook {
    /// The webhook's name, which need not be unique.
    pub name: Str,
    /// Identifies the webhook: configuration, name, and its number among those of the same name.
    pub id: String,
    /// The requests that the webhook applies to.
    pub matcher: Matcher,
    /// The webhook's match conditions.
    pub conditions: Conditions,
    /// The webhook's endpoint; `None` if the configuration has none.
    pub endpoint: Option<Endpoint>,
    /// How long the webhook may take.
    pub timeout: Duration,
    /// Whether requests continue if it cannot be called (failurePolicy Ignore).
    pub fails_open: bool,
    /// The review version that both sides support.
    pub review_version: Option<ReviewVersion>,
    /// Whether the webhook is called again after others changed the object (reinvocationPolicy IfNeeded).
    pub reinvocable: bool,
    /// The value of `sideEffects`.
    side_effects: Str,
}

impl Webhook {
    fn of(webhook: &Value, id: String) -> Self {
        let versions = webhook.items_at(&["admissionReviewVersions"]).iter().filter_map(Value::as_str);
        let seconds = webhook.get("timeoutSeconds").and_then(Value::as_int).unwrap_or(TIMEOUT_SECONDS);
        Webhook {
            name: webhook.str_at(&["name"]).into(),
            id,
            matcher: Matcher::of_webhook(webhook),
            conditions: Conditions::compile(webhook.items_at(&["matchConditions"])),
            endpoint: webhook.get("clientConfig").and_then(Endpoint::of),
            timeout: Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            fails_open: webhook.str_at(&["failurePolicy"]) == "Ignore",
            review_version: versions.into_iter().find_map(ReviewVersion::of),
            reinvocable: webhook.str_at(&["reinvocationPolicy"]) == "IfNeeded",
            side_effects: webhook.str_at(&["sideEffects"]).into(),
        }
    }

    /// Refuses a dry run if calling the webhook may have side effects.
    pub fn check_dry_run(&self) -> Result<(), Status> {
        if matches!(self.side_effects.as_str(), "None" | "NoneOnDryRun") {
            return Ok(());
        }
        let name = quoted(&self.name);
        Err(Status::bad_request(format!("admission webhook {name} does not support dry run")))
    }

    /// The denial of a request by this webhook, from the `v1.Status` in its answer.
    pub fn denial(&self, result: &Value) -> Status {
        let mut status = Status::from_value(result);
        let denied = format!("admission webhook {} denied the request", quoted(&self.name));
        status.message = match (status.message.as_str(), status.reason_text()) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        status
    }
}

/// The webhooks of all configurations, in the order of calls: by configuration name, then as listed.
pub fn webhooks(mut configurations: Vec<Value>) -> Vec<Webhook> {
    configurations.sort_by(|a, b| a.str_at(&["metadata", "name"]).cmp(b.str_at(&["metadata", "name"])));
    configurations.iter().flat_map(of_configuration).collect()
}

fn of_configuration(configuration: &Value) -> Vec<Webhook> {
    let owner = configuration.str_at(&["metadata", "name"]);
    let listed = configuration.items_at(&["webhooks"]);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let numbered = listed.iter().map(|webhook| {
        let name = webhook.str_at(&["name"]);
        let count = counts.entry(name).or_default();
        let id = format!("{owner}/{name}/{count}");
        *count = count.saturating_add(1);
        Webhook::of(webhook, id)
    });
    numbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn webhooks_come_in_order_and_are_told_apart() {
        let configuration = |name: &str, webhooks: &[&str]| {
            let listed: Vec<String> = webhooks.iter().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
            tree(&format!(r#"{{"metadata":{{"name":"{name}"}},"webhooks":[{}]}}"#, listed.join(",")))
        };
        let all = webhooks(vec![configuration("b", &["x"]), configuration("a", &["y", "x", "y"])]);
        let ids: Vec<&str> = all.iter().map(|webhook| webhook.id.as_str()).collect();
        assert_eq!(ids, ["a/y/0", "a/x/0", "a/y/1", "b/x/0"]);
    }

    #[test]
    fn denials_are_errors_whatever_they_say() {
        let webhook = Webhook::of(&tree(r#"{"name":"w"}"#), String::new());
        let denied = r#"admission webhook "w" denied the request"#;
        for (result, code, message, reason) in [
            ("{}", 400, format!("{denied} without explanation"), ""),
            (r#"{"code":200,"status":"Success"}"#, 400, format!("{denied} without explanation"), ""),
            (r#"{"reason":"Mine"}"#, 400, format!("{denied}: Mine"), "Mine"),
            (r#"{"code":418,"message":"no","reason":"Teapot"}"#, 418, format!("{denied}: no"), "Teapot"),
        ] {
            let status = webhook.denial(&tree(result));
            assert_eq!((status.code, &status.message, status.reason_text()), (code, &message, reason));
        }
    }
}
