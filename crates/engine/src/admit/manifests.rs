//! Webhooks and policies from manifest files (`staticManifestsDir`): decoding, validation, and the set in force.

use super::Admission;
use crate::{Target, propose, validation};
use arc_swap::ArcSwapOption;
use pintle_admission::manifest::{ManifestFolder, ManifestNames, STATIC_SUFFIX};
use pintle_admission::policy::GROUP;
use pintle_meta::GroupVersion;
use pintle_meta::field::quoted;
use pintle_meta::go_type::unregistered_kind;
use pintle_schema::typed::{Empties, Strict};
use pintle_value::{Value, json, yaml};
use std::sync::Arc;

/// How deep lists may contain lists.
const LIST_DEPTH_MAX: usize = 8;
/// The versions of the group that kube-apiserver's loaders can decode, though they accept only the first.
const KNOWN_VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// The manifests of one plugin in force; empty if the plugin has no folder.
#[derive(Default)]
pub(super) struct Manifests(ArcSwapOption<ManifestSet>);

/// The objects of a folder, completed with defaults and validated, in the order of their names.
#[derive(Default)]
pub(super) struct ManifestSet {
    /// Distinguishes the sets that were in force one after the other.
    pub(super) generation: u64,
    /// Policies or webhook configurations.
    pub(super) objects: Vec<Value>,
    /// The bindings of policies.
    pub(super) bindings: Vec<Value>,
}

impl Manifests {
    pub(super) fn current(&self) -> Option<Arc<ManifestSet>> {
        self.0.load_full()
    }

    fn replace(&self, set: ManifestSet) {
        let generation = self.current().map_or(0, |before| before.generation).saturating_add(1);
        self.0.store(Some(Arc::new(ManifestSet { generation, ..set })));
    }
}

/// The kinds that a plugin loads: its main kind, and for policies their binding.
struct Loaded<'a> {
    kinds: &'a [&'a str],
    /// The name of kube-apiserver's scheme, which its errors contain.
    scheme: &'a str,
}

const POLICY_SCHEME: &str = "pkg/admission/plugin/policy/manifest/loader/validating_loader.go:35";
const WEBHOOK_SCHEME: &str = "pkg/admission/plugin/webhook/manifest/loader/loader.go:41";

impl Admission {
    /// Loads the manifests of a plugin and puts them in force. If one of them cannot be used, nothing changes.
    pub(crate) fn load_manifests(&self, plugin: &str, folder: &ManifestFolder) -> Result<(), String> {
        let (what, kinds, scheme): (_, &[&str], _) = match plugin {
            "ValidatingAdmissionPolicy" => (
                &self.policy_slots.validating_manifests,
                &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
                POLICY_SCHEME,
            ),
            "MutatingAdmissionPolicy" => (
                &self.policy_slots.mutating_manifests,
                &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
                POLICY_SCHEME,
            ),
            "ValidatingAdmissionWebhook" => {
                (&self.hooks.validating.manifests, &["ValidatingWebhookConfiguration"], WEBHOOK_SCHEME)
            }
            "MutatingAdmissionWebhook" => {
                (&self.hooks.mutating.manifests, &["MutatingWebhookConfiguration"], WEBHOOK_SCHEME)
            }
            _ => return Err(format!("{plugin} has no manifests")),
        };
        what.replace(self.read_manifests(&Loaded { kinds, scheme }, folder)?);
        Ok(())
    }

    fn read_manifests(&self, loaded: &Loaded<'_>, folder: &ManifestFolder) -> Result<ManifestSet, String> {
        let mut set = ManifestSet::default();
        let mut names = [ManifestNames::default(), ManifestNames::default()];
        for (file, document) in &folder.documents {
            let failed = |why: String| format!("error loading {file}: {why}");
            let (tree, strict_error) = parse(document).map_err(failed)?;
            for (kind, object) in self.accept(loaded, tree, strict_error, document, 0).map_err(failed)? {
                let name = object.str_at(&["metadata", "name"]);
                let is_binding = kind.ends_with("Binding");
                let [main, bindings] = &mut names;
                let seen = if is_binding { bindings } else { main };
                seen.add(name, file).and_then(|()| check_constraints(kind, &object, file)).map_err(failed)?;
                if is_binding { set.bindings.push(object) } else { set.objects.push(object) }
            }
        }
        let name = |object: &Value| object.str_at(&["metadata", "name"]).to_string();
        for binding in &set.bindings {
            let policy = binding.str_at(&["spec", "policyName"]);
            if !set.objects.iter().any(|object| name(object) == policy) {
                let (binding, policy) = (quoted(&name(binding)), quoted(policy));
                return Err(format!(
                    "binding {binding} references policy {policy} which does not exist in the manifest directory"
                ));
            }
        }
        set.objects.sort_by_key(name);
        set.bindings.sort_by_key(name);
        Ok(set)
    }

    /// Decodes a document: one object, a list of its kind, or a `List` of any of the plugin's kinds.
    fn accept<'k>(
        &self,
        loaded: &Loaded<'k>,
        tree: Value,
        strict_error: Option<String>,
        text: &[u8],
        depth: usize,
    ) -> Result<Vec<(&'k str, Value)>, String> {
        let (version, kind) = (tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
        for (name, given) in [("Kind", kind), ("apiVersion", version)] {
            if given.is_empty() {
                let text = String::from_utf8_lossy(text);
                return Err(format!("Object '{name}' is missing in '{text}'"));
            }
        }
        // In kube-apiserver's schemes a List is known in every version.
        if kind == "List" && depth < LIST_DEPTH_MAX {
            let mut all = Vec::new();
            for item in tree.items_at(&["items"]) {
                let text = json::bytes(item);
                let found = self.accept(loaded, item.clone(), None, &text, depth.saturating_add(1));
                // Errors of nested objects are only prefixed if the item cannot be decoded.
                all.extend(found.map_err(|why| {
                    if is_decoding_error(&why) { format!("failed to decode list item: {why}") } else { why }
                })?);
            }
            return Ok(all);
        }
        let group_version = GroupVersion::parse(version).unwrap_or_default();
        let single = kind.strip_suffix("List").unwrap_or(kind);
        let is_known = group_version.group == GROUP
            && KNOWN_VERSIONS.contains(&group_version.version.as_str())
            && self.storage.registry.kinds().all().any(|known| known.group == GROUP && known.kind == single);
        if !is_known {
            return Err(unregistered_kind(kind, version, loaded.scheme));
        }
        let wanted = loaded.kinds.iter().find(|wanted| **wanted == single);
        let Some(wanted) = wanted.filter(|_| group_version.version == "v1") else {
            return Err(format!("unsupported resource type *{}.{kind}", group_version.version));
        };
        let items: Vec<Value> = if single == kind { vec![tree] } else { tree.items_at(&["items"]).to_vec() };
        let mut objects = Vec::with_capacity(items.len());
        for item in items {
            objects.push((*wanted, self.decode_manifest(wanted, item, strict_error.as_deref())?));
        }
        Ok(objects)
    }

    /// Decodes an object strictly, applies its defaults and validates it as if it were created.
    fn decode_manifest(&self, kind: &str, tree: Value, strict_error: Option<&str>) -> Result<Value, String> {
        let kinds = self.storage.registry.kinds();
        let version = GroupVersion { group: GROUP.into(), version: "v1".into() };
        let Some((found, at)) = kinds.by_kind(&version, kind) else {
            return Err(format!("{kind} is not served"));
        };
        let target = Target {
            kind: found.clone(),
            version: at,
            namespace: Default::default(),
            name: tree.str_at(&["metadata", "name"]).into(),
            subresource: Default::default(),
        };
        let mut strict = Strict::default();
        let decoded = pintle_schema::decode(&target.kind_version().schema, tree, &mut strict);
        let mut object = decoded.map_err(|error| error.message().to_string())?;
        let complaints: Vec<String> =
            strict_error.map(str::to_string).into_iter().chain(strict.texts()).collect();
        if !complaints.is_empty() {
            return Err(format!("{STRICT_ERROR}: {}", complaints.join(", ")));
        }
        for (key, text) in [("apiVersion", "admissionregistration.k8s.io/v1"), ("kind", kind)] {
            object.set_at(&[key], text.into());
        }
        propose::complete(&target, &mut object, Empties::PreserveSerialized);
        let errors = validation::errors_of_new(&target, &object, &|| None);
        if errors.is_empty() {
            Ok(object)
        } else {
            Err(format!("{kind} {}: {}", quoted(&target.name), errors.aggregate_message()))
        }
    }
}

const STRICT_ERROR: &str = "strict decoding error";

fn is_decoding_error(why: &str) -> bool {
    ["no kind ", "Object '", STRICT_ERROR].iter().any(|start| why.starts_with(start))
}

/// Parses a document and returns the complaints of strict parsing.
fn parse(document: &[u8]) -> Result<(Value, Option<String>), String> {
    let unread = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    if document.starts_with(b"{") {
        let parsed = json::parse(document).map_err(|error| unread(error.to_string()))?;
        let repeated = parsed.duplicates.iter().map(|path| format!("duplicate field {}", quoted(path)));
        let repeated = repeated.collect::<Vec<_>>().join(", ");
        return Ok((parsed.value, Some(repeated).filter(|text| !text.is_empty())));
    }
    let parsed = yaml::parse(document).map_err(|error| unread(error.message().to_string()))?;
    Ok((parsed.value, parsed.strict_error.map(|error| error.to_string())))
}

/// Refuses what manifests may not contain: parameters, services, and policies that do not come from manifests.
fn check_constraints(kind: &str, object: &Value, file: &str) -> Result<(), String> {
    let name = quoted(object.str_at(&["metadata", "name"]));
    let has = |field: &str| object.at(&["spec", field]).is_some_and(|value| !value.is_null());
    if kind.ends_with("WebhookConfiguration") {
        return check_addresses(object, &name, file);
    }
    if !kind.ends_with("Binding") {
        return if has("paramKind") {
            Err(format!("{kind} {name}: spec.paramKind is not supported for static manifests"))
        } else {
            Ok(())
        };
    }
    let policy = object.str_at(&["spec", "policyName"]);
    if !policy.ends_with(STATIC_SUFFIX) {
        let (policy, suffix) = (quoted(policy), quoted(STATIC_SUFFIX));
        return Err(format!("binding {name}: spec.policyName {policy} must end with {suffix}"));
    }
    if has("paramRef") {
        Err(format!("binding {name}: spec.paramRef is not supported for static manifests"))
    } else {
        Ok(())
    }
}

fn check_addresses(configuration: &Value, name: &str, file: &str) -> Result<(), String> {
    for webhook in configuration.items_at(&["webhooks"]) {
        let place =
            format!("webhook {} in {name} (file {})", quoted(webhook.str_at(&["name"])), quoted(file));
        if webhook.at(&["clientConfig", "service"]).is_some_and(|service| !service.is_null()) {
            let instead = "use clientConfig.url instead";
            return Err(format!(
                "{place}: clientConfig.service is not supported for static manifests; {instead}"
            ));
        }
        if webhook.str_at(&["clientConfig", "url"]).is_empty() {
            return Err(format!("{place}: clientConfig.url is required for static manifests"));
        }
    }
    Ok(())
}
