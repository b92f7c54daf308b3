use super::*;
use crate::testing::tree;
use pintle_value::json;

/// Allocates from 10.0.0.0/24 and 30000-32767 with the highest of all random numbers, the given things taken.
fn given(object: &str, old: Option<&str>, dry_run: bool, ips: &[&str], ports: &[i64]) -> String {
    given_from(&[("10.0.0.0/24", true)], object, old, dry_run, ips, ports)
}

fn given_from(
    networks: &[(&str, bool)],
    object: &str,
    old: Option<&str>,
    dry_run: bool,
    ips: &[&str],
    ports: &[i64],
) -> String {
    let cidr = |text: &str| net::parse_cidr_sloppy(text).unwrap();
    let ranges = Ranges { networks: vec![cidr("10.0.0.0/24")], node_ports: 30000..=32767 };
    let networks: Vec<ServiceNetwork> =
        networks.iter().map(|(text, ready)| ServiceNetwork { cidr: cidr(text), ready: *ready }).collect();
    let mut pool = Pool {
        ranges: &ranges,
        networks: &networks,
        dry_run,
        ip_taken: &|ip| ips.contains(&ip.to_string().as_str()),
        port_taken: &|port| ports.contains(&port),
        random: &mut || 0,
    };
    let mut object = tree(object);
    match allocate(&mut object, old.map(tree).as_ref(), &mut pool) {
        Ok(()) => json::text(object.get("spec").unwrap()),
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
fn refused_addresses_are_shown_as_requested() {
    let cidrs = ["10.0.0.0/24", "fd00::/112"].map(|text| net::parse_cidr_sloppy(text).unwrap());
    let ranges = Ranges { networks: cidrs.to_vec(), node_ports: 30000..=32767 };
    let networks = cidrs.map(|cidr| ServiceNetwork { cidr, ready: true });
    for (ips, families, expected) in [
        (r#"["10.0.0.0"]"#, r#"["IPv4","IPv6"]"#, r#"["10.0.0.0",""]: failed to allocate IP 10.0.0.0"#),
        (r#"["","fd00::"]"#, r#"["IPv4","IPv6"]"#, r#"["","fd00::"]: failed to allocate IP fd00::"#),
        (r#"["fd00::"]"#, r#"["IPv6"]"#, r#"["fd00::"]: failed to allocate IP fd00::"#),
    ] {
        let mut pool = Pool {
            ranges: &ranges,
            networks: &networks,
            dry_run: false,
            ip_taken: &|_| false,
            port_taken: &|_| false,
            random: &mut || 0,
        };
        let spec =
            format!(r#""clusterIPs":{ips},"ipFamilies":{families},"ipFamilyPolicy":"PreferDualStack""#);
        let mut object = tree(&format!(r#"{{"spec":{{"type":"ClusterIP",{spec}}}}}"#));
        let error = allocate_addresses(&mut object, &mut pool).unwrap_err();
        let Refusal::Invalid(errors) = error else { panic!("{error}") };
        let why = "the provided network does not match the current range";
        assert_eq!(errors.aggregate_message(), format!("spec.clusterIPs: Invalid value: {expected}: {why}"));
    }
}

#[test]
fn addresses_come_from_all_networks_that_are_ready() {
    let plain = r#"{"spec":{"type":"ClusterIP"}}"#;
    let wants = r#"{"spec":{"type":"ClusterIP","clusterIP":"10.9.0.5","clusterIPs":["10.9.0.5"]}}"#;
    let no_network = r#"spec.clusterIPs: Invalid value: ["10.9.0.5"]: failed to allocate IP 10.9.0.5: the provided network does not match the current range"#;
    let full = r#"failed to allocate a serviceIP for Service "": range is full"#;
    // Each of these networks has two addresses.
    let (small, other) = ("10.0.0.0/30", "10.9.0.4/30");
    for (networks, object, taken, expected) in [
        (vec![(small, true), (other, true)], wants, vec![], "10.9.0.5"),
        (vec![(small, true), (other, false)], wants, vec![], no_network),
        (vec![(small, true)], wants, vec![], no_network),
        (vec![(small, true), (other, true)], plain, vec!["10.0.0.1"], "10.0.0.2"),
        (vec![(small, true), (other, true)], plain, vec!["10.0.0.1", "10.0.0.2"], "10.9.0.5"),
        (vec![(small, true), (other, false)], plain, vec!["10.0.0.1", "10.0.0.2"], full),
        (vec![(small, false), (other, true)], plain, vec![], "10.9.0.5"),
        (vec![], plain, vec![], full),
    ] {
        let got = given_from(&networks, object, None, false, &taken, &[]);
        let address = got.strip_prefix(r#"{"clusterIP":""#).and_then(|rest| rest.split('"').next());
        assert_eq!(address.unwrap_or(&got), expected, "{networks:?} {object}");
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
