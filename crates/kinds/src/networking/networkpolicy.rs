//! NetworkPolicy: peers, ports and directions.

use crate::fields::{list, member, opt_int, opt_text, text, texts};
use crate::{Hooks, Scope, check};
use pintle_meta::selector::label_validation::{Leniency, validate_label_selector};
use pintle_meta::{FieldErrors, names, net};
use pintle_value::{Path, Str, Value};
use std::collections::HashSet;

/// Rules of a direction and the field of its peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
const TYPES: [&str; 2] = ["Ingress", "Egress"];

pub(crate) struct NetworkPolicy;

impl Hooks for NetworkPolicy {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(object, Leniency::default(), &HashSet::new(), errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let leniency = Leniency::after(old.at(&["spec", "podSelector"]));
        let known: HashSet<&str> = ip_blocks(old)
            .flat_map(|(_, block)| std::iter::once(text(block, "cidr")).chain(texts(block, "except")))
            .collect();
        validate_spec(object, leniency, &known, errors);
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let spec = Path::of("spec");
        let mut out = Vec::new();
        for ((direction, i, peers, j), block) in ip_blocks(object) {
            let path = spec.field(direction);
            let path = path.index(i);
            let path = path.field(peers);
            let path = path.index(j);
            let path = path.field("ipBlock");
            out.extend(net::cidr_warnings(&path.field("cidr"), text(block, "cidr")));
            for (k, except) in texts(block, "except").into_iter().enumerate() {
                out.extend(net::cidr_warnings(&path.field("except").index(k), except));
            }
        }
        out
    }
}

/// A policy without types is about ingress, and about egress if it has rules for it.
pub(crate) fn default_types(object: &mut Value) {
    if object.items_at(&["spec", "policyTypes"]).is_empty() {
        let both = !object.items_at(&["spec", "egress"]).is_empty();
        let types = TYPES.iter().take(if both { 2 } else { 1 }).map(|t| Value::from(*t)).collect();
        object.set_at(&["spec", "policyTypes"], Value::Array(types));
    }
}

/// The position of an IP block: direction, rule, field of the peers, peer.
type Place = (&'static str, usize, &'static str, usize);

fn ip_blocks(object: &Value) -> impl Iterator<Item = (Place, &Value)> {
    DIRECTIONS.into_iter().flat_map(move |(direction, peers)| {
        object.items_at(&["spec", direction]).iter().enumerate().flat_map(move |(i, rule)| {
            let blocks = list(rule, peers).iter().enumerate();
            blocks.filter_map(move |(j, peer)| Some(((direction, i, peers, j), member(peer, "ipBlock")?)))
        })
    })
}

fn validate_spec(object: &Value, leniency: Leniency, known: &HashSet<&str>, errors: &mut FieldErrors) {
    let spec = Path::of("spec");
    let selector = object.at(&["spec", "podSelector"]);
    validate_label_selector(selector, leniency, &spec.field("podSelector"), errors);
    for (direction, peers) in DIRECTIONS {
        for (i, rule) in object.items_at(&["spec", direction]).iter().enumerate() {
            let path = spec.field(direction);
            let path = path.index(i);
            check::each_item(rule, "ports", &path, |port, path| validate_port(port, path, errors));
            check::each_item(rule, peers, &path, |peer, path| {
                validate_peer(peer, leniency, known, path, errors)
            });
        }
    }
    let types = object.get("spec").map(|s| texts(s, "policyTypes")).unwrap_or_default();
    let path = spec.field("policyTypes");
    if types.len() > TYPES.len() {
        let all: Vec<Str> = types.into_iter().map(Str::from).collect();
        return errors.invalid(&path, all.as_slice(), "may not specify more than two policyTypes");
    }
    for (i, kind) in types.into_iter().enumerate() {
        check::supported(&path.index(i), Some(kind), &TYPES, errors);
    }
}

fn validate_port(port: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    check::supported(&path.field("protocol"), opt_text(port, "protocol"), &["TCP", "UDP", "SCTP"], errors);
    let end = opt_int(port, "endPort");
    let at = path.field("endPort");
    match (member(port, "port"), end) {
        (None, None) => {}
        (None, Some(end)) => errors.invalid(&at, end, "may not be specified when `port` is not specified"),
        (Some(Value::String(name)), end) => {
            if let Some(end) = end {
                errors.invalid(&at, end, "may not be specified when `port` is non-numeric");
            }
            check::each(names::is_valid_port_name(name), &path.field("port"), name, errors);
        }
        (Some(number), end) => {
            let number = number.as_int().unwrap_or(0);
            check::each(names::is_valid_port_num(number), &path.field("port"), number, errors);
            let Some(end) = end else { return };
            if end < number {
                errors.invalid(&at, number, "must be greater than or equal to `port`");
            }
            check::each(names::is_valid_port_num(end), &at, end, errors);
        }
    }
}

fn validate_peer(
    peer: &Value,
    leniency: Leniency,
    known: &HashSet<&str>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let selectors = ["podSelector", "namespaceSelector"];
    for field in selectors {
        validate_label_selector(peer.get(field), leniency, &path.field(field), errors);
    }
    let selects = selectors.iter().any(|field| member(peer, field).is_some());
    let block = member(peer, "ipBlock");
    if let Some(block) = block {
        validate_block(block, known, &path.field("ipBlock"), errors);
    }
    match (selects, block) {
        (false, None) => errors.required(path, "must specify a peer"),
        (true, Some(_)) => errors.forbidden(path, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn validate_block(block: &Value, known: &HashSet<&str>, path: &Path<'_>, errors: &mut FieldErrors) {
    let text = text(block, "cidr");
    if text.is_empty() {
        return errors.required(&path.field("cidr"), "");
    }
    net::validate_cidr_legacy(&path.field("cidr"), text, known, errors);
    let Some(cidr) = net::parse_cidr_sloppy(text) else { return };
    for (i, except) in texts(block, "except").into_iter().enumerate() {
        let path = path.field("except");
        net::validate_cidr_legacy(&path.index(i), except, known, errors);
        let Some(inner) = net::parse_cidr_sloppy(except) else { continue };
        if !cidr.contains(inner.network()) || cidr.bits >= inner.bits {
            errors.invalid(&path.index(i), except, "must be a strict subset of `cidr`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, defaulted};

    #[test]
    fn types_and_protocols_are_filled_in() {
        assert_eq!(
            defaulted("networking/v1.NetworkPolicy", r#"{"spec":{"egress":[{"ports":[{"port":1}]}]}}"#),
            r#"{"spec":{"egress":[{"ports":[{"port":1,"protocol":"TCP"}]}],"policyTypes":["Ingress","Egress"]}}"#
        );
    }

    #[test]
    fn peers_and_ports_are_checked() {
        let object = r#"{"spec":{"ingress":[{"from":[{},{"podSelector":{},"ipBlock":{"cidr":"10.0.0.0/8"}},{"ipBlock":{"cidr":"10.0.0.0/8","except":["11.0.0.0/16"]}}],"ports":[{"endPort":5},{"port":9,"endPort":5}]}]}}"#;
        assert_eq!(
            created(&NetworkPolicy, object),
            [
                "spec.ingress[0].ports[0].endPort: Invalid value: 5: may not be specified when `port` is not specified",
                "spec.ingress[0].ports[1].endPort: Invalid value: 9: must be greater than or equal to `port`",
                "spec.ingress[0].from[0]: Required value: must specify a peer",
                "spec.ingress[0].from[1]: Forbidden: may not specify both ipBlock and another peer",
                r#"spec.ingress[0].from[2].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`"#,
            ]
        );
    }
}
