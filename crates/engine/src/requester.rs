//! Objects that say who made them: certificate signing requests.

use crate::Target;
use pintle_auth::UserInfo;
use pintle_value::Value;

/// Writes the user into a new object whose kind wants it; what the client says of itself does not count.
pub(crate) fn record(target: &Target, user: &UserInfo, object: &mut Value) {
    if target.kind.group != "certificates.k8s.io" || target.kind.plural != "certificatesigningrequests" {
        return;
    }
    for key in ["username", "uid", "groups", "extra"] {
        object.remove_at(&["spec", key]);
    }
    let list = |items: &[String]| Value::Array(items.iter().map(|item| Value::from(item.as_str())).collect());
    object.set_at(&["spec", "username"], user.name.as_str().into());
    if !user.uid.is_empty() {
        object.set_at(&["spec", "uid"], user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        object.set_at(&["spec", "groups"], list(&user.groups));
    }
    for (key, values) in &user.extra {
        object.set_at(&["spec", "extra", key], list(values));
    }
}
