//! `limitedResources` in the configuration of ResourceQuota: resources that need a matching quota.

use super::Matched;
use super::counted::Counted;
use crate::Attributes;
use crate::config::{PluginConfig, Scheme};
use crate::resources::ResourceList;
use pintle_meta::go_type::{GoStruct, GoType};
use pintle_meta::{FieldErrors, Status};
use pintle_value::{Path, Value};
use std::collections::BTreeSet;

const TEXTS: GoType = GoType::Texts("string");
const SCOPE: GoStruct = GoStruct(
    "v1.ScopedResourceSelectorRequirement",
    &[
        ("scopeName", GoType::Text("v1.ResourceQuotaScope")),
        ("operator", GoType::Text("v1.ScopeSelectorOperator")),
        ("values", TEXTS),
    ],
);
const LIMITED: GoStruct = GoStruct(
    "LimitedResource",
    &[
        ("apiGroup", GoType::Text("string")),
        ("resource", GoType::Text("string")),
        ("matchContains", TEXTS),
        ("matchScopes", GoType::Structs(&SCOPE)),
    ],
);
const CONFIGURATION: GoStruct = GoStruct("Configuration", &[("limitedResources", GoType::Structs(&LIMITED))]);
const SCHEME: Scheme = Scheme {
    kinds: &[
        ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration", &CONFIGURATION),
        ("resourcequota.admission.k8s.io/v1beta1", "Configuration", &CONFIGURATION),
        ("resourcequota.admission.k8s.io/v1alpha1", "Configuration", &CONFIGURATION),
    ],
    strict: true,
    place: "k8s.io/apiserver/pkg/admission/plugin/resourcequota/config.go:31",
};

/// A resource that needs a quota.
#[derive(Clone, Debug)]
pub struct LimitedResource {
    group: String,
    resource: String,
    /// Substrings of the limited resource names.
    contains: Vec<String>,
    /// The limited scopes, as scope selectors of quotas.
    scopes: Vec<Value>,
}

impl LimitedResource {
    /// Reads the configuration.
    pub(crate) fn all(config: Option<&PluginConfig>) -> Result<Vec<Self>, String> {
        let Some(config) = config else { return Ok(Vec::new()) };
        let (_, tree) = config.decode(&SCHEME).map_err(|error| error.text())?;
        let limited = tree.items_at(&["limitedResources"]);
        let mut errors = FieldErrors::new();
        let root = Path::of("limitedResources");
        for (index, one) in limited.iter().enumerate() {
            if one.str_at(&["resource"]).is_empty() {
                errors.required(&root.index(index).field("resource"), "");
            }
        }
        if !errors.is_empty() {
            return Err(errors.aggregate_message());
        }
        let read = |one: &Value| LimitedResource {
            group: one.str_at(&["apiGroup"]).to_string(),
            resource: one.str_at(&["resource"]).to_string(),
            contains: one
                .items_at(&["matchContains"])
                .iter()
                .filter_map(|text| text.as_str().map(str::to_string))
                .collect(),
            scopes: one.items_at(&["matchScopes"]).to_vec(),
        };
        Ok(limited.iter().map(read).collect())
    }
}

/// Denies a write that uses a limited resource which no quota covers.
pub(super) fn check_covered(
    request: &Attributes<'_>,
    kind: &Counted,
    object: &Value,
    (limited, quotas): (&[LimitedResource], &[Value]),
    usage: &ResourceList,
    matched: &[Matched<'_>],
) -> Result<(), Status> {
    let of_kind =
        |one: &&LimitedResource| one.group == request.kind.group && one.resource == request.kind.plural;
    let is_limited = |name: &str| {
        let mut own = limited.iter().filter(of_kind);
        own.any(|one| one.contains.iter().any(|part| name.contains(part.as_str())))
    };
    let used = usage.iter().filter(|(name, amount)| amount.sign() > 0 && is_limited(name));
    let covered: BTreeSet<&str> =
        matched.iter().flat_map(|one| one.tracked.iter().map(String::as_str)).collect();
    let missing: Vec<&str> =
        used.map(|(name, _)| name.as_str()).filter(|name| !covered.contains(name)).collect();
    if !missing.is_empty() {
        let why = format!("insufficient quota to consume: {}", missing.join(","));
        return Err(request.forbidden(Some(object), &why));
    }
    // kube-apiserver checks the scopes of all entries, whatever their resource.
    let takes = |scope: &&Value| kind.in_scope(scope.str_at(&["scopeName"]), Some(scope), object);
    let wanted = limited.iter().flat_map(|one| &one.scopes).filter(takes);
    let is_covered = |scope: &str| {
        quotas.iter().any(|quota| {
            let plain = quota.items_at(&["spec", "scopes"]).iter().filter_map(Value::as_str);
            let selected = quota.items_at(&["spec", "scopeSelector", "matchExpressions"]).iter();
            plain.into_iter().any(|own| own == scope && kind.in_scope(own, None, object))
                || selected.into_iter().any(|term| term.str_at(&["scopeName"]) == scope && takes(&term))
        })
    };
    let missing: Vec<String> =
        wanted.filter(|scope| !is_covered(scope.str_at(&["scopeName"]))).map(go_text).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Status::unclassified(format!(
            "insufficient quota to match these scopes: [{}]",
            missing.join(" ")
        )))
    }
}

/// A scope as Go prints its struct.
fn go_text(scope: &Value) -> String {
    let values: Vec<&str> = scope.items_at(&["values"]).iter().filter_map(Value::as_str).collect();
    let (name, operator) = (scope.str_at(&["scopeName"]), scope.str_at(&["operator"]));
    format!("{{{name} {operator} [{}]}}", values.join(" "))
}
