use super::*;
use crate::testing::tree;
use pintle_value::json;

/// Allocates from 10.0.0.0/24 and 30000-32767 with the highest of all random numbers, the given things taken.
fn given(object: &str, old: Option<&str>, dry_run: bool, ips: &[&str], ports: &[i64]) -> String {
    let ranges =
        Ranges { networks: vec![net::parse_cidr_sloppy("10.0.0.0/24").unwrap()], node_ports: 30000..=32767 };
    let mut pool = Pool {
        ranges: &ranges,
        dry_run,
        ip_taken: &|ip| ips.contains(&ip.to_string().as_str()),
        port_taken: &|port| ports.contains(&port),
        random: &mut || 0,
    };
    let mut object = tree(object);
    match allocate(&mut object, old.map(tree).as_ref(), &mut pool) {
        Ok(()) => {
            let mut out = Vec::new();
            json::print(object.get("spec").unwrap(), &mut out);
            String::from_utf8(out).unwrap()
        }
        Err(Refusal::Invalid(errors)) => errors.aggregate_message(),
        Err(Refusal::Internal(text)) => text,
        Err(Refusal::Duplicate(text)) => format!("(unclassified) {text}"),
    }
}

const FAMILIES: &str = r#""ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack""#;

#[test]
fn a_service_gets_an_address() {
    let plain = r#"{"spec":{"type":"ClusterIP"}}"#;
    let with =
        |ip: &str| format!(r#"{{"clusterIP":"{ip}","clusterIPs":["{ip}"],{FAMILIES},"type":"ClusterIP"}}"#);
    assert_eq!(given(plain, None, false, &[], &[]), with("10.0.0.17"));
    assert_eq!(given(plain, None, false, &["10.0.0.17"], &[]), with("10.0.0.18"));
    assert_eq!(given(plain, None, true, &[], &[]), with("10.0.0.0"));
    let wants =
        |ip: &str| format!(r#"{{"spec":{{"type":"ClusterIP","clusterIP":"{ip}","clusterIPs":["{ip}"]}}}}"#);
    assert_eq!(given(&wants("10.0.0.13"), None, false, &[], &[]), with("10.0.0.13"));
    for (ip, dry_run, why) in [
        ("10.0.0.13", false, "provided IP is already allocated"),
        ("10.0.0.255", false, "the provided network does not match the current range"),
        ("10.0.0.0", false, "the provided network does not match the current range"),
        ("10.99.0.1", false, "the provided network does not match the current range"),
        (
            "10.9.9.9",
            true,
            "the provided IP (10.9.9.9) is not in the valid range. The range of valid IPs is 10.0.0.0/24",
        ),
        (
            "10.0.0.255",
            true,
            "the provided IP (10.0.0.255) is not in the valid range. The range of valid IPs is 10.0.0.0/24",
        ),
    ] {
        assert_eq!(
            given(&wants(ip), None, dry_run, &["10.0.0.13"], &[]),
            format!(r#"spec.clusterIPs: Invalid value: ["{ip}"]: failed to allocate IP {ip}: {why}"#)
        );
    }
}

#[test]
fn ports_get_node_ports() {
    let object = |ports: &str| {
        format!(
            r#"{{"spec":{{"type":"NodePort","clusterIP":"None","clusterIPs":["None"],"ports":{ports}}}}}"#
        )
    };
    let ports = |text: &str| {
        text.split("\"ports\":").nth(1).unwrap_or(text).split(",\"type\"").next().unwrap_or("").to_string()
    };
    for (wanted, dry_run, expected) in [
        (
            r#"[{"port":80,"protocol":"TCP"},{"port":80,"protocol":"UDP"},{"port":81}]"#,
            false,
            r#"[{"nodePort":30086,"port":80,"protocol":"TCP"},{"nodePort":30086,"port":80,"protocol":"UDP"},{"nodePort":30087,"port":81}]"#,
        ),
        (
            r#"[{"port":80,"nodePort":80}]"#,
            false,
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        (
            r#"[{"port":80,"nodePort":30001}]"#,
            false,
            "spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated",
        ),
        (
            r#"[{"port":80,"nodePort":80},{"port":81}]"#,
            true,
            r#"[{"nodePort":80,"port":80},{"nodePort":81,"port":81}]"#,
        ),
    ] {
        assert_eq!(ports(&given(&object(wanted), None, dry_run, &[], &[30001])), expected);
    }
}

#[test]
fn a_change_takes_only_what_is_new() {
    let old = format!(
        r#"{{"spec":{{"clusterIP":"10.0.0.5","clusterIPs":["10.0.0.5"],{FAMILIES},"type":"NodePort","ports":[{{"port":80,"protocol":"TCP","nodePort":30001}}]}}}}"#
    );
    let new = format!(
        r#"{{"spec":{{"clusterIP":"10.0.0.5","clusterIPs":["10.0.0.5"],{FAMILIES},"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{{"port":80,"protocol":"TCP","nodePort":30001}}]}}}}"#
    );
    assert_eq!(
        given(&new, Some(&old), false, &["10.0.0.5"], &[30001]),
        format!(
            r#"{{"clusterIP":"10.0.0.5","clusterIPs":["10.0.0.5"],"externalTrafficPolicy":"Local","healthCheckNodePort":30086,{FAMILIES},"ports":[{{"nodePort":30001,"port":80,"protocol":"TCP"}}],"type":"LoadBalancer"}}"#
        )
    );
    let named = r#"{"spec":{"type":"ExternalName","externalName":"a.b"}}"#;
    assert_eq!(
        given(r#"{"spec":{"type":"ClusterIP","externalName":"a.b"}}"#, Some(named), false, &[], &[]),
        format!(
            r#"{{"clusterIP":"10.0.0.17","clusterIPs":["10.0.0.17"],"externalName":"a.b",{FAMILIES},"type":"ClusterIP"}}"#
        )
    );
}

#[test]
fn the_last_of_all_networks_has_no_address_to_allocate() {
    let network = |text: &str| net::parse_cidr_sloppy(text).unwrap();
    assert_eq!(bounds(&network("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")), None);
    assert_eq!(bounds(&network("10.0.0.0/30")), Some((0x0a00_0001, 0x0a00_0002)));
}

#[test]
fn a_changed_service_has_each_node_port_once() {
    let old = r#"{"spec":{"type":"NodePort","clusterIP":"10.0.0.9","clusterIPs":["10.0.0.9"],"ports":[{"protocol":"UDP","port":1,"nodePort":30007}]}}"#;
    let port = r#"{"protocol":"UDP","port":1,"nodePort":30007}"#;
    let new = format!(
        r#"{{"spec":{{"type":"NodePort","clusterIP":"10.0.0.9","clusterIPs":["10.0.0.9"],"ports":[{port},{port}]}}}}"#
    );
    assert_eq!(given(&new, Some(old), false, &[], &[]), "(unclassified) duplicate nodePort: {UDP 30007}");
}
