//! The objects that a fresh server creates: default roles and bindings, priority classes, flow control and the
//! APIServices of its own groups. Embedded as one JSON object per line, without fields that the server sets.

use pintle_value::{Value, json};
use std::net::IpAddr;

const OBJECTS: &str = include_str!("../data/bootstrap.jsonl");

const GATED_ROLES: &str = include_str!("../data/gated_roles.txt");
/// The prefix of the roles of controllers, which are bound to the service account of this name.
const CONTROLLER: &str = "system:controller:";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The service `kubernetes`, with which clients in the cluster find the server.
pub(crate) struct KubernetesService {
    /// The service's cluster IP.
    pub(crate) address: IpAddr,
    /// The port of the server.
    pub(crate) port: u16,
    /// The service's node port; 0 if it has none.
    pub(crate) node_port: u16,
}

impl KubernetesService {
    /// Completes the object of the service.
    fn complete(&self, object: &mut Value) {
        let ports =
            object.get_mut("spec").and_then(|spec| spec.get_mut("ports")).and_then(Value::as_array_mut);
        let Some(port) = ports.and_then(|ports| ports.first_mut()) else { return };
        port.set_at(&["targetPort"], i64::from(self.port).into());
        if self.node_port > 0 {
            port.set_at(&["nodePort"], i64::from(self.node_port).into());
            object.set_at(&["spec", "type"], "NodePort".into());
        }
    }
}

/// The objects, in the order of their creation, with the rules of enabled features. `today` is the date.
pub(crate) fn objects(
    service: &KubernetesService,
    today: &str,
    is_enabled: impl Fn(&str) -> bool,
) -> Vec<Value> {
    let family = if service.address.is_ipv4() { "IPv4" } else { "IPv6" };
    let text = OBJECTS
        .replace("$SERVICE_ADDRESS", &service.address.to_string())
        .replace("$SERVICE_FAMILY", family)
        .replace("$TODAY", today);
    let mut objects: Vec<Value> = parse_lines(&text).collect();
    objects.iter_mut().filter(|o| o.str_at(&["kind"]) == "Service").for_each(|o| service.complete(o));
    for line in GATED_ROLES.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (gate, role) = (word(), word());
        match gate.strip_prefix('!') {
            Some(gate) if !is_enabled(gate) => drop_rule(&mut objects, role, &mut words),
            None if is_enabled(gate) => {
                let following = word().parse().unwrap_or(0);
                add_rule(&mut objects, role, following, rule(&mut words));
            }
            _ => {}
        }
    }
    objects
}

/// Reads verbs, groups, resources and names of a rule.
fn rule<'a>(words: &mut impl Iterator<Item = &'a str>) -> Value {
    let mut rule = Value::object();
    for (key, word) in ["verbs", "apiGroups", "resources", "resourceNames"].into_iter().zip(words) {
        let texts = word.split(',').map(|text| if text == "core" { "" } else { text }.into());
        rule.set_at(&[key], Value::Array(texts.collect()));
    }
    rule
}

/// Removes a part of a cluster role: the URL or rule that the words name, or without words the whole role with its
/// binding.
fn drop_rule<'a>(objects: &mut Vec<Value>, role: &str, words: &mut impl Iterator<Item = &'a str>) {
    let is_role = |o: &Value| o.str_at(&["metadata", "name"]) == role && o.get("rules").is_some();
    let mut words = words.peekable();
    match words.peek() {
        None => objects.retain(|o| !is_role(o) && o.str_at(&["roleRef", "name"]) != role),
        Some(first) => {
            let url = first.starts_with('/').then(|| Value::from(*first));
            let dropped = rule(&mut words);
            let role = objects.iter_mut().find(|o| is_role(o)).and_then(|role| role.get_mut("rules"));
            let Some(rules) = role.and_then(Value::as_array_mut) else { return };
            rules.retain(|rule| *rule != dropped);
            for rule in rules {
                let urls = rule.get_mut("nonResourceURLs").and_then(Value::as_array_mut);
                urls.into_iter().for_each(|urls| urls.retain(|own| Some(own) != url.as_ref()));
            }
        }
    }
}

/// Adds a rule to a cluster role, before its last `following` ones. A role that does not exist is made, with its binding.
fn add_rule(objects: &mut Vec<Value>, role: &str, following: usize, rule: Value) {
    let is_role =
        |o: &&mut Value| o.str_at(&["kind"]) == "ClusterRole" && o.str_at(&["metadata", "name"]) == role;
    if let Some(rules) = objects.iter_mut().find(is_role).and_then(|role| role.get_mut("rules")) {
        let Some(rules) = rules.as_array_mut() else { return };
        rules.insert(rules.len().saturating_sub(following), rule);
        return;
    }
    let named = |kind: &str| {
        let mut object = Value::object();
        object.set_at(&["apiVersion"], format!("{RBAC}/v1").as_str().into());
        object.set_at(&["kind"], kind.into());
        object.set_at(&["metadata", "name"], role.into());
        object.set_at(
            &["metadata", "annotations", "rbac.authorization.kubernetes.io/autoupdate"],
            "true".into(),
        );
        object.set_at(&["metadata", "labels", "kubernetes.io/bootstrapping"], "rbac-defaults".into());
        object
    };
    let (mut cluster_role, mut binding) = (named("ClusterRole"), named("ClusterRoleBinding"));
    cluster_role.set_at(&["rules"], Value::Array(vec![rule]));
    for (key, value) in [("apiGroup", RBAC), ("kind", "ClusterRole"), ("name", role)] {
        binding.set_at(&["roleRef", key], value.into());
    }
    let members = match role.strip_prefix(CONTROLLER) {
        Some(account) => [("kind", "ServiceAccount"), ("name", account), ("namespace", "kube-system")],
        None => [("kind", "Group"), ("name", "system:serviceaccounts"), ("apiGroup", RBAC)],
    };
    let mut subject = Value::object();
    members.into_iter().for_each(|(key, value)| subject.set_at(&[key], value.into()));
    binding.set_at(&["subjects"], Value::Array(vec![subject]));
    objects.extend([cluster_role, binding]);
}

fn parse_lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines().filter_map(|line| json::parse(line.as_bytes()).ok().map(|parsed| parsed.value))
}

/// The group of flow schemas and priority levels.
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

/// The default FlowSchemas and PriorityLevelConfigurations, mandatory ones last.
pub(crate) fn flow_objects() -> Vec<Value> {
    let mut objects: Vec<Value> = parse_lines(OBJECTS)
        .filter(|object| object.str_at(&["apiVersion"]).starts_with(FLOW_CONTROL))
        .collect();
    objects.sort_by_key(|object| matches!(object.str_at(&["metadata", "name"]), "exempt" | "catch-all"));
    objects
}

/// The field manager of these objects.
pub(crate) fn manager(group: &str) -> &'static str {
    match group {
        FLOW_CONTROL => "api-priority-and-fairness-config-producer-v1",
        _ => "kube-apiserver",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: KubernetesService = KubernetesService {
        address: IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)),
        port: 6443,
        node_port: 0,
    };

    #[test]
    fn every_line_is_an_object() {
        assert_eq!(parse_lines(OBJECTS).count(), OBJECTS.lines().count());
        let all = objects(&SERVICE, "2026-01-02", |gate| GATED_ROLES.contains(&format!("!{gate} ")));
        assert_eq!(all.len(), OBJECTS.lines().count());
        assert!(all.iter().all(|o| !o.str_at(&["metadata", "name"]).is_empty()));
    }

    #[test]
    fn rules_of_enabled_features_are_added_in_their_place() {
        let all = objects(&SERVICE, "2026-01-02", |_| true);
        let named = |kind: &str, name: &str| {
            let is_it = |o: &&Value| o.str_at(&["kind"]) == kind && o.str_at(&["metadata", "name"]) == name;
            all.iter().find(is_it).unwrap().clone()
        };
        let node = named("ClusterRole", "system:node");
        let last: Vec<&str> = node
            .items_at(&["rules"])
            .iter()
            .rev()
            .take(3)
            .map(|rule| rule.items_at(&["resources"])[0].as_str().unwrap())
            .collect();
        assert_eq!(last, ["podcertificaterequests", "serviceaccounts", "clustertrustbundles"]);
        let migrator = "system:controller:storage-version-migrator-controller";
        assert_eq!(named("ClusterRole", migrator).items_at(&["rules"]).len(), 4);
        let subject = &named("ClusterRoleBinding", migrator).items_at(&["subjects"])[0].clone();
        assert_eq!(subject.str_at(&["name"]), "storage-version-migrator-controller");
        // Each line that removes something has an effect.
        for line in GATED_ROLES.lines().filter_map(|line| line.strip_prefix('!')) {
            let mut rest = all.clone();
            let mut words = line.split(' ').skip(1);
            drop_rule(&mut rest, words.next().unwrap(), &mut words);
            assert_ne!(rest, all, "{line}");
        }
        for line in GATED_ROLES.lines().filter(|line| !line.starts_with('#')) {
            let gate = line.split(' ').next().unwrap().trim_start_matches('!');
            assert!(
                crate::flags::gate_stages(crate::emulation::MINOR).any(|(name, _)| name == gate),
                "{gate}"
            );
        }
    }
}
