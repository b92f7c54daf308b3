//! `serviceaccounts/token`: signed tokens, and the objects that tokens name.

use super::Access;
use crate::{Target, Writer, environment};
use pintle_auth::authn::service_account::{
    BoundKind, BoundObject, BoundObjects, LAST_USED, ObjectRef, TokenSpec,
};
use pintle_meta::field::quoted;
use pintle_meta::{FieldErrors, GroupKind, GroupResource, GroupVersion, Status, Timestamp};
use pintle_value::{Path, Value};
use std::sync::Arc;

const SECONDS_DEFAULT: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;
/// The lifetime that pods request by default. Their tokens live longer than that, and their use after this lifetime
/// only logs a warning.
const SECONDS_WARN_ONLY: i64 = 3607;
/// The longest extended lifetime of tokens of pods.
pub const SECONDS_EXTENDED: i64 = 365 * 24 * 3600;

/// Applies the defaults of a TokenRequest.
pub(super) fn default(request: &mut Value) {
    if request.at(&["spec", "expirationSeconds"]).is_none_or(Value::is_null) {
        request.set_at(&["spec", "expirationSeconds"], Value::Int(SECONDS_DEFAULT));
    }
}

fn kind() -> GroupKind {
    GroupKind::new("authentication.k8s.io", "TokenRequest")
}

impl Writer {
    /// Returns the service account that a token is requested for, after completing and validating the request.
    pub(super) fn token_account(
        &self,
        target: &Target,
        request: &mut Value,
        access: &Access,
    ) -> Result<Value, Status> {
        let account = Target { subresource: Default::default(), ..target.clone() };
        let named = request.str_at(&["metadata", "name"]);
        if !named.is_empty() && named != target.name {
            let mut errors = FieldErrors::new();
            let why = "must match the service account name if specified";
            errors.invalid(&Path::of("metadata.name"), named, why);
            return Err(Status::invalid(&kind(), &target.name, &errors));
        }
        let Some(tree) = self.reader.object_tree(&account)? else {
            return Err(Status::not_found(&account.kind.group_resource(), &account.name));
        };
        let uid = tree.str_at(&["metadata", "uid"]);
        let wanted = request.str_at(&["metadata", "uid"]);
        if !wanted.is_empty() && wanted != uid {
            let why = format!(
                "the UID in the token request ({wanted}) does not match the UID of the service account ({uid})"
            );
            let resource = GroupResource::new("authentication.k8s.io", "TokenRequest");
            return Err(Status::conflict(&resource, &target.name, &why));
        }
        if request.items_at(&["spec", "audiences"]).is_empty() {
            let own = access.authenticator.service_accounts.as_ref().map(|t| t.audiences.as_slice());
            let own = own.unwrap_or_default().iter().map(|a| Value::from(a.as_str())).collect();
            request.set_at(&["spec", "audiences"], Value::Array(own));
        }
        request.set_at(&["metadata", "name"], target.name.as_str().into());
        request.set_at(&["metadata", "uid"], uid.into());
        request.set_at(&["metadata", "creationTimestamp"], self.storage.now_text().into());
        request.remove_at(&["status"]);
        check_seconds(request)?;
        Ok(tree)
    }

    /// Makes the token.
    pub(super) async fn issue_token(
        &self,
        target: &Target,
        account: &Value,
        mut request: Value,
        access: &Access,
        warnings: &mut Vec<String>,
    ) -> Result<Value, Status> {
        let mut seconds =
            request.at(&["spec", "expirationSeconds"]).and_then(Value::as_int).unwrap_or(SECONDS_DEFAULT);
        let audiences: Vec<String> = request
            .items_at(&["spec", "audiences"])
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_string)
            .collect();
        let mut spec = TokenSpec {
            namespace: target.namespace.to_string(),
            account: reference_to(account),
            audiences,
            seconds,
            id: environment::new_uid(&*self.storage.random).to_string(),
            ..TokenSpec::default()
        };
        if let Some(bound) = request.at(&["spec", "boundObjectRef"]).filter(|r| !r.is_null()) {
            self.bind_token(target, bound, &mut spec)?;
        }
        let longest = access.token_seconds_max;
        if longest > 0 && seconds > longest {
            warnings
                .push(format!("requested expiration of {seconds} seconds shortened to {longest} seconds"));
            seconds = longest;
            spec.seconds = longest;
            request.set_at(&["spec", "expirationSeconds"], Value::Int(longest));
        }
        let tokens = access.authenticator.service_accounts.as_ref();
        let tokens =
            tokens.ok_or_else(|| Status::internal("failed to generate token: there is no issuer"))?;
        let ours = spec.audiences.iter().all(|a| tokens.audiences.contains(a));
        if access.extend_tokens && spec.pod.is_some() && seconds == SECONDS_WARN_ONLY && ours {
            spec.warn_after_seconds = seconds;
            spec.seconds = access.extended_token_seconds;
        }
        let token = tokens
            .issue(&spec, self.system_time())
            .await
            .map_err(|error| Status::internal(&format!("failed to generate token: {error}")))?;
        pintle_audit::annotate("authentication.kubernetes.io/issued-credential-id", || {
            format!("JTI={}", spec.id)
        });
        let (now, _) = self.storage.clock.now();
        request.set_at(&["status", "token"], token.into());
        let end = Timestamp { seconds: now.saturating_add(seconds), nanos: 0 };
        request.set_at(&["status", "expirationTimestamp"], end.to_value());
        Ok(request)
    }

    /// Looks up the object that a token is bound to.
    fn bind_token(&self, target: &Target, bound: &Value, spec: &mut TokenSpec) -> Result<(), Status> {
        let version = GroupVersion::parse(bound.str_at(&["apiVersion"])).unwrap_or_default();
        let (kind, name) = (bound.str_at(&["kind"]), bound.str_at(&["name"]));
        let get = |plural: &str, namespace: &str| {
            let found = self.storage.target("", "v1", plural, namespace, name);
            let tree = found.map_or(Ok(None), |target| self.reader.object_tree(&target))?;
            tree.ok_or_else(|| Status::not_found(&GroupResource::new("", plural), name))
        };
        let object = match (version.group.as_str(), kind) {
            ("", "Pod") => {
                let pod = get("pods", &target.namespace)?;
                if pod.str_at(&["spec", "serviceAccountName"]) != target.name {
                    return Err(Status::bad_request(format!(
                        "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                        quoted(&target.name)
                    )));
                }
                spec.pod = Some(reference_to(&pod));
                spec.node = self.node_of(&pod);
                pod
            }
            ("", "Node") => {
                let node = get("nodes", "")?;
                spec.node = Some(reference_to(&node));
                node
            }
            ("", "Secret") => {
                let secret = get("secrets", &target.namespace)?;
                spec.secret = Some(reference_to(&secret));
                secret
            }
            (group, kind) => {
                let gvk = format!("{group}/{}, Kind={kind}", version.version);
                return Err(Status::bad_request(format!("cannot bind token to object of type {gvk}")));
            }
        };
        let wanted = bound.str_at(&["uid"]);
        if !wanted.is_empty() && wanted != object.str_at(&["metadata", "uid"]) {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            );
            return Err(Status::conflict(&GroupResource::new("", kind), name, &why));
        }
        Ok(())
    }

    /// A reference to the node of a pod; without uid if the node does not exist.
    fn node_of(&self, pod: &Value) -> Option<ObjectRef> {
        let name = pod.str_at(&["spec", "nodeName"]);
        if name.is_empty() {
            return None;
        }
        let node = self
            .storage
            .target("", "v1", "nodes", "", name)
            .and_then(|t| self.reader.object_tree(&t).ok().flatten());
        Some(
            node.map_or(ObjectRef { name: name.to_string(), uid: String::new() }, |node| reference_to(&node)),
        )
    }
}

fn check_seconds(request: &Value) -> Result<(), Status> {
    let seconds = request.at(&["spec", "expirationSeconds"]).and_then(Value::as_int).unwrap_or(0);
    let path = Path::of("spec.expirationSeconds");
    let mut errors = FieldErrors::new();
    if seconds < SECONDS_MIN {
        errors.invalid(&path, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > SECONDS_MAX {
        errors.invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&kind(), "", &errors)) }
}

fn reference_to(object: &Value) -> ObjectRef {
    ObjectRef {
        name: object.str_at(&["metadata", "name"]).to_string(),
        uid: object.str_at(&["metadata", "uid"]).to_string(),
    }
}

/// Looks up the objects that tokens reference.
pub struct TokenObjects(pub Arc<Writer>);

impl TokenObjects {
    fn object_tree(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let target = self.0.storage.target("", "v1", plural, namespace, name)?;
        self.0.reader.object_tree(&target).ok().flatten()
    }
}

impl BoundObjects for TokenObjects {
    fn get(&self, kind: BoundKind, namespace: &str, name: &str) -> Option<BoundObject> {
        let plural = match kind {
            BoundKind::ServiceAccount => "serviceaccounts",
            BoundKind::Pod => "pods",
            BoundKind::Secret => "secrets",
            BoundKind::Node => "nodes",
        };
        let target = self.0.storage.target("", "v1", plural, namespace, name)?;
        let object = self.0.storage.cached(&target.kind, &target.object_key())?;
        // Each request with a token comes here. Parsing a pod takes longer than the rest of a read.
        if memchr::memmem::find(object.json(), b"\"deletionTimestamp\"").is_none()
            && object.unreadable().is_none()
        {
            return Some(BoundObject { uid: object.uid().to_string(), deleted_at: None });
        }
        let tree = self.0.reader.object_tree(&target).ok().flatten()?;
        let deleted = Timestamp::parse(tree.str_at(&["metadata", "deletionTimestamp"])).ok();
        Some(BoundObject {
            uid: tree.str_at(&["metadata", "uid"]).to_string(),
            deleted_at: deleted.map(|time| time.seconds),
        })
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<Value> {
        self.object_tree("secrets", namespace, name)
    }

    fn account_names_secret(&self, namespace: &str, account: &str, secret: &str) -> bool {
        let account = self.object_tree("serviceaccounts", namespace, account);
        account.is_some_and(|a| a.items_at(&["secrets"]).iter().any(|s| s.str_at(&["name"]) == secret))
    }

    fn record_use(&self, namespace: &str, secret: &str, uid: &str, day: &str) {
        let Some(target) = self.0.storage.target("", "v1", "secrets", namespace, secret) else { return };
        let (writer, uid, day) = (self.0.clone(), uid.to_string(), day.to_string());
        // This task ends after its one write.
        tokio::spawn(async move {
            let label = |secret: &mut Value| {
                if secret.str_at(&["metadata", "uid"]) == uid {
                    secret.set_at(&["metadata", "labels", LAST_USED], day.as_str().into());
                }
            };
            if let Err(status) = writer.mutate(&target, Some("kube-apiserver"), label).await {
                tracing::warn!("cannot label a secret with the last use of its token: {}", status.message);
            }
        });
    }
}
