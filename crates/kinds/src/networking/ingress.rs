//! Ingress: rules, backends, TLS and the status of its load balancer.

use super::ingressclass::validate_reference;
use crate::fields::{int, list, member, opt_text, text, texts};
use crate::{Hooks, Scope, check, facts, metadata};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, names, net};
use pintle_value::{Path, Value};
use std::collections::HashSet;

const CLASS: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
const BAD_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const BAD_ENDS: [&str; 2] = ["/..", "/."];
const INGRESS: [&str; 3] = ["status", "loadBalancer", "ingress"];
const ABSOLUTE: &str = "must be an absolute path";

/// Invalid values that old objects may keep.
#[derive(Clone, Copy, Default)]
struct Tolerated {
    secret_names: bool,
    wildcard_rules: bool,
}

pub(crate) struct Ingress;

impl Hooks for Ingress {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(object, Tolerated::default(), errors);
        let class = object.at(&["spec", "ingressClassName"]).and_then(Value::as_str);
        if let (Some(annotation), Some(class)) = (metadata::annotation(object, CLASS), class)
            && annotation != class
        {
            let detail = "must match `ingressClassName` when both are specified";
            let annotations = Path::of("annotations");
            errors.invalid(&annotations.field(CLASS), annotation, detail);
        }
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope != Scope::Main {
            return validate_status(object, old, errors);
        }
        validate_spec(object, tolerated_by(old), errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let classless = object.at(&["spec", "ingressClassName"]).is_none();
        if old.is_some() || !classless || metadata::annotation(object, CLASS).is_none() {
            return Vec::new();
        }
        vec![format!("annotation \"{CLASS}\" is deprecated, please use 'spec.ingressClassName' instead")]
    }
}

fn secret_name_errors(name: &str) -> Vec<String> {
    if name.is_empty() { Vec::new() } else { names::dns_subdomain(name, false) }
}

fn tolerated_by(old: &Value) -> Tolerated {
    let bad_rule = |rule: &Value| {
        let mut errors = FieldErrors::new();
        validate_http(rule, &Path::ROOT, &mut errors);
        text(rule, "host").contains('*') && !errors.is_empty()
    };
    Tolerated {
        secret_names: old
            .items_at(&["spec", "tls"])
            .iter()
            .any(|tls| !secret_name_errors(text(tls, "secretName")).is_empty()),
        wildcard_rules: old.items_at(&["spec", "rules"]).iter().any(bad_rule),
    }
}

fn validate_spec(object: &Value, tolerated: Tolerated, errors: &mut FieldErrors) {
    let path = Path::of("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let backend = member(spec, "defaultBackend");
    if list(spec, "rules").is_empty() && backend.is_none() {
        let rules = spec.get("rules");
        errors.invalid(&path, rules, "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(backend) = backend {
        validate_backend(backend, &path.field("defaultBackend"), errors);
    }
    check::each_item(spec, "rules", &path, |rule, path| validate_rule(rule, tolerated, path, errors));
    check::each_item(spec, "tls", &path, |tls, path| validate_tls(tls, tolerated, path, errors));
    facts::check(spec, "networking/v1.IngressSpec", &path, errors);
}

fn validate_host(host: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let complaints = if host.contains('*') {
        names::is_wildcard_dns1123_subdomain(host)
    } else {
        names::is_dns1123_subdomain(host)
    };
    check::each(complaints, path, host, errors);
}

fn validate_tls(tls: &Value, tolerated: Tolerated, path: &Path<'_>, errors: &mut FieldErrors) {
    for (i, host) in texts(tls, "hosts").into_iter().enumerate() {
        validate_host(host, &path.field("hosts").index(i), errors);
    }
    if !tolerated.secret_names {
        let name = text(tls, "secretName");
        check::each(secret_name_errors(name), &path.field("secretName"), name, errors);
    }
}

fn validate_rule(rule: &Value, tolerated: Tolerated, path: &Path<'_>, errors: &mut FieldErrors) {
    let host = text(rule, "host");
    if !host.is_empty() {
        if net::parse_ip_sloppy(host).is_some() {
            errors.invalid(&path.field("host"), host, "must be a DNS name, not an IP address");
        }
        validate_host(host, &path.field("host"), errors);
    }
    if !(host.contains('*') && tolerated.wildcard_rules) {
        validate_http(rule, path, errors);
    }
}

fn validate_http(rule: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(http) = member(rule, "http") else { return };
    let path = path.field("http.paths");
    if list(http, "paths").is_empty() {
        errors.required(&path, "");
    }
    for (i, item) in list(http, "paths").iter().enumerate() {
        validate_path(item, &path.index(i), errors);
    }
}

fn validate_path(item: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let at = path.field("path");
    let url = text(item, "path");
    let absolute = url.starts_with('/');
    match opt_text(item, "pathType") {
        None => return errors.required(&path.field("pathType"), "pathType must be specified"),
        Some("Exact" | "Prefix") => {
            if !absolute {
                errors.invalid(&at, url, ABSOLUTE);
            }
            for bad in BAD_SEQUENCES.iter().filter(|bad| url.contains(**bad)) {
                errors.invalid(&at, url, &format!("must not contain '{bad}'"));
            }
            for bad in BAD_ENDS.iter().filter(|bad| url.ends_with(**bad)) {
                errors.invalid(&at, url, &format!("cannot end with '{bad}'"));
            }
        }
        Some("ImplementationSpecific") => {
            if !url.is_empty() && !absolute {
                errors.invalid(&at, url, ABSOLUTE);
            }
        }
        Some(other) => errors.not_supported(&path.field("pathType"), Named(other), &PATH_TYPES),
    }
    validate_backend(item.get("backend").unwrap_or(&Value::Null), &path.field("backend"), errors);
}

fn validate_backend(backend: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    match (member(backend, "resource"), member(backend, "service")) {
        (Some(_), Some(_)) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (Some(resource), None) => validate_reference(resource, &path.field("resource"), errors),
        (None, Some(service)) => validate_service(service, path, errors),
        (None, None) => errors.invalid(path, "", "resource or service backend is required"),
    }
}

fn validate_service(service: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let at = path.field("service");
    facts::check(service, "networking/v1.IngressServiceBackend", &at, errors);
    let port = service.get("port").unwrap_or(&Value::Null);
    let at = at.field("port");
    match (text(port, "name"), int(port, "number")) {
        ("", 0) => errors.required(path, "port name or number is required"),
        ("", number) => check::each(names::is_valid_port_num(number), &at.field("number"), number, errors),
        (name, 0) => check::each(names::is_valid_port_name(name), &at.field("name"), name, errors),
        _ => errors.invalid(path, "", "cannot set both port name & port number"),
    }
}

fn validate_status(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let path = Path::of("status.loadBalancer.ingress");
    let known: HashSet<&str> =
        old.items_at(&INGRESS).iter().map(|i| text(i, "ip")).filter(|ip| !ip.is_empty()).collect();
    for (i, ingress) in object.items_at(&INGRESS).iter().enumerate() {
        let path = path.index(i);
        let (ip, hostname) = (text(ingress, "ip"), text(ingress, "hostname"));
        if !ip.is_empty() {
            net::validate_ip_legacy(&path.field("ip"), ip, &known, errors);
        }
        if hostname.is_empty() {
            continue;
        }
        check::dns_subdomain(&path.field("hostname"), hostname, errors);
        if net::parse_ip_sloppy(hostname).is_some() {
            errors.invalid(&path.field("hostname"), hostname, "must be a DNS name, not an IP address");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created;

    #[test]
    fn backends_are_complete() {
        let with =
            |backend: &str| created(&Ingress, &format!(r#"{{"spec":{{"defaultBackend":{backend}}}}}"#));
        for (backend, expected) in [
            (
                "{}",
                vec![r#"spec.defaultBackend: Invalid value: "": resource or service backend is required"#],
            ),
            (
                r#"{"service":{"name":""}}"#,
                vec![
                    "spec.defaultBackend.service.name: Required value",
                    "spec.defaultBackend: Required value: port name or number is required",
                ],
            ),
            (
                r#"{"service":{"name":"s","port":{"number":1,"name":"n"}}}"#,
                vec![r#"spec.defaultBackend: Invalid value: "": cannot set both port name & port number"#],
            ),
            (
                r#"{"resource":{"kind":"K","name":""}}"#,
                vec!["spec.defaultBackend.resource.name: Required value"],
            ),
        ] {
            assert_eq!(with(backend), expected);
        }
        assert_eq!(
            created(&Ingress, r#"{"spec":{}}"#),
            ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]
        );
    }

    #[test]
    fn paths_are_absolute_and_plain() {
        let backend = r#""backend":{"service":{"name":"s","port":{"number":80}}}"#;
        let object = format!(
            r#"{{"spec":{{"rules":[{{"http":{{"paths":[{{"path":"rel","pathType":"Prefix",{backend}}},{{"path":"/a/../b","pathType":"Exact",{backend}}},{{{backend}}}]}}}}]}}}}"#
        );
        assert_eq!(
            created(&Ingress, &object),
            [
                r#"spec.rules[0].http.paths[0].path: Invalid value: "rel": must be an absolute path"#,
                r#"spec.rules[0].http.paths[1].path: Invalid value: "/a/../b": must not contain '/../'"#,
                "spec.rules[0].http.paths[2].pathType: Required value: pathType must be specified",
            ]
        );
    }
}
