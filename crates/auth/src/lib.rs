//! Authentication (`authn`) and authorization (`authz`). Knows certificates, tokens and rules, but no HTTP.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod authn;
pub mod authz;
mod config_file;
pub mod impersonate;
mod review;
mod user;

pub use authn::{Authenticated, Authenticator, Credentials, Unauthorized};
pub use authz::{Attributes, Authorizer, Authorizing, Decision};
pub use user::UserInfo;

/// Returns the error of Go's `url.Parse`, if it refuses a text.
pub use pintle_cel::library::kubernetes::url::check as check_url;

/// Joins errors as Kubernetes aggregates them: a single one alone, several in brackets, without duplicates.
pub fn aggregate(errors: Vec<String>) -> String {
    let mut unique: Vec<String> = Vec::new();
    for error in errors {
        if !unique.contains(&error) {
            unique.push(error);
        }
    }
    match unique.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// The output of a future that never waits, for tests.
#[cfg(test)]
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("not ready"),
    }
}
