use super::Service;
use super::addresses::default_ip_families;
use crate::testing::{created, defaulted, tree, updated};
use crate::{Hooks, Scope};
use pintle_value::json;

#[test]
fn defaults_fill_ports_and_policies() {
    assert_eq!(
        defaulted("core/v1.Service", r#"{"spec":{"ports":[{"port":80}]}}"#),
        r#"{"spec":{"internalTrafficPolicy":"Cluster","ports":[{"port":80,"protocol":"TCP","targetPort":80}],"sessionAffinity":"None","type":"ClusterIP"}}"#
    );
    assert_eq!(
        defaulted("core/v1.Service", r#"{"spec":{"type":"LoadBalancer","sessionAffinity":"ClientIP"}}"#),
        r#"{"spec":{"allocateLoadBalancerNodePorts":true,"externalTrafficPolicy":"Cluster","internalTrafficPolicy":"Cluster","sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":10800}},"type":"LoadBalancer"}}"#
    );
}

#[test]
fn faults_of_the_spec() {
    let with = |spec: &str| {
        let object =
            format!(r#"{{"spec":{{"sessionAffinity":"None","internalTrafficPolicy":"Cluster",{spec}}}}}"#);
        created(&Service, &object)
    };
    for (spec, expected) in [
        (r#""type":"ClusterIP""#, vec!["spec.ports: Required value"]),
        (
            r#""type":"ClusterIP","ports":[{"name":"a","port":80,"targetPort":80,"protocol":"TCP"},{"name":"c","port":80,"targetPort":80,"protocol":"TCP","nodePort":30000}]"#,
            vec![
                "spec.ports[1].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
                r#"spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#,
            ],
        ),
        (
            r#""type":"ExternalName","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"]"#,
            vec![
                "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
                "spec.externalName: Required value",
            ],
        ),
        (
            r#""type":"ClusterIP","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.9"],"ports":[{"port":1,"targetPort":"80","protocol":"TCP"}]"#,
            vec![
                r#"spec.ports[0].targetPort: Invalid value: "80": must contain at least one letter (a-z)"#,
                r#"spec.clusterIPs: Invalid value: ["10.0.0.9"]: first value must match `clusterIP`"#,
            ],
        ),
    ] {
        assert_eq!(with(spec), expected, "{spec}");
    }
}

#[test]
fn a_change_of_type_drops_what_the_new_one_has_not() {
    let old = tree(
        r#"{"spec":{"type":"LoadBalancer","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",
            "ports":[{"port":80,"nodePort":30000}],"allocateLoadBalancerNodePorts":true,"externalTrafficPolicy":"Cluster"},
            "status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}"#,
    );
    let mut new = old.clone();
    new.set_at(&["spec", "type"], "ExternalName".into());
    Service.prepare_update(Scope::Main, &mut new, &old);
    assert_eq!(
        json::text(&new),
        r#"{"spec":{"ports":[{"port":80}],"type":"ExternalName"},"status":{"loadBalancer":{}}}"#
    );
}

#[test]
fn allocated_addresses_and_ports_stay() {
    let old = tree(
        r#"{"spec":{"type":"NodePort","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ports":[{"name":"a","port":80,"nodePort":30000}]}}"#,
    );
    let mut new =
        tree(r#"{"spec":{"type":"NodePort","ports":[{"name":"a","port":81},{"name":"b","port":82}]}}"#);
    Service.prepare_update(Scope::Main, &mut new, &old);
    assert_eq!(
        json::text(new.get("spec").unwrap()),
        r#"{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ports":[{"name":"a","nodePort":30000,"port":81},{"name":"b","port":82}],"type":"NodePort"}"#
    );
    let faults = updated(
        &Service,
        Scope::Main,
        r#"{"spec":{"type":"ClusterIP","clusterIP":"10.0.0.7","clusterIPs":["10.0.0.7"],"sessionAffinity":"None","internalTrafficPolicy":"Cluster","ports":[{"port":1,"targetPort":1,"protocol":"TCP"}]}}"#,
        r#"{"spec":{"type":"ClusterIP","clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"]}}"#,
    );
    assert_eq!(faults, [r#"spec.clusterIPs[0]: Invalid value: ["10.0.0.7"]: may not change once set"#]);
}

#[test]
fn families_follow_cluster_and_policy() {
    let prepared = |spec: &str, families: &[&str]| -> String {
        let mut object = tree(&format!(r#"{{"spec":{spec}}}"#));
        match default_ip_families(&mut object, None, families) {
            Ok(()) => json::text(object.get("spec").unwrap()),
            Err(errors) => errors.aggregate_message(),
        }
    };
    for (spec, families, expected) in [
        (
            r#"{"type":"ClusterIP"}"#,
            vec!["IPv4"],
            r#"{"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","type":"ClusterIP"}"#,
        ),
        (
            r#"{"clusterIP":"None","clusterIPs":["None"]}"#,
            vec!["IPv4"],
            r#"{"clusterIP":"None","clusterIPs":["None"],"ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"RequireDualStack"}"#,
        ),
        (
            r#"{"ipFamilyPolicy":"PreferDualStack"}"#,
            vec!["IPv6", "IPv4"],
            r#"{"ipFamilies":["IPv6","IPv4"],"ipFamilyPolicy":"PreferDualStack"}"#,
        ),
        (
            r#"{"ipFamilies":["IPv6"]}"#,
            vec!["IPv4"],
            r#"spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#,
        ),
        (
            r#"{"ipFamilyPolicy":"RequireDualStack"}"#,
            vec!["IPv4"],
            r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
        ),
        (
            r#"{"clusterIP":"::5","clusterIPs":["::5"]}"#,
            vec!["IPv4"],
            r#"spec.clusterIPs[0]: Invalid value: ["::5"]: IPv6 is not configured on this cluster"#,
        ),
    ] {
        assert_eq!(prepared(spec, &families), expected);
    }
}
