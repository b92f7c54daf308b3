//! Impersonation: requests as another user, for users with that right.
//!
//! Four constrained modes are tried first, each for one kind of user and each with two rights: to act as that user
//! (`impersonate:MODE`) and to do the requested action as that user (`impersonate-on:MODE:VERB`). The legacy mode,
//! one right for every action, is tried last.

use crate::authz::{Attributes, Authorizer, Decision, forbidden};
use crate::user::UserInfo;
use pintle_meta::Status;
use pintle_metrics::families;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// From this number of checks on, the constrained modes first check the right to everything at once.
const MANY_CHECKS: usize = 4;

/// Parses the impersonation headers. `headers` are names in lower case and values, in order; a caller must not drop
/// values that it cannot decode, because the request would then run with the requester's own rights. `None` means no
/// impersonation; the error is for headers with groups or extra, but no user.
pub fn wanted<'a>(
    headers: impl Iterator<Item = (&'a str, Cow<'a, str>)>,
) -> Result<Option<UserInfo>, Status> {
    let mut wanted = UserInfo::default();
    let (mut name_given, mut uid_given) = (false, false);
    for (name, value) in headers {
        match name.strip_prefix("impersonate-") {
            // If a header occurs several times, the first value counts, even if it is empty, as in Go's `Header.Get`.
            Some("user") if !name_given => (name_given, wanted.name) = (true, value.into_owned()),
            Some("uid") if !uid_given => (uid_given, wanted.uid) = (true, value.into_owned()),
            Some("group") => wanted.groups.push(value.into_owned()),
            Some(rest) => {
                if let Some(key) = rest.strip_prefix("extra-") {
                    wanted.extra.entry(unescaped(key)).or_default().push(value.into_owned());
                }
            }
            None => {}
        }
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == UserInfo::default() {
        return Ok(None);
    }
    let message = format!("requested {} without impersonating a user name", go_syntax(&wanted));
    Err(Status::bad_request(message))
}

/// Impersonation. Remembers the last allowed mode of each user: it is tried first, and a denial has its text.
pub struct Impersonation {
    constrained: bool,
    last: Mutex<HashMap<String, Mode>>,
}

/// How many users' last modes are remembered.
const REMEMBERED_MAX: usize = 10_000;

impl Impersonation {
    /// kube-apiserver's name for this filter.
    pub fn filter_name(&self) -> &'static str {
        if self.constrained { "constrainedimpersonation" } else { "impersonation" }
    }

    /// Whether the constrained modes are on.
    pub fn is_constrained(&self) -> bool {
        self.constrained
    }

    /// Enables the constrained modes, or only the legacy mode.
    pub fn new(constrained: bool) -> Self {
        Impersonation { constrained, last: Mutex::default() }
    }

    /// Returns the effective user and the constrained verb that allowed it ("" for the legacy mode), or the 403.
    /// `attributes` are the attributes of the request with its original user.
    pub async fn impersonate(
        &self,
        authorizer: &dyn Authorizer,
        wanted: &UserInfo,
        attributes: &Attributes,
    ) -> Result<(UserInfo, String), Status> {
        let began = Instant::now();
        let impersonated = self.try_modes(authorizer, wanted, attributes).await;
        // kube-apiserver counts nothing without the constrained modes.
        if self.constrained {
            let labels = match &impersonated {
                Ok((_, mode)) => ["allowed", mode.label()],
                Err(_) => ["denied", ""],
            };
            families::IMPERSONATIONS.inc(&labels);
            families::IMPERSONATION_SECONDS.observe(&labels, began.elapsed().as_secs_f64());
        }
        let (user, mode) = impersonated?;
        let constraint = match mode {
            Mode::Legacy => String::new(),
            mode => format!("impersonate:{}", mode.check_name()),
        };
        Ok((user, constraint))
    }

    async fn try_modes(
        &self,
        authorizer: &dyn Authorizer,
        wanted: &UserInfo,
        attributes: &Attributes,
    ) -> Result<(UserInfo, Mode), Status> {
        let requestor = &attributes.user.name;
        let all: &[Mode] = if self.constrained { &Mode::ALL } else { &[Mode::Legacy] };
        let last = self.last.lock().ok().and_then(|last| last.get(requestor).copied());
        let modes = last.into_iter().chain(all.iter().copied().filter(|m| Some(*m) != last));
        let mut first_refusal = None;
        for mode in modes.filter(|m| m.applies(wanted, &attributes.user)) {
            let counted = self.constrained.then(|| mode.label());
            match mode.check(Rights { authorizer, counted }, wanted, attributes).await {
                Ok(user) => {
                    self.remember_mode(requestor, mode);
                    return Ok((user, mode));
                }
                Err(refusal) => _ = first_refusal.get_or_insert(refusal),
            }
        }
        Err(first_refusal.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
    }

    fn remember_mode(&self, requestor: &str, mode: Mode) {
        let Ok(mut last) = self.last.lock() else { return };
        if last.get(requestor) == Some(&mode) {
            return;
        }
        if last.len() >= REMEMBERED_MAX {
            last.clear();
        }
        last.insert(requestor.to_string(), mode);
    }
}

/// The impersonation modes, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// A service account on a node impersonates that node.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// All users other than nodes and service accounts.
    UserInfo,
    Legacy,
}

impl Mode {
    const ALL: [Mode; 5] =
        [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

    fn check_name(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Legacy => "",
        }
    }

    /// The mode in metrics.
    fn label(self) -> &'static str {
        if self == Mode::Legacy { "legacy" } else { self.check_name() }
    }

    fn applies(self, wanted: &UserInfo, requestor: &UserInfo) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_name(&wanted.name);
        let account = service_account(&wanted.name);
        match self {
            Mode::AssociatedNode => {
                let own = requestor.extra.get("authentication.kubernetes.io/node-name").map(Vec::as_slice);
                let on_node = matches!((own, node), (Some([own]), Some(node)) if own == node);
                only_name && on_node && service_account(&requestor.name).is_some()
            }
            Mode::ArbitraryNode => only_name && node.is_some(),
            Mode::ServiceAccount => only_name && account.is_some(),
            Mode::UserInfo => node.is_none() && account.is_none(),
            Mode::Legacy => true,
        }
    }

    async fn check(
        self,
        rights: Rights<'_>,
        wanted: &UserInfo,
        request: &Attributes,
    ) -> Result<UserInfo, Status> {
        let checker = RightsChecker { mode: self, rights, requestor: self.requestor(&request.user) };
        if self != Mode::Legacy {
            let verb = format!("impersonate-on:{}:{}", self.check_name(), request.verb);
            let user = Arc::clone(&checker.requestor);
            rights.check(&Attributes { verb, user, ..request.clone() }).await?;
        }
        let mut user = wanted.clone();
        checker.check_name(wanted, &mut user).await?;
        if !wanted.uid.is_empty() {
            rights.check(&checker.attributes_about("authentication.k8s.io", "uids", &wanted.uid)).await?;
        }
        checker.check_groups(&wanted.groups).await?;
        checker.check_extra(&wanted.extra).await?;
        let group = match user.name.as_str() {
            "system:anonymous" => Some(UserInfo::UNAUTHENTICATED),
            _ if user.in_group(UserInfo::UNAUTHENTICATED) => None,
            _ => Some(UserInfo::AUTHENTICATED),
        };
        if let Some(group) = group.filter(|g| !user.in_group(g)) {
            user.groups.push(group.to_string());
        }
        Ok(user)
    }

    /// The user whose rights are checked: for an associated node, without the details of the node.
    fn requestor(self, user: &Arc<UserInfo>) -> Arc<UserInfo> {
        let mut user = Arc::clone(user);
        if self == Mode::AssociatedNode {
            let user = Arc::make_mut(&mut user);
            let keys = std::mem::take(&mut user.extra).into_keys().collect();
            user.extra = BTreeMap::from([("authentication.kubernetes.io/associated-node-keys".into(), keys)]);
        }
        user
    }
}

/// Checks the rights to one user, part by part.
struct RightsChecker<'a> {
    mode: Mode,
    rights: Rights<'a>,
    requestor: Arc<UserInfo>,
}

impl RightsChecker<'_> {
    fn constrained(&self) -> bool {
        self.mode != Mode::Legacy
    }

    fn attributes_about(&self, group: &str, resource: &str, name: &str) -> Attributes {
        let verb = match self.mode {
            Mode::Legacy => "impersonate".to_string(),
            mode => format!("impersonate:{}", mode.check_name()),
        };
        Attributes {
            user: Arc::clone(&self.requestor),
            verb,
            resource_request: true,
            group: group.to_string(),
            version: "v1".to_string(),
            resource: resource.to_string(),
            name: if self.mode == Mode::AssociatedNode { "*".to_string() } else { name.to_string() },
            ..Attributes::default()
        }
    }

    fn names_group(&self) -> &'static str {
        if self.constrained() { "authentication.k8s.io" } else { "" }
    }

    async fn check_name(&self, wanted: &UserInfo, user: &mut UserInfo) -> Result<(), Status> {
        let group = self.names_group();
        let attributes = if let Some((namespace, name)) = service_account(&wanted.name) {
            if wanted.groups.is_empty() {
                user.groups =
                    vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
            }
            Attributes {
                namespace: namespace.to_string(),
                ..self.attributes_about(group, "serviceaccounts", name)
            }
        } else if let Some(node) = node_name(&wanted.name).filter(|_| self.constrained()) {
            user.groups = vec!["system:nodes".into()];
            self.attributes_about(group, "nodes", node)
        } else {
            self.attributes_about(group, "users", &wanted.name)
        };
        self.rights.check(&attributes).await
    }

    async fn check_groups(&self, groups: &[String]) -> Result<(), Status> {
        let attributes_of_group = |name: &str| self.attributes_about(self.names_group(), "groups", name);
        if self.constrained() {
            if groups.iter().any(String::is_empty) {
                return Err(forbidden(
                    &attributes_of_group(""),
                    "impersonating the empty string group is not allowed",
                ));
            }
            if groups.iter().any(|g| g == UserInfo::MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(forbidden(&attributes_of_group(UserInfo::MASTERS), why));
            }
            if groups.len() >= MANY_CHECKS && self.rights.check(&attributes_of_group("*")).await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            self.rights.check(&attributes_of_group(group)).await?;
        }
        Ok(())
    }

    async fn check_extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        let attributes_of_extra = |key: &str, value: &str| Attributes {
            subresource: key.to_string(),
            ..self.attributes_about("authentication.k8s.io", "userextras", value)
        };
        if self.constrained() {
            for (key, values) in extra {
                if key.is_empty() {
                    let why = "impersonating the empty string key in extra is not allowed";
                    return Err(forbidden(&attributes_of_extra("", ""), why));
                }
                if let Some(why) = extra_key_error(key) {
                    return Err(forbidden(&attributes_of_extra("", ""), &why));
                }
                if values.iter().any(String::is_empty) {
                    let why = "impersonating the empty string value in extra is not allowed";
                    return Err(forbidden(&attributes_of_extra("", ""), why));
                }
            }
            let count: usize = extra.values().map(Vec::len).sum();
            if count >= MANY_CHECKS && self.rights.check(&attributes_of_extra("*", "*")).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.rights.check(&attributes_of_extra(key, value)).await?;
            }
        }
        Ok(())
    }
}

/// The reason why the constrained modes refuse a key of extra.
fn extra_key_error(key: &str) -> Option<String> {
    let mut errors = pintle_meta::FieldErrors::default();
    let path = pintle_value::Path::of("extra");
    pintle_meta::names::domain_prefixed_path(&path.field("key"), key, &mut errors);
    if !errors.is_empty() {
        return Some(format!(
            "impersonating an invalid key in extra is not allowed: {}",
            errors.aggregate_message()
        ));
    }
    let is_lower = key.to_lowercase() == key;
    (!is_lower).then(|| format!("impersonating a non-lowercase key in extra is not allowed: {key:?}"))
}

/// Calls the authorizer and counts its decisions under the impersonation mode.
#[derive(Clone, Copy)]
struct Rights<'a> {
    authorizer: &'a dyn Authorizer,
    counted: Option<&'static str>,
}

impl Rights<'_> {
    async fn check(self, attributes: &Attributes) -> Result<(), Status> {
        let began = Instant::now();
        let decision = self.authorizer.authorize(attributes).await;
        let is_allowed = matches!(decision, Decision::Allow(_));
        if let Some(mode) = self.counted {
            let labels = [if is_allowed { "allowed" } else { "denied" }, mode];
            families::IMPERSONATION_CHECKS.inc(&labels);
            families::IMPERSONATION_CHECK_SECONDS.observe(&labels, began.elapsed().as_secs_f64());
        }
        // kube-apiserver's impersonation only checks the decision: a failed authorizer is a denial.
        if is_allowed { Ok(()) } else { Err(forbidden(attributes, decision.reason())) }
    }
}

/// Namespace and name in a service account's user name.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let valid = pintle_meta::names::dns_label(namespace, false).is_empty()
        && pintle_meta::names::dns_subdomain(name, false).is_empty();
    valid.then_some((namespace, name))
}

/// The node name in the user name of a node.
fn node_name(user: &str) -> Option<&str> {
    let name = user.strip_prefix("system:node:")?;
    pintle_meta::names::dns_subdomain(name, false).is_empty().then_some(name)
}

/// Percent-decodes a key; a malformed one stays unchanged.
pub(crate) fn unescaped(key: &str) -> String {
    pintle_value::percent::decode(key).unwrap_or_else(|_| key.to_string())
}

/// A user as Go's `%#v` prints it.
fn go_syntax(user: &UserInfo) -> String {
    let quoted = |text: &String| pintle_meta::field::quoted(text);
    let list = |items: &[String]| items.iter().map(quoted).collect::<Vec<_>>().join(", ");
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_string(),
        groups => format!("[]string{{{}}}", list(groups)),
    };
    let extra = match user.extra.len() {
        0 => "map[string][]string(nil)".to_string(),
        _ => {
            let entry = |(k, v): (&String, &Vec<String>)| format!("{}:[]string{{{}}}", quoted(k), list(v));
            format!("map[string][]string{{{}}}", user.extra.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
        quoted(&user.name),
        quoted(&user.uid)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::PrivilegedGroup;
    use crate::ready;

    async fn impersonated(requestor: &[&str], headers: &[(&str, &str)]) -> Result<UserInfo, String> {
        let wanted = wanted(headers.iter().map(|(name, value)| (*name, Cow::Borrowed(*value))))
            .map_err(|s| s.message)?
            .unwrap();
        let attributes = Attributes {
            user: UserInfo::new("root", requestor).into(),
            verb: "list".into(),
            resource_request: true,
            resource: "configmaps".into(),
            namespace: "x".into(),
            ..Attributes::default()
        };
        let authorizer = PrivilegedGroup(UserInfo::MASTERS);
        Impersonation::new(true)
            .impersonate(&authorizer, &wanted, &attributes)
            .await
            .map(|(user, _)| user)
            .map_err(|s| s.message)
    }

    #[test]
    fn masters_may_be_anybody() {
        let groups = |headers: &[(&str, &str)]| {
            ready(impersonated(&[UserInfo::MASTERS], headers)).map(|u| u.groups.join(" "))
        };
        let user = |name| ("impersonate-user", name);
        assert_eq!(groups(&[user("bob")]).unwrap(), "system:authenticated");
        assert_eq!(groups(&[user("bob"), ("impersonate-group", "g")]).unwrap(), "g system:authenticated");
        assert_eq!(groups(&[user("system:anonymous")]).unwrap(), "system:unauthenticated");
        assert_eq!(groups(&[user("system:node:n")]).unwrap(), "system:nodes system:authenticated");
        let account = groups(&[user("system:serviceaccount:x:a")]).unwrap();
        assert_eq!(account, "system:serviceaccounts system:serviceaccounts:x system:authenticated");
        let masters = groups(&[user("bob"), ("impersonate-group", UserInfo::MASTERS)]).unwrap();
        assert_eq!(masters, "system:masters system:authenticated");
    }

    #[test]
    fn attempts_and_checks_are_counted_by_mode() {
        ready(impersonated(&[UserInfo::MASTERS], &[("impersonate-user", "system:node:n")])).unwrap();
        ready(impersonated(&["dev"], &[("impersonate-user", "bob")])).unwrap_err();
        let text: String = pintle_metrics::Text::default().collect();
        for series in [
            "attempts_total{decision=\"allowed\",mode=\"arbitrary-node\"}",
            "attempts_total{decision=\"denied\",mode=\"\"}",
            "attempts_duration_seconds_count{decision=\"denied\",mode=\"\"}",
            "authorization_attempts_total{decision=\"allowed\",mode=\"arbitrary-node\"}",
            "authorization_attempts_total{decision=\"denied\",mode=\"user-info\"}",
            "authorization_attempts_total{decision=\"denied\",mode=\"legacy\"}",
        ] {
            assert!(text.contains(&format!("\napiserver_impersonation_{series} ")), "{series}");
        }
    }

    #[test]
    fn a_refusal_names_the_missing_permission() {
        let refused = |headers: &[(&str, &str)]| ready(impersonated(&["dev"], headers)).unwrap_err();
        assert_eq!(
            refused(&[("impersonate-user", "bob")]),
            "configmaps is forbidden: User \"root\" cannot impersonate-on:user-info:list resource \"configmaps\" in API group \"\" in the namespace \"x\""
        );
        assert_eq!(
            refused(&[("impersonate-user", "system:node:n1"), ("impersonate-uid", "u")]),
            "users \"system:node:n1\" is forbidden: User \"root\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
        );
        assert_eq!(
            refused(&[("impersonate-group", "g")]),
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, Extra:map[string][]string(nil)} without impersonating a user name"
        );
    }
}
