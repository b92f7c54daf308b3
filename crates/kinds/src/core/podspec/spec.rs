//! Validates the pod spec as a whole, and its template.

use super::containers::{self, Pod};
use super::options::Options;
use super::resources::{self, Claims, ResourcesOwner};
use super::{affinity, annotations, env, scheduling, security, spread, volumes, windows};
use crate::fields::{flag, int, list, member, opt_flag, opt_int, opt_text, text, texts};
use crate::{check, facts};
use pintle_meta::selector::label_validation::validate_labels;
use pintle_meta::{FieldErrors, names, net, objectmeta};
use pintle_value::{Path, Value};
use std::collections::HashSet;

/// The maximum number of name servers of a pod.
const NAMESERVERS_MAX: usize = 3;
/// The limit of search domains.
const SEARCHES_MAX: usize = 32;
/// The longest search list, including spaces.
const SEARCH_LIST_BYTES_MAX: usize = 2048;
/// The longest `hostnameOverride`.
const HOSTNAME_OVERRIDE_BYTES_MAX: usize = 64;

const TYPE: &str = "core/v1.PodSpec";
const NAMES_AND_TIMES: [&str; 5] =
    ["serviceAccountName", "nodeName", "activeDeadlineSeconds", "hostname", "subdomain"];

/// Validates a pod spec. `meta` is the pod's metadata, if it is a pod.
pub(crate) fn validate(
    spec: &Value,
    meta: Option<&Value>,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    let grace = opt_int(spec, "terminationGracePeriodSeconds");
    if grace.is_none() {
        errors.required(&path.field("terminationGracePeriodSeconds"), "");
    }
    let pod_name = meta.map(|m| text(m, "name"));
    let volumes = volumes::validate(volumes::of(spec), pod_name, &path.field("volumes"), options, errors);
    let resource_claims = list(spec, "resourceClaims");
    let claims: Claims<'_> =
        resource_claims.iter().map(|c| text(c, "name")).filter(|n| !n.is_empty()).collect();
    let mirror = meta.is_some_and(|m| m.at(&["annotations", annotations::MIRROR]).is_some());
    resources::validate_claims(resource_claims, mirror, &path.field("resourceClaims"), errors);
    let pod = Pod {
        spec,
        volumes,
        claims,
        grace,
        os: member(spec, "os").map(|os| text(os, "name")),
        host_users: opt_flag(spec, "hostUsers") != Some(false),
        options: *options,
    };
    containers::validate(&pod, &path.field("containers"), errors);
    containers::validate_init(&pod, &path.field("initContainers"), errors);
    containers::validate_ephemeral(&pod, &path.field("ephemeralContainers"), errors);
    resources::validate_pod_level(spec, &pod.claims, path, options, errors);
    validate_host_network_ports(spec, path, options, errors);
    facts::check_fields(spec, TYPE, &["restartPolicy", "dnsPolicy"], path, errors);
    let node_selector = spec.get("nodeSelector").and_then(Value::as_object);
    validate_labels(node_selector, &path.field("nodeSelector"), errors);
    security::validate_pod(spec, &path.field("securityContext"), options, errors);
    if let Some(own) = member(spec, "affinity") {
        affinity::validate(own, options, &path.field("affinity"), errors);
    }
    validate_dns_config(spec, &path.field("dnsConfig"), errors);
    facts::check_fields(spec, TYPE, &["readinessGates"], path, errors);
    scheduling::validate_gates(list(spec, "schedulingGates"), &path.field("schedulingGates"), errors);
    let constraints = list(spec, "topologySpreadConstraints");
    spread::validate(constraints, &path.field("topologySpreadConstraints"), options, errors);
    windows::validate_host_process(spec, path, errors);
    validate_host_users(spec, path, options, errors);
    validate_hostname_override(spec, path, errors);
    facts::check_fields(spec, TYPE, &NAMES_AND_TIMES, path, errors);
    scheduling::validate_tolerations_with(
        list(spec, "tolerations"),
        &path.field("tolerations"),
        options,
        errors,
    );
    facts::check_fields(spec, TYPE, &["hostAliases", "priorityClassName", "runtimeClassName"], path, errors);
    validate_preemption_and_overhead(spec, path, options, errors);
    windows::validate_os(spec, path, errors);
    if let Some(group) = member(spec, "schedulingGroup") {
        validate_scheduling_group(group, &path.field("schedulingGroup"), errors);
    }
    env::validate_file_volumes(spec, path, errors);
}

/// Checks the template of a workload.
pub(crate) fn validate_template(
    template: &Value,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    let meta = template.get("metadata");
    let map = |key: &str| meta.and_then(|m| m.get(key)).and_then(Value::as_object);
    validate_labels(map("labels"), &path.field("labels"), errors);
    objectmeta::validate_annotations(map("annotations"), &path.field("annotations"), errors);
    let empty = Value::object();
    let spec = template.get("spec").unwrap_or(&empty);
    let own = meta.and_then(|m| m.get("annotations"));
    annotations::validate(own, spec, &path.field("annotations"), options, errors);
    let path = path.field("spec");
    validate(spec, None, &path, options, errors);
    annotations::validate_profiles(meta, spec, &path, errors);
    if !list(spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(&path.field("ephemeralContainers"), detail);
    }
}

fn validate_host_network_ports(spec: &Value, path: &Path<'_>, options: &Options, errors: &mut FieldErrors) {
    if !flag(spec, "hostNetwork") {
        return;
    }
    let path = path.field("containers");
    for (at, container) in list(spec, "containers").iter().enumerate() {
        for (index, port) in list(container, "ports").iter().enumerate() {
            let (host, own) = (int(port, "hostPort"), int(port, "containerPort"));
            if (options.is_pod || host != 0) && host != own {
                let item = path.index(at);
                let ports = item.field("ports");
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&ports.index(index).field("hostPort"), host, detail);
            }
        }
    }
}

fn validate_dns_config(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let config = member(spec, "dnsConfig");
    if text(spec, "dnsPolicy") == "None" {
        let Some(config) = config else {
            return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        };
        if list(config, "nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(&path.field("nameservers"), detail);
        }
    }
    let Some(config) = config else { return };
    let field = path.field("nameservers");
    let servers = texts(config, "nameservers");
    if servers.len() > NAMESERVERS_MAX {
        let detail = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.invalid(&field, config.get("nameservers"), &detail);
    }
    for (at, server) in servers.iter().enumerate() {
        net::validate_ip_legacy(&field.index(at), server, &HashSet::new(), errors);
    }
    validate_searches(config, &path.field("searches"), errors);
    for (at, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.required(&path.field("options").index(at), "must not be empty");
        }
    }
}

fn validate_searches(config: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let searches = texts(config, "searches");
    if searches.len() > SEARCHES_MAX {
        let detail = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.invalid(path, config.get("searches"), &detail);
    }
    if searches.join(" ").len() > SEARCH_LIST_BYTES_MAX {
        let detail = format!(
            "must not have more than {SEARCH_LIST_BYTES_MAX} characters (including spaces) in the search list"
        );
        errors.invalid(path, config.get("searches"), &detail);
    }
    for (at, search) in searches.into_iter().enumerate().filter(|(_, s)| *s != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        check::each(names::is_dns1123_subdomain_with_underscore(search), &path.index(at), search, errors);
    }
}

fn validate_host_users(spec: &Value, path: &Path<'_>, options: &Options, errors: &mut FieldErrors) {
    const DETAIL: &str = "when `hostUsers` is false";
    if opt_flag(spec, "hostUsers") != Some(false) {
        return;
    }
    if !options.host_network_with_user_namespaces && flag(spec, "hostNetwork") {
        errors.forbidden(&path.field("hostNetwork"), DETAIL);
    }
    for (key, error_name) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if flag(spec, key) {
            errors.forbidden(&path.field(error_name), DETAIL);
        }
    }
    if options.devices_with_user_namespaces {
        return;
    }
    super::visit_containers(spec, path, |container, path| {
        if !list(container, "volumeDevices").is_empty() {
            errors.forbidden(&path.field("volumeDevices"), DETAIL);
        }
    });
}

fn validate_hostname_override(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(name) = opt_text(spec, "hostnameOverride") else { return };
    let path = path.field("hostnameOverride");
    for (key, what) in [("setHostnameAsFQDN", "setHostnameAsFQDN"), ("hostNetwork", "hostNetwork")] {
        if flag(spec, key) {
            errors.forbidden(&path, &format!("may not be specified when {what} is true"));
        }
    }
    if name.len() > HOSTNAME_OVERRIDE_BYTES_MAX {
        errors.too_long(&path, HOSTNAME_OVERRIDE_BYTES_MAX);
    }
    check::dns_subdomain(&path, name, errors);
}

fn validate_preemption_and_overhead(
    spec: &Value,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    facts::check_fields(spec, TYPE, &["preemptionPolicy"], path, errors);
    if let Some(overhead) = member(spec, "overhead") {
        let mut limits = Value::object();
        limits.set_at(&["limits"], overhead.clone());
        let none = Claims::new();
        resources::validate(
            &limits,
            ResourcesOwner::Container,
            &none,
            &path.field("overhead"),
            options,
            errors,
        );
    }
}

fn validate_scheduling_group(group: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let path = path.field("podGroupName");
    match opt_text(group, "podGroupName") {
        None => errors.invalid(&path, None::<&Value>, "must specify one of: `podGroupName`"),
        Some(name) => check::each(names::dns_subdomain(name, false), &path, name, errors),
    }
}
