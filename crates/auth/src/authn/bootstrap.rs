//! Bootstrap tokens, `id.secret`: Secrets in `kube-system` with which nodes join a cluster.

use super::service_account::BoundObjects;
use crate::UserInfo;
use pintle_meta::Timestamp;
use pintle_value::Value;
use std::sync::Arc;
use std::time::SystemTime;

const NAMESPACE: &str = "kube-system";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";
const EXTRA_GROUP_BYTES_MAX: usize = 256;

/// Accepts bootstrap tokens.
pub struct BootstrapTokens(pub Arc<dyn BoundObjects>);

impl BootstrapTokens {
    /// The user of a valid token.
    pub fn authenticate(&self, token: &str, now: SystemTime) -> Option<UserInfo> {
        let (id, secret_text) = token.split_once('.')?;
        let fits = |text: &str, bytes: usize| {
            text.len() == bytes && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        if !fits(id, 6) || !fits(secret_text, 16) {
            return None;
        }
        let secret = self.0.secret(NAMESPACE, &format!("bootstrap-token-{id}"))?;
        let is_live = secret.str_at(&["metadata", "deletionTimestamp"]).is_empty();
        if !is_live || secret.str_at(&["type"]) != SECRET_TYPE {
            return None;
        }
        let stored = data(&secret, "token-secret");
        aws_lc_rs::constant_time::verify_slices_are_equal(stored.as_bytes(), secret_text.as_bytes()).ok()?;
        let usable = data(&secret, "token-id") == id
            && !has_expired(&data(&secret, "expiration"), now)
            && data(&secret, "usage-bootstrap-authentication") == "true";
        let groups = groups(&data(&secret, "auth-extra-groups")).filter(|_| usable)?;
        Some(UserInfo { name: format!("system:bootstrap:{id}"), groups, ..UserInfo::default() })
    }
}

/// A value of a Secret's data as text.
fn data(secret: &Value, key: &str) -> String {
    let bytes = pintle_value::base64::decode(secret.str_at(&["data", key])).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An unparsable time counts as expired.
fn has_expired(text: &str, now: SystemTime) -> bool {
    if text.is_empty() {
        return false;
    }
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    Timestamp::parse(text).map_or(true, |at| at.seconds <= i64::try_from(now).unwrap_or(i64::MAX))
}

/// The distinct groups, in order; `None` if one is not a bootstrap group.
fn groups(extra: &str) -> Option<Vec<String>> {
    let mut all = vec![GROUP.to_string()];
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        let name = group.strip_prefix(GROUP)?.strip_prefix(':')?;
        let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let ends_well = name.bytes().last().is_some_and(known);
        if !ends_well
            || name.len() > EXTRA_GROUP_BYTES_MAX
            || !name.bytes().all(|b| known(b) || b == b':' || b == b'-')
        {
            return None;
        }
        all.push(group.to_string());
    }
    all.sort();
    all.dedup();
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::service_account::{BoundKind, BoundObject};
    use std::time::Duration;

    struct Secrets(Value);

    impl BoundObjects for Secrets {
        fn get(&self, _kind: BoundKind, _namespace: &str, _name: &str) -> Option<BoundObject> {
            None
        }

        fn secret(&self, namespace: &str, name: &str) -> Option<Value> {
            (namespace == NAMESPACE && name == "bootstrap-token-abcdef").then(|| self.0.clone())
        }

        fn account_names_secret(&self, _namespace: &str, _account: &str, _secret: &str) -> bool {
            false
        }

        fn record_use(&self, _namespace: &str, _secret: &str, _uid: &str, _day: &str) {}
    }

    #[test]
    fn a_secret_makes_a_user() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let good = [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
        ];
        let ask = |changes: &[(&str, &str)], token: &str| {
            let mut secret = Value::object();
            secret.set_at(&["type"], SECRET_TYPE.into());
            for (key, value) in good.iter().chain(changes) {
                let encoded = pintle_value::base64::encode(value.as_bytes());
                secret.set_at(&["data", key], encoded.as_str().into());
            }
            let tokens = BootstrapTokens(Arc::new(Secrets(secret)));
            tokens.authenticate(token, now).map(|user| format!("{} {}", user.name, user.groups.join(" ")))
        };
        let token = "abcdef.0123456789abcdef";
        assert_eq!(ask(&[], token).as_deref(), Some("system:bootstrap:abcdef system:bootstrappers"));
        let groups = ask(&[("auth-extra-groups", "system:bootstrappers:b,system:bootstrappers:a")], token);
        let want =
            "system:bootstrap:abcdef system:bootstrappers system:bootstrappers:a system:bootstrappers:b";
        assert_eq!(groups.as_deref(), Some(want));
        for (changes, token) in [
            (("x", "y"), "abcdef.0123456789abcdeX"),
            (("x", "y"), "abcdef.0123456789abcde0"),
            (("x", "y"), "abcdeg.0123456789abcdef"),
            (("token-id", "abcdeg"), token),
            (("usage-bootstrap-authentication", "false"), token),
            (("expiration", "2001-09-09T01:46:40Z"), token),
            (("expiration", "soon"), token),
            (("auth-extra-groups", "system:masters"), token),
            (("auth-extra-groups", "system:bootstrappers:"), token),
        ] {
            assert_eq!(ask(&[changes], token), None, "{changes:?}");
        }
        assert!(ask(&[("expiration", "2001-09-09T01:46:41Z")], token).is_some());
    }
}
