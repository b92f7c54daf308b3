//! SelfSubjectReview and TokenReview: the user of a request or of a token.

use super::Access;
use pintle_auth::UserInfo;
use pintle_meta::Status;
use pintle_value::Value;
use std::time::SystemTime;

const API_VERSION: &str = "authentication.k8s.io/v1";

/// The answer to "who am I".
pub(super) fn whoami(user: &UserInfo, now: &str) -> Value {
    let mut out = Value::object();
    out.set_at(&["kind"], "SelfSubjectReview".into());
    out.set_at(&["apiVersion"], API_VERSION.into());
    out.set_at(&["metadata", "creationTimestamp"], now.into());
    out.set_at(&["status", "userInfo"], user_value(user));
    out
}

/// Refuses a review without a token.
pub(super) fn check_token_review(review: &Value) -> Result<(), Status> {
    if review.str_at(&["spec", "token"]).is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    Ok(())
}

/// Authenticates the token of a review.
pub(super) async fn review_token(mut review: Value, access: &Access, now: SystemTime) -> Value {
    let texts = |items: &[Value]| -> Vec<String> {
        items.iter().filter_map(Value::as_str).map(str::to_string).collect()
    };
    let requested = texts(review.items_at(&["spec", "audiences"]));
    let wanted = if requested.is_empty() { access.authenticator.audiences.clone() } else { requested };
    let token = pintle_auth::authn::reviewed_token(review.str_at(&["spec", "token"]));
    // Without a result, the status that the client sent stays.
    let mut status = review.get("status").filter(|s| !s.is_null()).cloned().unwrap_or_else(Value::object);
    if status.get("user").is_none() {
        status.set_at(&["user"], Value::object());
    }
    status.remove_at(&["authenticated"]);
    let found = match token {
        Some(token) => Some(access.authenticator.authenticate_token(&token, Some(&wanted), now).await),
        None => None,
    };
    match found {
        // kube-apiserver passes a request with this token to all authenticators, including the one for anonymous
        // requests.
        None if access.authenticator.anonymous && access.authenticator.anonymous_paths.is_empty() => {
            status.set_at(&["authenticated"], Value::Bool(true));
            status.set_at(&["user"], user_value(&UserInfo::anonymous()));
            let audiences = wanted.iter().map(|a| Value::from(a.as_str())).collect();
            status.set_at(&["audiences"], Value::Array(audiences));
        }
        None => {}
        Some(Ok(found)) => {
            status.set_at(&["authenticated"], Value::Bool(true));
            status.set_at(&["user"], user_value(&found.user));
            let audiences = found.audiences.iter().map(|a| Value::from(a.as_str())).collect();
            status.set_at(&["audiences"], Value::Array(audiences));
        }
        Some(Err(why)) => status.set_at(&["error"], why.0.into()),
    }
    review.set_at(&["status"], status);
    review
}

/// A user in the form of reviews.
fn user_value(user: &UserInfo) -> Value {
    let mut out = Value::object();
    let list = |items: &[String]| Value::Array(items.iter().map(|item| Value::from(item.as_str())).collect());
    out.set_at(&["username"], user.name.as_str().into());
    out.set_at(&["uid"], user.uid.as_str().into());
    if !user.groups.is_empty() {
        out.set_at(&["groups"], list(&user.groups));
    }
    for (key, values) in &user.extra {
        out.set_at(&["extra", key], list(values));
    }
    out
}
