//! ServiceAccount: requires an existing service account for every pod and mounts its token.

use crate::{Attributes, ClusterState, Mutation, Operation, Plugin, Resources, Validation};
use pintle_meta::{GroupResource, Status, names, strconv};
use pintle_value::{Value, json};
use std::collections::HashSet;

const VOLUME_PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const MIRROR: &str = "kubernetes.io/config.mirror";
const ENFORCE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

pub(crate) struct ServiceAccount;

impl Plugin for ServiceAccount {
    fn resources(&self) -> Resources {
        &[("", "pods")]
    }

    fn mutate(&self, Mutation { request, object: pod, cluster }: Mutation<'_>) -> Result<(), Status> {
        if !request.is("", "pods")
            || !request.subresource.is_empty()
            || request.operation != Operation::Create
        {
            return Ok(());
        }
        if is_mirror(pod) {
            return check_mirror(request, pod);
        }
        if pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
            // Keep the deprecated field in step.
            pod.set_at(&["spec", "serviceAccountName"], "default".into());
            pod.set_at(&["spec", "serviceAccount"], "default".into());
        }
        let account = find_account(request, pod, cluster)?;
        if automounts(&account, pod) {
            mount_token(pod, cluster);
        }
        let pull = account.items_at(&["imagePullSecrets"]);
        if pod.items_at(&["spec", "imagePullSecrets"]).is_empty() && !pull.is_empty() {
            pod.set_at(&["spec", "imagePullSecrets"], Value::Array(pull.to_vec()));
        }
        check_secrets(request, pod, &account)
    }

    fn validate(&self, Validation { request, object, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| request.is("", "pods")) else { return Ok(()) };
        match (request.operation, request.subresource) {
            (Operation::Create, "") if is_mirror(pod) => check_mirror(request, pod),
            (Operation::Create, "") => check_secrets(request, pod, &find_account(request, pod, cluster)?),
            (Operation::Update, "ephemeralcontainers") => {
                let account = find_account(request, pod, cluster)?;
                if !enforces_mountable_secrets(&account) {
                    return Ok(());
                }
                let containers = pod.items_at(&["spec", "ephemeralContainers"]);
                match unreferenced(
                    containers,
                    "ephemeral container",
                    account.str_at(&["metadata", "name"]),
                    &names_in(&account, "secrets"),
                ) {
                    Some(why) => Err(Status::unclassified(&why)),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", MIRROR]).is_some()
}

fn find_account(request: &Attributes<'_>, pod: &Value, cluster: &dyn ClusterState) -> Result<Value, Status> {
    let name = pod.str_at(&["spec", "serviceAccountName"]);
    let namespace = request.namespace;
    if name.is_empty() {
        let pod_name = pod.str_at(&["metadata", "name"]);
        let why = format!("no service account specified for pod {namespace}/{pod_name}");
        return Err(request.forbidden(Some(pod), &why));
    }
    cluster.object("", "serviceaccounts", namespace, name).ok_or_else(|| {
        let missing = names::client_lookup_error(name)
            .unwrap_or_else(|| Status::not_found(&GroupResource::new("", "serviceaccount"), name).message);
        request
            .forbidden(Some(pod), &format!("error looking up service account {namespace}/{name}: {missing}"))
    })
}

/// The setting of the pod takes precedence over the account's.
fn automounts(account: &Value, pod: &Value) -> bool {
    let of_pod = pod.at(&["spec", "automountServiceAccountToken"]).and_then(Value::as_bool);
    of_pod.or_else(|| account.get("automountServiceAccountToken").and_then(Value::as_bool)).unwrap_or(true)
}

/// Mounts the token into every container that has nothing mounted at its path.
fn mount_token(pod: &mut Value, cluster: &dyn ClusterState) {
    let existing = pod
        .items_at(&["spec", "volumes"])
        .iter()
        .map(|volume| volume.str_at(&["name"]))
        .find(|name| name.starts_with(VOLUME_PREFIX))
        .map(str::to_string);
    let has_volume = existing.is_some();
    let name = existing
        .unwrap_or_else(|| pintle_meta::generated::name(VOLUME_PREFIX, &mut || cluster.random()).to_string());
    let mut mount = Value::object();
    mount.set_at(&["name"], name.as_str().into());
    mount.set_at(&["readOnly"], Value::Bool(true));
    mount.set_at(&["mountPath"], MOUNT_PATH.into());
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        let containers = pod.at_mut(&["spec", list]).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mounts = container.items_at(&["volumeMounts"]);
            if mounts.iter().any(|m| m.str_at(&["mountPath"]) == MOUNT_PATH) {
                continue;
            }
            let mut mounts = mounts.to_vec();
            mounts.push(mount.clone());
            container.set_at(&["volumeMounts"], Value::Array(mounts));
            needed = true;
        }
    }
    if needed && !has_volume {
        let mut volumes = pod.items_at(&["spec", "volumes"]).to_vec();
        volumes.push(token_volume(&name));
        pod.set_at(&["spec", "volumes"], Value::Array(volumes));
    }
}

fn token_volume(name: &str) -> Value {
    const SOURCE: &[u8] = br#"{"defaultMode":420,"sources":[
        {"serviceAccountToken":{"path":"token","expirationSeconds":3607}},
        {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},
        {"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}]}"#;
    let mut volume = Value::object();
    volume.set_at(&["name"], name.into());
    volume.set_at(&["projected"], json::parse(SOURCE).map(|parsed| parsed.value).unwrap_or_default());
    volume
}

/// Refuses a mirror pod that refers to API objects.
fn check_mirror(request: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    if !pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
        return Err(request.forbidden(Some(pod), "a mirror pod may not reference service accounts"));
    }
    if names_secrets(pod) {
        return Err(request.forbidden(Some(pod), "a mirror pod may not reference secrets"));
    }
    let volumes = pod.items_at(&["spec", "volumes"]).iter();
    let mut sources = volumes.flat_map(|volume| volume.items_at(&["projected", "sources"]));
    if sources.any(|source| source.get("serviceAccountToken").is_some()) {
        let why = "a mirror pod may not use ServiceAccountToken volume projections";
        return Err(request.forbidden(Some(pod), why));
    }
    Ok(())
}

/// Returns whether a field holds a name. A reference with an empty name refers to nothing.
pub(crate) fn names(holder: &Value, field: &[&str]) -> bool {
    !holder.str_at(field).is_empty()
}

/// Returns whether a pod refers to any secret.
pub(crate) fn names_secrets(pod: &Value) -> bool {
    let of_containers = ["containers", "initContainers", "ephemeralContainers"].iter().any(|list| {
        pod.items_at(&["spec", list]).iter().any(|container| {
            container.items_at(&["env"]).iter().any(|e| names(e, &["valueFrom", "secretKeyRef", "name"]))
                || container.items_at(&["envFrom"]).iter().any(|e| names(e, &["secretRef", "name"]))
        })
    });
    of_containers
        || pod.items_at(&["spec", "imagePullSecrets"]).iter().any(|secret| names(secret, &["name"]))
        || pod.items_at(&["spec", "volumes"]).iter().any(volume_names_secrets)
}

fn volume_names_secrets(volume: &Value) -> bool {
    const FIELDS: [&[&str]; 10] = [
        &["secret", "secretName"],
        &["azureFile", "secretName"],
        &["cephfs", "secretRef", "name"],
        &["cinder", "secretRef", "name"],
        &["flexVolume", "secretRef", "name"],
        &["rbd", "secretRef", "name"],
        &["scaleIO", "secretRef", "name"],
        &["iscsi", "secretRef", "name"],
        &["storageos", "secretRef", "name"],
        &["csi", "nodePublishSecretRef", "name"],
    ];
    FIELDS.iter().any(|field| names(volume, field))
        || volume.items_at(&["projected", "sources"]).iter().any(|source| names(source, &["secret", "name"]))
}

fn enforces_mountable_secrets(account: &Value) -> bool {
    let flag = account.str_at(&["metadata", "annotations", ENFORCE_SECRETS]);
    strconv::parse_bool(flag) == Some(true)
}

/// If the account enforces it, refuses references to secrets that the account does not list.
fn check_secrets(request: &Attributes<'_>, pod: &Value, account: &Value) -> Result<(), Status> {
    if !enforces_mountable_secrets(account) {
        return Ok(());
    }
    let name = account.str_at(&["metadata", "name"]);
    let (secrets, pull_secrets) = (names_in(account, "secrets"), names_in(account, "imagePullSecrets"));
    for volume in pod.items_at(&["spec", "volumes"]).iter().filter(|v| v.get("secret").is_some()) {
        let secret = volume.str_at(&["secret", "secretName"]);
        if !secrets.contains(secret) {
            let why = format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {name} \
                 does not reference that secret"
            );
            return Err(request.forbidden(Some(pod), &why));
        }
    }
    for (list, word) in [("initContainers", "init container"), ("containers", "container")] {
        if let Some(why) = unreferenced(pod.items_at(&["spec", list]), word, name, &secrets) {
            return Err(request.forbidden(Some(pod), &why));
        }
    }
    for (index, pull) in pod.items_at(&["spec", "imagePullSecrets"]).iter().enumerate() {
        let secret = pull.str_at(&["name"]);
        if !pull_secrets.contains(secret) {
            let why = format!(
                "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account {name} \
                 does not reference that imagePullSecret"
            );
            return Err(request.forbidden(Some(pod), &why));
        }
    }
    Ok(())
}

/// The names of the secrets in one of an account's lists. It can have ten thousands of them, and a pod can refer to as many.
fn names_in<'a>(account: &'a Value, list: &str) -> HashSet<&'a str> {
    account.items_at(&[list]).iter().map(|secret| secret.str_at(&["name"])).collect()
}

/// The first secret in the environment of containers that is not among the `secrets` of their account.
fn unreferenced(containers: &[Value], word: &str, account: &str, secrets: &HashSet<&str>) -> Option<String> {
    let because = format!("is not allowed because service account {account} does not reference that secret");
    for container in containers {
        let name = container.str_at(&["name"]);
        for env in container.items_at(&["env"]) {
            let Some(reference) = env.at(&["valueFrom", "secretKeyRef"]) else { continue };
            let secret = reference.str_at(&["name"]);
            if !secrets.contains(secret) {
                let variable = env.str_at(&["name"]);
                return Some(format!(
                    "{word} {name} with envVar {variable} referencing secret.secretName=\"{secret}\" {because}"
                ));
            }
        }
        for env in container.items_at(&["envFrom"]) {
            let Some(reference) = env.get("secretRef") else { continue };
            let secret = reference.str_at(&["name"]);
            if !secrets.contains(secret) {
                return Some(format!(
                    "{word} {name} with envFrom referencing secret.secretName=\"{secret}\" {because}"
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, admitted, kind, text};

    #[test]
    fn secrets_are_not_compared_one_by_one() {
        let pods = kind("", "pods");
        let time = |count: usize| {
            let list = |item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
            let account = format!(
                r#"{{"metadata":{{"name":"a","annotations":{{"{ENFORCE_SECRETS}":"true"}}}},"secrets":[{}]}}"#,
                list(&|n| format!(r#"{{"name":"s{n}"}}"#))
            );
            let pod = format!(
                r#"{{"spec":{{"serviceAccountName":"a","automountServiceAccountToken":false,"containers":[{{"name":"c","env":[{}]}}]}}}}"#,
                list(&|n| format!(r#"{{"name":"E","valueFrom":{{"secretKeyRef":{{"name":"s{n}"}}}}}}"#))
            );
            let cluster = Objects::of(&[("", "serviceaccounts", &account)]);
            let begin = std::time::Instant::now();
            admitted(&ServiceAccount, &pods, &pod, &cluster).unwrap();
            begin.elapsed()
        };
        // One by one it takes four hundred times as long. Other processes may disturb some of the measurements.
        assert!((0..5).any(|_| time(10_000) < time(500) * 100));
    }

    #[test]
    fn pods_get_an_account_and_its_token() {
        let pods = kind("", "pods");
        let cluster = Objects::of(&[
            (
                "",
                "serviceaccounts",
                r#"{"metadata":{"name":"default"},"imagePullSecrets":[{"name":"pull"}]}"#,
            ),
            (
                "",
                "serviceaccounts",
                r#"{"metadata":{"name":"strict","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}}}"#,
            ),
        ]);
        let plain = r#"{"spec":{"containers":[{"name":"c"}]}}"#;
        let (pod, _) = admitted(&ServiceAccount, &pods, plain, &cluster).unwrap();
        assert_eq!(pod.str_at(&["spec", "serviceAccountName"]), "default");
        assert_eq!(text(pod.at(&["spec", "imagePullSecrets"]).unwrap()), r#"[{"name":"pull"}]"#);
        let mounts = pod.items_at(&["spec", "containers"])[0].items_at(&["volumeMounts"]);
        let volume = &pod.items_at(&["spec", "volumes"])[0];
        assert_eq!(mounts[0].str_at(&["name"]), volume.str_at(&["name"]));
        assert_eq!(volume.items_at(&["projected", "sources"]).len(), 3);
        let off = r#"{"spec":{"automountServiceAccountToken":false,"containers":[{"name":"c"}]}}"#;
        assert!(
            admitted(&ServiceAccount, &pods, off, &cluster).unwrap().0.at(&["spec", "volumes"]).is_none()
        );
        for (pod, why) in [
            (
                r#"{"spec":{"serviceAccountName":"none","containers":[]}}"#,
                r#"error looking up service account n/none: serviceaccount "none" not found"#,
            ),
            (
                r#"{"spec":{"serviceAccountName":"a/b","containers":[]}}"#,
                r#"error looking up service account n/a/b: invalid resource name "a/b": [may not contain '/']"#,
            ),
            (
                r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"m"}},"spec":{"serviceAccountName":"default"}}"#,
                "a mirror pod may not reference service accounts",
            ),
            (
                r#"{"spec":{"serviceAccountName":"strict","volumes":[{"name":"v","secret":{"secretName":"s"}}]}}"#,
                r#"volume with secret.secretName="s" is not allowed because service account strict does not reference that secret"#,
            ),
        ] {
            let refusal = admitted(&ServiceAccount, &pods, pod, &cluster).unwrap_err();
            assert_eq!(refusal, format!("pods \"x\" is forbidden: {why}"));
        }
    }
}
