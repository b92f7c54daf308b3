//! EventRateLimit: limits how many events are written per second, in all, per namespace, per user, or per source and
//! object.

use crate::config::{PluginConfig, Scheme};
use crate::{Attributes, Operation, Plugin, Validation};
use pintle_meta::field::Named;
use pintle_meta::go_type::{GoStruct, GoType};
use pintle_meta::{FieldErrors, Status};
use pintle_value::{Path, Value};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The default number of buckets of one limit.
const BUCKETS_DEFAULT: usize = 4096;
/// The largest number of buckets of one limit; more would only cost memory.
const BUCKETS_MAX: usize = 1 << 20;

const TYPES: [&str; 4] = ["Namespace", "Server", "SourceAndObject", "User"];

const LIMIT: GoStruct = GoStruct(
    "Limit",
    &[
        ("type", GoType::Text("v1alpha1.LimitType")),
        ("qps", GoType::Int32),
        ("burst", GoType::Int32),
        ("cacheSize", GoType::Int32),
    ],
);
const CONFIGURATION: GoStruct = GoStruct("Configuration", &[("limits", GoType::Structs(&LIMIT))]);
const SCHEME: Scheme = Scheme {
    kinds: &[("eventratelimit.admission.k8s.io/v1alpha1", "Configuration", &CONFIGURATION)],
    strict: false,
    place: "pkg/admission/eventratelimit/config.go:31",
};

pub(crate) struct EventRateLimit(Vec<Limit>);

impl EventRateLimit {
    /// Parses the configuration. A missing configuration has no limits and is refused.
    pub(crate) fn new(config: Option<&PluginConfig>) -> Result<Self, String> {
        let tree = match config {
            Some(config) => config.decode(&SCHEME).map_err(|error| error.text())?.1,
            None => Value::object(),
        };
        let mut errors = FieldErrors::new();
        validate(&tree, &mut errors);
        if errors.is_empty() {
            Ok(EventRateLimit(tree.items_at(&["limits"]).iter().map(Limit::new).collect()))
        } else {
            Err(errors.aggregate_message())
        }
    }
}

fn validate(tree: &Value, errors: &mut FieldErrors) {
    let root = Path::of("limits");
    let limits = tree.items_at(&["limits"]);
    if limits.is_empty() {
        let limits_value = tree.get("limits").unwrap_or(&Value::Null);
        errors.invalid(&root, limits_value, "must not be empty");
    }
    for (index, limit) in limits.iter().enumerate() {
        let path = root.index(index);
        let number = |key: &str| limit.get(key).and_then(Value::as_int).unwrap_or(0);
        let type_ = limit.str_at(&["type"]);
        if !TYPES.contains(&type_) {
            errors.not_supported(&path.field("type"), Named(type_), &TYPES);
        }
        for key in ["burst", "qps"] {
            if number(key) <= 0 {
                errors.invalid(&path.field(key), number(key), "must be positive");
            }
        }
        if type_ != "Server" && number("cacheSize") < 0 {
            errors.invalid(&path.field("cacheSize"), number("cacheSize"), "must not be negative");
        }
    }
}

impl Plugin for EventRateLimit {
    fn validate(&self, Validation { request, object, .. }: Validation<'_>) -> Result<(), Status> {
        let kind = request.kind_in(request.version);
        let writes = matches!(request.operation, Operation::Create | Operation::Update);
        // Events of the group events.k8s.io are not limited: kube-apiserver checks the group of the request.
        if !writes || !kind.group.is_empty() || kind.kind != "Event" || request.dry_run {
            return Ok(());
        }
        let now = Instant::now();
        // Every limit counts the event, even if another one refuses it.
        let mut reached: Vec<String> = Vec::new();
        for limit in &self.0 {
            let key = limit.bucket_key(request, object);
            if !limit.accept(&key, now) {
                reached.push(format!("limit reached on type {} for key {key}", limit.type_));
            }
        }
        reached.dedup();
        match reached.as_slice() {
            [] => Ok(()),
            [one] => Err(Status::too_many_requests_error(one)),
            many => Err(Status::too_many_requests_error(&format!("[{}]", many.join(", ")))),
        }
    }
}

struct Limit {
    type_: String,
    per_second: f64,
    burst: f64,
    buckets_max: usize,
    buckets: Mutex<Buckets>,
}

/// The buckets of a limit. The least recently used ones are evicted.
#[derive(Default)]
struct Buckets {
    by_key: HashMap<String, Bucket>,
    /// Keys in order of use, with the number of that use; entries of older uses are skipped.
    uses: VecDeque<(String, u64)>,
    last_use: u64,
}

struct Bucket {
    tokens: f64,
    filled: Instant,
    used: u64,
}

impl Limit {
    fn new(limit: &Value) -> Self {
        let number = |key: &str| limit.get(key).and_then(Value::as_int).unwrap_or(0);
        let size = usize::try_from(number("cacheSize")).unwrap_or(0).min(BUCKETS_MAX);
        #[expect(clippy::cast_precision_loss, reason = "both are of 32 bits")]
        let (per_second, burst) = (number("qps") as f64, number("burst") as f64);
        Limit {
            type_: limit.str_at(&["type"]).to_string(),
            per_second,
            burst,
            buckets_max: if size == 0 { BUCKETS_DEFAULT } else { size },
            buckets: Mutex::default(),
        }
    }

    fn bucket_key(&self, request: &Attributes<'_>, object: Option<&Value>) -> String {
        match self.type_.as_str() {
            "Namespace" => request.namespace.to_string(),
            "User" => request.user.name.clone(),
            "SourceAndObject" => {
                let text = |path: &[&str]| object.map_or("", |object| object.str_at(path));
                let involved = ["kind", "namespace", "name", "uid", "apiVersion"];
                let involved = involved.map(|key| text(&["involvedObject", key]));
                let source = ["component", "host"].map(|key| text(&["source", key]));
                [source.concat(), involved.concat()].concat()
            }
            _ => String::new(),
        }
    }

    /// Takes a token from a key's bucket, if one is left.
    fn accept(&self, key: &str, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let use_number = buckets.last_use.saturating_add(1);
        buckets.last_use = use_number;
        let fresh = || Bucket { tokens: self.burst, filled: now, used: use_number };
        let bucket = buckets.by_key.entry(key.to_string()).or_insert_with(fresh);
        let elapsed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        let tokens = (bucket.tokens + elapsed * self.per_second).min(self.burst);
        let accepted = tokens >= 1.0;
        if accepted {
            bucket.tokens = tokens - 1.0;
            bucket.filled = now;
        }
        bucket.used = use_number;
        buckets.uses.push_back((key.to_string(), use_number));
        buckets.forget(self.buckets_max);
        accepted
    }
}

impl Buckets {
    /// Evicts the least recently used buckets beyond `max`, and entries of older uses.
    fn forget(&mut self, max: usize) {
        while let Some((key, use_number)) = self.uses.front() {
            let is_last_use = self.by_key.get(key).is_some_and(|bucket| bucket.used == *use_number);
            if is_last_use && self.by_key.len() <= max {
                break;
            }
            if is_last_use {
                let key = key.clone();
                self.by_key.remove(&key);
            }
            self.uses.pop_front();
        }
        // A frequently used key may have accumulated entries behind an old one.
        if self.uses.len() > max.saturating_mul(2) {
            let by_key = &self.by_key;
            self.uses
                .retain(|(key, use_number)| by_key.get(key).is_some_and(|bucket| bucket.used == *use_number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;
    use std::time::Duration;

    #[test]
    fn buckets_fill_by_time_and_the_oldest_go() {
        let limit = Limit::new(&tree(r#"{"type":"Namespace","qps":2,"burst":2,"cacheSize":2}"#));
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        for (key, millis, accepted) in [
            ("a", 0, true),
            ("a", 0, true),
            ("a", 0, false),
            ("a", 499, false),
            ("a", 500, true),
            ("a", 501, false),
            ("b", 501, true),
            // A third key evicts the least recently used one, which then starts with a full bucket.
            ("c", 502, true),
            ("a", 503, true),
            ("a", 503, true),
            ("a", 503, false),
        ] {
            assert_eq!(limit.accept(key, at(millis)), accepted, "{key} {millis}");
        }
        for n in 0..100 {
            limit.accept(if n % 2 == 0 { "a" } else { "b" }, at(600));
        }
        let buckets = limit.buckets.lock().unwrap();
        assert!(buckets.by_key.len() <= 2 && buckets.uses.len() <= 4);
    }

    #[test]
    fn limits_must_make_sense() {
        let head = r#""apiVersion":"eventratelimit.admission.k8s.io/v1alpha1","kind":"Configuration""#;
        let refusal = |limits: &str| {
            let text = format!("{{{head},\"limits\":{limits}}}");
            EventRateLimit::new(Some(&PluginConfig::of_text(text.as_bytes()))).err().unwrap_or_default()
        };
        for (limits, want) in [
            (r#"[{"type":"Server","qps":1,"burst":1,"cacheSize":-1,"colour":"red"}]"#, ""),
            ("null", "limits: Invalid value: null: must not be empty"),
            ("[]", "limits: Invalid value: []: must not be empty"),
            (
                r#"[{"type":"User","qps":0,"cacheSize":-1}]"#,
                "[limits[0].burst: Invalid value: 0: must be positive, limits[0].qps: Invalid value: 0: must be positive, limits[0].cacheSize: Invalid value: -1: must not be negative]",
            ),
            (
                r#"[{"type":"Server","qps":"1"}]"#,
                "json: cannot unmarshal string into Go struct field Limit.limits.qps of type int32",
            ),
        ] {
            assert_eq!(refusal(limits), want, "{limits}");
        }
        assert_eq!(
            EventRateLimit::new(None).err().as_deref(),
            Some("limits: Invalid value: null: must not be empty")
        );
    }
}
