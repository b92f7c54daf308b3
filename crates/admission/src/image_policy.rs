//! ImagePolicyWebhook: a webhook decides which images pods may run. Its answers are cached for some time.

use crate::config::PluginConfig;
use crate::{Attributes, Operation, Plugin, Reviewing};
use pintle_meta::duration::GoDuration;
use pintle_meta::go_type::{GoStruct, GoType, unregistered_kind};
use pintle_meta::{Reason, Status};
use pintle_value::{Map, Value, json, yaml};
use pintle_webhook::{Kubeconfig, ReviewClient, ReviewError};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The number of cached answers.
const ANSWERS_MAX: usize = 1024;
/// The largest request whose answer is cached, in bytes.
const QUESTION_BYTES_MAX: usize = 64 << 10;

const API_VERSION: &str = "imagepolicy.k8s.io/v1alpha1";
const KIND: &str = "ImageReview";
const AUDIT_PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";

const WEBHOOK: GoStruct = GoStruct(
    "imagePolicyWebhookConfig",
    &[
        ("kubeConfigFile", GoType::Text("string")),
        ("allowTTL", GoType::Int64("time.Duration")),
        ("denyTTL", GoType::Int64("time.Duration")),
        ("retryBackoff", GoType::Int64("time.Duration")),
        ("defaultAllow", GoType::Bool),
    ],
);
const CONFIGURATION: GoStruct = GoStruct("AdmissionConfig", &[("imagePolicy", GoType::Struct(&WEBHOOK))]);

pub(crate) struct ImagePolicyWebhook {
    client: ReviewClient,
    allow_life: Duration,
    deny_life: Duration,
    /// Whether pods are allowed if the webhook cannot be called.
    fails_open: bool,
    answers: Mutex<HashMap<String, (Answer, Instant)>>,
}

/// The `status` of a review.
#[derive(Clone, Debug, Default)]
struct Answer {
    allowed: bool,
    reason: String,
    annotations: Vec<(String, String)>,
}

impl ImagePolicyWebhook {
    pub(crate) fn new(config: Option<&PluginConfig>) -> Result<Self, String> {
        let config = config.ok_or("no config specified")?;
        let tree = config.tree()?;
        if let Some(why) = GoType::Struct(&CONFIGURATION).type_error(tree, "imagepolicy") {
            return Err(config.yaml_error(&why));
        }
        let number = |key: &str| tree.at(&["imagePolicy", key]).and_then(Value::as_int).unwrap_or(0);
        let (second, milli) = (Duration::from_secs(1), Duration::from_millis(1));
        let (five_minutes, half_hour) = (Duration::from_secs(300), Duration::from_secs(1800));
        let default = Duration::from_millis(500);
        let backoff = Limits { least: Duration::from_nanos(1), most: five_minutes, default };
        let allow = Limits { least: second, most: half_hour, default: five_minutes };
        let deny = Limits { least: second, most: half_hour, default: Duration::from_secs(30) };
        let pause = backoff.read(number("retryBackoff"), milli)?;
        let allow_life = allow.read(number("allowTTL"), second)?;
        let deny_life = deny.read(number("denyTTL"), second)?;
        let kubeconfig = Kubeconfig::load(Path::new(tree.str_at(&["imagePolicy", "kubeConfigFile"])))?;
        // kube-apiserver sends no User-Agent of its own to this webhook.
        let client = ReviewClient::new(kubeconfig, None)?.with_pause(pause).with_agent("Go-http-client/1.1");
        let fails_open = tree.at(&["imagePolicy", "defaultAllow"]).and_then(Value::as_bool).unwrap_or(false);
        Ok(ImagePolicyWebhook { client, allow_life, deny_life, fails_open, answers: Mutex::default() })
    }

    /// The webhook's answer for these images, from the cache or by a call.
    async fn answer(&self, spec: Value) -> Result<Answer, ReviewError> {
        let key = json::bytes(&spec);
        let key = String::from_utf8_lossy(&key).into_owned();
        let now = Instant::now();
        if let Some((answer, until)) = self.answers().get(&key)
            && now <= *until
        {
            return Ok(answer.clone());
        }
        let mut review = Value::object();
        review.set_at(&["kind"], KIND.into());
        review.set_at(&["apiVersion"], API_VERSION.into());
        review.set_at(&["metadata"], Value::object());
        review.set_at(&["spec"], spec);
        review.set_at(&["status", "allowed"], Value::Bool(false));
        let body = json::bytes(&review);
        let answer = self.client.review(body.into(), read, |_, _| {}).await?;
        let life = if answer.allowed { self.allow_life } else { self.deny_life };
        if let Some(until) = Instant::now().checked_add(life)
            && !life.is_zero()
            && key.len() <= QUESTION_BYTES_MAX
        {
            self.cache_answer(key, answer.clone(), until);
        }
        Ok(answer)
    }

    fn cache_answer(&self, key: String, answer: Answer, until: Instant) {
        let mut answers = self.answers();
        if answers.len() >= ANSWERS_MAX {
            let now = Instant::now();
            answers.retain(|_, (_, until)| now <= *until);
        }
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(key, (answer, until));
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Answer, Instant)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn decide(&self, request: &Attributes<'_>, pod: &Value, spec: Value) -> Result<(), Status> {
        let answer = match self.answer(spec).await {
            Ok(answer) => answer,
            Err(_) if self.fails_open => {
                pintle_audit::annotate(&format!("{AUDIT_PREFIX}failed-open"), || "true".to_string());
                return Ok(());
            }
            // A 403 of the webhook is returned with the webhook's message.
            Err(ReviewError { status: Some(status), .. }) if is_forbidden(&status) => return Err(*status),
            Err(error) => return Err(request.forbidden(Some(pod), &error.why)),
        };
        for (key, value) in &answer.annotations {
            pintle_audit::annotate(&format!("{AUDIT_PREFIX}{key}"), || value.clone());
        }
        match (answer.allowed, answer.reason.as_str()) {
            (true, _) => Ok(()),
            (false, "") => {
                Err(request.forbidden(Some(pod), "one or more images rejected by webhook backend"))
            }
            (false, reason) => {
                let why = format!("image policy webhook backend denied one or more images: {reason}");
                Err(request.forbidden(Some(pod), &why))
            }
        }
    }
}

fn is_forbidden(status: &Status) -> bool {
    status.reason_text() == Reason::Forbidden.as_str()
        || (status.reason_text().is_empty() && status.code == 403)
}

impl Plugin for ImagePolicyWebhook {
    fn review<'a>(&'a self, request: &'a Attributes<'a>, object: Option<&'a Value>) -> Option<Reviewing<'a>> {
        let writes = matches!(request.operation, Operation::Create | Operation::Update);
        if !writes || !request.is("", "pods") {
            return None;
        }
        let lists: &[&str] = match request.subresource {
            "" => &["containers", "initContainers"],
            "ephemeralcontainers" => &["ephemeralContainers"],
            _ => return None,
        };
        let pod = object?;
        Some(Box::pin(self.decide(request, pod, spec(request, pod, lists))))
    }
}

/// The review's spec for a pod. Empty members are omitted.
fn spec(request: &Attributes<'_>, pod: &Value, lists: &[&str]) -> Value {
    let containers = lists.iter().flat_map(|list| pod.items_at(&["spec", list]));
    let image = |container: &Value| {
        let mut out = Value::object();
        if !container.str_at(&["image"]).is_empty() {
            out.set_at(&["image"], container.str_at(&["image"]).into());
        }
        out
    };
    let containers: Vec<Value> = containers.map(image).collect();
    let annotations = pod.at(&["metadata", "annotations"]).and_then(Value::as_object);
    let annotations = annotations.into_iter().flat_map(|map| map.iter());
    let concerning: Map = annotations
        .filter(|(key, _)| key.contains(".image-policy.k8s.io/"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut out = Value::object();
    if !containers.is_empty() {
        out.set_at(&["containers"], Value::Array(containers));
    }
    if !concerning.is_empty() {
        out.set_at(&["annotations"], Value::Object(concerning));
    }
    if !request.namespace.is_empty() {
        out.set_at(&["namespace"], request.namespace.into());
    }
    out
}

/// The answer in a review. A document without kind counts as a review.
fn read(received: &[u8]) -> Result<Answer, String> {
    let unread = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let tree = if received.trim_ascii_start().starts_with(b"{") {
        json::parse(received).map_err(|error| unread(error.to_string()))?.value
    } else {
        yaml::parse(received).map_err(|error| unread(error.message().to_string()))?.value
    };
    if !matches!(tree, Value::Object(_)) {
        let type_ = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let found = tree.json_type();
        return Err(unread(format!("json: cannot unmarshal {found} into Go value of type {type_}")));
    }
    let or = |given: &'static str, found: &str| {
        if found.is_empty() { given.to_string() } else { found.to_string() }
    };
    let version = or(API_VERSION, tree.str_at(&["apiVersion"]));
    let kind = or(KIND, tree.str_at(&["kind"]));
    if version != API_VERSION || kind != KIND {
        return Err(if version == "v1" {
            format!("converting (v1.{kind}) to (v1alpha1.{KIND}): unknown conversion")
        } else {
            unregistered_kind(&kind, &version, "pkg/api/legacyscheme/scheme.go:30")
        });
    }
    let annotations = tree.at(&["status", "auditAnnotations"]).and_then(Value::as_object);
    let annotations = annotations.into_iter().flat_map(|map| map.iter());
    Ok(Answer {
        allowed: tree.at(&["status", "allowed"]).and_then(Value::as_bool).unwrap_or(false),
        reason: tree.str_at(&["status", "reason"]).to_string(),
        annotations: annotations
            .filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_string())))
            .collect(),
    })
}

/// The allowed range of a duration in the configuration.
struct Limits {
    least: Duration,
    most: Duration,
    default: Duration,
}

impl Limits {
    /// Converts a number of `unit`s; 0 means the default and -1 none.
    fn read(&self, number: i64, unit: Duration) -> Result<Duration, String> {
        match number {
            -1 => return Ok(Duration::ZERO),
            0 => return Ok(self.default),
            _ => {}
        }
        let go = |duration: Duration| GoDuration(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX));
        let GoDuration(unit) = go(unit);
        let value = number.wrapping_mul(unit);
        if value < go(self.least).0 || value > go(self.most).0 {
            let (least, most, got) = (go(self.least), go(self.most), GoDuration(value));
            return Err(format!("valid value is between {least} and {most}, got {got}"));
        }
        Ok(Duration::from_nanos(value.unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_that_are_refused() {
        let refusal = |text: &str| {
            let text = format!(r#"{{"imagePolicy":{{"kubeConfigFile":"/none",{text}}}}}"#);
            ImagePolicyWebhook::new(Some(&PluginConfig::of_text(text.as_bytes()))).err().unwrap_or_default()
        };
        for (text, want) in [
            (r#""allowTTL":30"#, "stat /none: no such file or directory"),
            (r#""allowTTL":999999"#, "valid value is between 1s and 30m0s, got 277h46m39s"),
            (r#""denyTTL":-2"#, "valid value is between 1s and 30m0s, got -2s"),
            (r#""retryBackoff":300001"#, "valid value is between 1ns and 5m0s, got 5m0.001s"),
            (
                r#""allowTTL":"30s""#,
                "json: cannot unmarshal string into Go struct field imagePolicyWebhookConfig.imagePolicy.allowTTL of type time.Duration",
            ),
        ] {
            assert_eq!(refusal(text), want);
        }
        assert_eq!(ImagePolicyWebhook::new(None).err().as_deref(), Some("no config specified"));
    }

    #[test]
    fn answers_must_be_reviews() {
        for (text, want) in [
            (r#"{"status":{"allowed":true}}"#, Ok(true)),
            (
                r#"{"apiVersion":"v1","kind":"Pod"}"#,
                Err("converting (v1.Pod) to (v1alpha1.ImageReview): unknown conversion"),
            ),
            (
                r#"{"apiVersion":"imagepolicy.k8s.io/v1","kind":"ImageReview"}"#,
                Err(
                    "no kind \"ImageReview\" is registered for version \"imagepolicy.k8s.io/v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
                ),
            ),
        ] {
            assert_eq!(read(text.as_bytes()).map(|answer| answer.allowed), want.map_err(str::to_string));
        }
    }
}
