//! Validates the status of a pod.

use super::update;
use crate::core::podspec::aggregate::is_native;
use crate::error_text::InternalList;
use crate::fields::{entries, int, list, member, opt_text, quantity, text};
use crate::{check, facts, workload};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, names, net};
use pintle_value::{Path, Value};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

const STATUS: Path<'static> = Path::of("status");
/// The longest allowed message about the health of a device.
const HEALTH_MESSAGE_BYTES_MAX: usize = 1024;

/// Validates an update of a pod's status.
pub(super) fn validate(pod: &Value, old: &Value, errors: &mut FieldErrors) {
    update::validate_annotations_update(pod, old, &update::options(old), errors);
    let (status, before) = (workload::status(pod), workload::status(old));
    validate_conditions(status, errors);
    validate_nominated_node(pod, old, errors);
    if int(status, "observedGeneration") < 0 {
        let field = STATUS.field("observedGeneration");
        errors.invalid(&field, int(status, "observedGeneration"), "must be a non-negative integer");
    }
    if text(status, "qosClass") != text(before, "qosClass") {
        errors.invalid(&STATUS.field("qosClass"), Named(text(status, "qosClass")), check::IMMUTABLE);
    }
    validate_transitions(pod, old, errors);
    validate_claim_statuses(pod, errors);
    validate_extended_claim(pod, errors);
    validate_allocatable_claims(pod, errors);
    validate_addresses("podIPs", status, before, errors);
    let hosts = list(status, "hostIPs");
    if let Some(first) = hosts.first().filter(|first| text(first, "ip") != text(status, "hostIP")) {
        let path = STATUS.field("hostIPs");
        errors.invalid(&path.index(0).field("ip"), text(first, "ip"), "must be equal to `hostIP`");
    }
    validate_addresses("hostIPs", status, before, errors);
    for key in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        validate_users(list(status, key), pod.str_at(&["spec", "os", "name"]), &STATUS.field(key), errors);
    }
    for (key, containers_key) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        let containers = pod.items_at(&["spec", containers_key]);
        validate_allocated_resources(list(status, key), containers, &STATUS.field(key), errors);
    }
    for (at, container) in list(status, "ephemeralContainerStatuses").iter().enumerate() {
        if !list(container, "allocatedResourcesStatus").is_empty() {
            let path = STATUS.field("ephemeralContainerStatuses");
            let detail = "must not be specified in container status";
            errors.forbidden(&path.index(at).field("allocatedResourcesStatus"), detail);
        }
    }
}

fn validate_conditions(status: &Value, errors: &mut FieldErrors) {
    let path = STATUS.field("conditions");
    for (at, condition) in list(status, "conditions").iter().enumerate() {
        let generation = int(condition, "observedGeneration");
        if generation < 0 {
            let field = path.index(at);
            errors.invalid(&field.field("observedGeneration"), generation, "must be a non-negative integer");
        }
        let kind = text(condition, "type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            check::qualified_name(&path.index(at).field("Type"), kind, errors);
        }
    }
}

fn validate_nominated_node(pod: &Value, old: &Value, errors: &mut FieldErrors) {
    let at = ["status", "nominatedNodeName"];
    let name = pod.str_at(&at);
    if name.is_empty() || name == old.str_at(&at) {
        return;
    }
    let path = STATUS.field("nominatedNodeName");
    check::each(names::dns_subdomain(name, false), &path, name, errors);
    if !old.str_at(&["spec", "nodeName"]).is_empty() {
        errors.forbidden(&path, "may not be set on pods that are already bound to a node");
    }
}

/// A terminated container that is not restarted cannot run again.
fn validate_transitions(pod: &Value, old: &Value, errors: &mut FieldErrors) {
    let spec = workload::spec_of(old);
    let restarts_all =
        |c: &Value| list(c, "restartPolicyRules").iter().any(|r| text(r, "action") == "RestartAllContainers");
    let any = ["initContainers", "containers"].iter().any(|key| list(spec, key).iter().any(restarts_all));
    let lists = [
        ("containerStatuses", Some("containers")),
        ("initContainerStatuses", Some("initContainers")),
        ("ephemeralContainerStatuses", None),
    ];
    for (key, containers) in lists {
        if any && containers.is_some() {
            continue;
        }
        let new = pod.items_at(&["status", key]).iter();
        let running: HashSet<&str> =
            new.filter(|s| s.at(&["state", "terminated"]).is_none()).map(|s| text(s, "name")).collect();
        let containers = containers.map(|field| first_by_name(list(spec, field)));
        for (at, before) in old.items_at(&["status", key]).iter().enumerate() {
            let Some(ended) = before.at(&["state", "terminated"]) else { continue };
            let name = text(before, "name");
            let container = containers.as_ref().and_then(|known| known.get(name));
            let restarts = container.is_some_and(|c| should_restart(c, spec, int(ended, "exitCode")));
            if !restarts && running.contains(name) {
                let path = STATUS.field(key);
                errors.forbidden(
                    &path.index(at).field("state"),
                    "may not be transitioned to non-terminated state",
                );
            }
        }
    }
}

/// The items of a list by name; the first of each name.
fn first_by_name<'a>(items: impl IntoIterator<Item = &'a Value>) -> HashMap<&'a str, &'a Value> {
    let mut out = HashMap::new();
    for item in items {
        out.entry(text(item, "name")).or_insert(item);
    }
    out
}

fn should_restart(container: &Value, spec: &Value, exit_code: i64) -> bool {
    let by_policy = |policy: &str| match policy {
        "Always" => Some(true),
        "OnFailure" => Some(exit_code != 0),
        "Never" => Some(false),
        _ => None,
    };
    if let Some(policy) = opt_text(container, "restartPolicy") {
        let matched = |rule: &&Value| {
            let Some(codes) = member(rule, "exitCodes") else { return false };
            let listed = list(codes, "values").iter().any(|v| v.as_int() == Some(exit_code));
            matches!((text(codes, "operator"), listed), ("In", true) | ("NotIn", false))
        };
        let rule = list(container, "restartPolicyRules").iter().find(matched);
        if rule.is_some_and(|r| matches!(text(r, "action"), "Restart" | "RestartAllContainers")) {
            return true;
        }
        if let Some(restarts) = by_policy(policy) {
            return restarts;
        }
    }
    by_policy(text(spec, "restartPolicy")).unwrap_or(true)
}

fn validate_claim_statuses(pod: &Value, errors: &mut FieldErrors) {
    let path = STATUS.field("resourceClaimStatuses");
    let mut seen = check::Unique::default();
    let claims = first_by_name(pod.items_at(&["spec", "resourceClaims"]));
    for (at, status) in pod.items_at(&["status", "resourceClaimStatuses"]).iter().enumerate() {
        let item = path.index(at);
        let name = text(status, "name");
        if !claims.contains_key(name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&item.field("name"), name, detail);
        }
        seen.check(name, &item.field("name"), name, errors);
        if let Some(claim) = opt_text(status, "resourceClaimName") {
            check::each(
                names::dns_subdomain(claim, false),
                &item.field("resourceClaimName"),
                Named(claim),
                errors,
            );
        }
    }
}

fn validate_extended_claim(pod: &Value, errors: &mut FieldErrors) {
    let Some(status) = pod.at(&["status", "extendedResourceClaimStatus"]) else { return };
    let path = STATUS.field("extendedResourceClaimStatus");
    let mappings = list(status, "requestMappings");
    let field = path.field("requestMappings");
    if mappings.is_empty() {
        errors.required(&field, "at least one request mapping is required");
    }
    let spec = workload::spec_of(pod);
    let containers = first_by_name(list(spec, "containers").iter().chain(list(spec, "initContainers")));
    let mut seen = check::Unique::default();
    for (at, mapping) in mappings.iter().enumerate() {
        let item = field.index(at);
        let [container, resource, request] =
            ["containerName", "resourceName", "requestName"].map(|key| text(mapping, key));
        match containers.get(container) {
            Some(found) if found.at(&["resources", "requests", resource]).is_none() => {
                let detail = "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.invalid(&item.field("resourceName"), resource, detail);
            }
            Some(_) => {}
            None => {
                let detail =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.invalid(&item.field("containerName"), container, detail);
            }
        }
        check::dns_label(&path.field("requestName"), request, errors);
        if seen.is_repeated((container, resource, request)) {
            for (key, value) in
                [("containerName", container), ("resourceName", resource), ("requestName", request)]
            {
                errors.duplicate(&item.field(key), value);
            }
        }
    }
    facts::check(status, "core/v1.PodExtendedResourceClaimStatus", &path, errors);
}

fn validate_allocatable_claims(pod: &Value, errors: &mut FieldErrors) {
    let path = STATUS.field("nodeAllocatableResourceClaimStatuses");
    let of_spec = pod.items_at(&["spec", "resourceClaims"]).iter();
    let claims = of_spec.chain(pod.items_at(&["status", "resourceClaimStatuses"]));
    let known: HashSet<&str> = claims.filter_map(|claim| opt_text(claim, "resourceClaimName")).collect();
    for (at, status) in pod.items_at(&["status", "nodeAllocatableResourceClaimStatuses"]).iter().enumerate() {
        let item = path.index(at);
        let name = text(status, "resourceClaimName");
        if name.is_empty() {
            errors.required(&item.field("resourceClaimName"), "must not be empty");
        }
        if !known.contains(name) {
            errors.invalid(&item.field("resourceClaimName"), name, "no mapping found in pod reference");
        }
        if list(status, "containers").is_empty() {
            errors.required(&item.field("containers"), "must not be empty");
        }
        let field = item.field("resources");
        if entries(status.get("resources")).next().is_none() {
            errors.required(&field, "must not be empty");
        }
        for (resource, value) in entries(status.get("resources")) {
            if !is_native(resource) {
                errors.invalid(
                    &field.key(resource),
                    Named(resource),
                    "must be a node allocatable resource name",
                );
            }
            let amount = quantity(Some(value));
            if amount.sign() < 0 {
                errors.invalid(&field.key(resource), amount.to_string().as_str(), "must be non-negative");
            }
        }
    }
}

/// Validates new addresses; there may be one of each family.
fn validate_addresses(key: &str, status: &Value, before: &Value, errors: &mut FieldErrors) {
    let path = STATUS.field(key);
    let old: HashSet<&str> = list(before, key).iter().map(|ip| text(ip, "ip")).collect();
    let new: Vec<&str> = list(status, key).iter().map(|ip| text(ip, "ip")).collect();
    for (at, ip) in new.iter().enumerate() {
        net::validate_ip_legacy(&path.index(at), ip, &old, errors);
    }
    if new.len() < 2 {
        return;
    }
    let parsed: Vec<Option<IpAddr>> = new.iter().map(|ip| net::parse_ip_sloppy(ip)).collect();
    if let Some(at) = parsed.iter().position(Option::is_none) {
        let ip = new.get(at).copied().unwrap_or("");
        errors.internal(&path, &format!("failed to check for dual stack with error:invalid IP[{at}]: {ip}"));
    }
    let has = |test: fn(&IpAddr) -> bool| parsed.iter().flatten().any(test);
    if !has(IpAddr::is_ipv4) || !has(IpAddr::is_ipv6) || new.len() > 2 {
        let detail = "may specify no more than one IP for each IP family";
        errors.invalid(&path, InternalList(list(status, key), "core/v1.PodIP"), detail);
    }
}

fn validate_users(statuses: &[Value], os: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    for (at, status) in statuses.iter().enumerate() {
        let Some(linux) = status.at(&["user", "linux"]) else { continue };
        let item = path.index(at);
        let path = item.field("user.linux");
        if os == "windows" {
            errors.forbidden(&path, "cannot be set for a windows pod");
            continue;
        }
        for key in ["uid", "gid"] {
            let id = int(linux, key);
            check::each(names::is_valid_user_id(id), &path.field(key), id, errors);
        }
        for (index, group) in list(linux, "supplementalGroups").iter().enumerate() {
            let group = group.as_int().unwrap_or(0);
            let groups = path.field("supplementalGroups");
            check::each(names::is_valid_group_id(group), &groups.index(index), group, errors);
        }
    }
}

fn validate_allocated_resources(
    statuses: &[Value],
    containers: &[Value],
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let containers: HashMap<&str, (&Value, HashSet<String>)> = first_by_name(containers)
        .into_iter()
        .map(|(name, container)| (name, (container, claim_names(container))))
        .collect();
    for (at, status) in statuses.iter().enumerate() {
        let item = path.index(at);
        let field = item.field("allocatedResourcesStatus");
        let container = containers.get(text(status, "name"));
        for (index, resource) in list(status, "allocatedResourcesStatus").iter().enumerate() {
            let path = field.index(index);
            if let Some((container, claims)) = container {
                let name = text(resource, "name");
                require_known_resource(name, container, claims, &path.field("name"), errors);
            }
            validate_health(list(resource, "resources"), &path.field("resources"), errors);
        }
    }
}

/// The names of a container's claims in its status.
fn claim_names(container: &Value) -> HashSet<String> {
    let claim_name = |claim: &Value| match text(claim, "request") {
        "" => format!("claim:{}", text(claim, "name")),
        request => format!("claim:{}/{request}", text(claim, "name")),
    };
    container.items_at(&["resources", "claims"]).iter().map(claim_name).collect()
}

fn require_known_resource(
    name: &str,
    container: &Value,
    claims: &HashSet<String>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let detail = if name.starts_with("claim:") {
        if claims.contains(name) {
            return;
        }
        "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
    } else {
        if container.at(&["resources", "requests", name]).is_some() {
            return;
        }
        "must match one of the container's resource requests"
    };
    errors.invalid(path, Named(name), detail);
}

fn validate_health(devices: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    let mut seen = check::Unique::default();
    for (at, device) in devices.iter().enumerate() {
        let item = path.index(at);
        let states = ["Healthy", "Unhealthy", "Unknown"];
        check::supported(&item.field("health"), Some(text(device, "health")), &states, errors);
        if let Some(message) = opt_text(device, "message") {
            if message.is_empty() {
                errors.required(&item.field("message"), "must be non-empty if specified");
            } else if message.len() > HEALTH_MESSAGE_BYTES_MAX {
                errors.too_long(&item.field("message"), HEALTH_MESSAGE_BYTES_MAX);
            }
        }
        let id = text(device, "resourceID");
        seen.check(id, &item.field("resourceID"), Named(id), errors);
    }
}
