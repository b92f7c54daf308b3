//! Token webhooks: TokenReviews in version v1 or v1beta1.

use super::cache::{self, Cache};
use super::{Remarks, TokenUser};
use crate::UserInfo;
use crate::review::{Field, GoType, Review};
use pintle_value::{Value, json};
use pintle_webhook::ReviewClient;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an accepted token is cached at least, as in kube-apiserver.
const ACCEPTED_LIFE_MIN: Duration = Duration::from_secs(10);
/// The size of the cache in bytes.
const CACHE_BYTES_MAX: usize = 16 << 20;

/// A webhook that authenticates tokens.
pub struct TokenWebhook {
    client: ReviewClient,
    api_version: String,
    /// Audiences of this server.
    audiences: Vec<String>,
    life: Duration,
    /// `None` is a token that the webhook does not accept.
    cache: Cache<Option<Arc<TokenUser>>>,
}

/// The fields of a review that are read.
const FIELDS: &[Field] = &[
    (&["status"], "TokenReview", GoType::Struct("TokenReviewStatus")),
    (&["status", "authenticated"], "TokenReviewStatus", GoType::Bool),
    (&["status", "user"], "TokenReviewStatus", GoType::Struct("UserInfo")),
    (&["status", "user", "username"], "UserInfo", GoType::Text),
    (&["status", "user", "uid"], "UserInfo", GoType::Text),
    (&["status", "user", "groups"], "UserInfo", GoType::Texts),
    (&["status", "user", "extra"], "UserInfo", GoType::TextLists),
    (&["status", "audiences"], "TokenReviewStatus", GoType::Texts),
    (&["status", "error"], "TokenReviewStatus", GoType::Text),
];

impl TokenWebhook {
    /// A webhook for this review version; answers are cached for `life`.
    pub fn new(
        client: ReviewClient,
        version: &str,
        audiences: Vec<String>,
        life: Duration,
    ) -> Result<Self, String> {
        if !matches!(version, "v1" | "v1beta1") {
            return Err(format!(
                "unsupported authentication webhook version \"{version}\", supported versions are \"v1\", \"v1beta1\""
            ));
        }
        let api_version = format!("authentication.k8s.io/{version}");
        Ok(TokenWebhook { client, api_version, audiences, life, cache: Cache::new(CACHE_BYTES_MAX) })
    }

    /// The user of a token; `None` if the webhook does not accept it.
    pub(super) async fn authenticate(
        &self,
        token: &str,
        audiences: Option<&[String]>,
    ) -> Result<Option<TokenUser>, String> {
        let wanted = audiences.unwrap_or(&self.audiences);
        let (key, now) = (cache::key(token, Some(wanted)), Instant::now());
        if let Some(known) = self.cache.get(&key, now) {
            return Ok(known.map(|user| (*user).clone()));
        }
        let answer = self.review_token(token, wanted).await?;
        let life = if answer.is_some() { self.life.max(ACCEPTED_LIFE_MIN) } else { self.life };
        let bytes = answer.as_ref().map_or(0, |known| known.user.bytes());
        self.cache.insert(key, answer.clone().map(Arc::new), bytes, life, now);
        Ok(answer)
    }

    async fn review_token(&self, token: &str, wanted: &[String]) -> Result<Option<TokenUser>, String> {
        let mut review = Value::object();
        review.set_at(&["kind"], "TokenReview".into());
        review.set_at(&["apiVersion"], self.api_version.as_str().into());
        review.set_at(&["metadata"], Value::object());
        review.set_at(&["spec", "token"], token.into());
        if !wanted.is_empty() {
            let audiences = wanted.iter().map(|audience| audience.as_str().into()).collect();
            review.set_at(&["spec", "audiences"], Value::Array(audiences));
        }
        review.set_at(&["status", "user"], Value::object());
        let body = json::bytes(&review);
        let answer = self.client.post(body.into()).await?;
        let (group, version) = self.api_version.rsplit_once('/').unwrap_or_default();
        let answer = Review { group, version, kind: "TokenReview", fields: FIELDS }.read(&answer)?;
        let texts = |path: &[&str]| -> Vec<String> {
            answer.items_at(path).iter().filter_map(Value::as_str).map(str::to_string).collect()
        };
        let mut good_for = texts(&["status", "audiences"]);
        if good_for.is_empty() {
            good_for.clone_from(&self.audiences);
        }
        let audiences: Vec<String> = wanted.iter().filter(|a| good_for.contains(a)).cloned().collect();
        if audiences.is_empty() && !wanted.is_empty() {
            return Ok(None);
        }
        if answer.at(&["status", "authenticated"]).and_then(Value::as_bool) != Some(true) {
            return match answer.str_at(&["status", "error"]) {
                "" => Ok(None),
                why => Err(why.to_string()),
            };
        }
        let extra = answer.at(&["status", "user", "extra"]).and_then(Value::as_object);
        let extra = extra.into_iter().flat_map(|map| map.iter());
        let user = UserInfo {
            name: answer.str_at(&["status", "user", "username"]).to_string(),
            uid: answer.str_at(&["status", "user", "uid"]).to_string(),
            groups: texts(&["status", "user", "groups"]),
            extra: extra
                .map(|(key, values)| {
                    let values = values.as_array().unwrap_or_default().iter().filter_map(Value::as_str);
                    (key.to_string(), values.map(str::to_string).collect())
                })
                .collect(),
        };
        let user = Arc::new(user.with_authenticated_group());
        Ok(Some(TokenUser { user, audiences, remarks: Remarks::default() }))
    }
}
