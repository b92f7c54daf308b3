//! Destinations on nodes: logs, exec, attach, portforward and `nodes/proxy`.

use super::connect::{Backend, Location, NodeSettings};
use crate::{Target, Writer};
use pintle_meta::Status;
use pintle_meta::options::{LogOptions, Query};
use pintle_value::Value;

/// The kubelet's port if the node's status does not state one.
const KUBELET_PORT: u16 = 10250;

/// The feature that a node declares if its kubelet accepts WebSockets.
const WEBSOCKETS_TO_KUBELETS: &str = "ExtendWebSocketsToKubelet";

impl Writer {
    /// The location of a container's log; `None` while the pod is not assigned to a node.
    pub fn log_location(
        &self,
        target: &Target,
        options: &LogOptions,
        settings: &NodeSettings,
    ) -> Result<Option<Location>, Status> {
        let pod = self.existing_object(target)?;
        let container = container(&pod, &options.container)?;
        let node = pod.str_at(&["spec", "nodeName"]);
        if node.is_empty() {
            return Ok(None);
        }
        let KubeletAddress { host, port, .. } = self.kubelet(target, node, settings)?;
        Ok(Some(Location {
            backend: if options.skips_verification { Backend::UnverifiedKubelet } else { Backend::Kubelet },
            takes_websockets: false,
            is_tls: true,
            host,
            port,
            checked: Vec::new(),
            path: format!("/containerLogs/{}/{}/{container}", target.namespace, target.name),
            query: options.to_kubelet().into_iter().map(|(k, v)| (k.to_string(), v)).collect(),
        }))
    }

    /// The location of a pod's exec, attach or portforward stream.
    pub(super) fn stream_location(
        &self,
        target: &Target,
        query: Query<'_>,
        settings: &NodeSettings,
    ) -> Result<Location, Status> {
        let parameters = stream_parameters(&target.subresource, query)?;
        let pod = self.existing_object(target)?;
        let container = match target.subresource.as_str() {
            "portforward" => None,
            _ => Some(container(&pod, query.text("container"))?),
        };
        let node = pod.str_at(&["spec", "nodeName"]);
        if node.is_empty() {
            return Err(Status::bad_request(format!("pod {} does not have a host assigned", target.name)));
        }
        let KubeletAddress { host, port, takes_websockets } = self.kubelet(target, node, settings)?;
        let path = match container {
            Some(container) => {
                format!("/{}/{}/{}/{container}", target.subresource, target.namespace, target.name)
            }
            None => format!("/portForward/{}/{}", target.namespace, target.name),
        };
        Ok(Location {
            backend: Backend::Kubelet,
            takes_websockets,
            is_tls: true,
            host,
            port,
            checked: Vec::new(),
            path,
            query: parameters,
        })
    }

    pub(super) fn existing_object(&self, target: &Target) -> Result<Value, Status> {
        let missing = || Status::not_found(&target.group_resource(), &target.name);
        self.reader.object_tree(target)?.ok_or_else(missing)
    }

    /// The address of a node's kubelet, by the first preferred address type that the node has.
    pub(super) fn kubelet(
        &self,
        request: &Target,
        node: &str,
        settings: &NodeSettings,
    ) -> Result<KubeletAddress, Status> {
        // kube-apiserver's NotFound names the requested resource, whatever is missing.
        let missing = || Status::not_found(&request.group_resource(), node);
        let target = self.storage.target("", "v1", "nodes", "", node).ok_or_else(missing)?;
        let found = self.reader.object_tree(&target)?.ok_or_else(missing)?;
        let addresses = found.items_at(&["status", "addresses"]);
        let of_type = |kind: &String| addresses.iter().find(|a| a.str_at(&["type"]) == kind.as_str());
        let Some(address) = settings.preferred_address_types.iter().find_map(of_type) else {
            let known: Vec<String> = addresses
                .iter()
                .map(|a| format!("{{{} {}}}", a.str_at(&["type"]), a.str_at(&["address"])))
                .collect();
            let why = format!("no preferred addresses found; known addresses: [{}]", known.join(" "));
            return Err(Status::unclassified(why));
        };
        let port =
            found.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).and_then(Value::as_int);
        let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        let features = found.items_at(&["status", "declaredFeatures"]);
        let declares = features.iter().any(|feature| feature.as_str() == Some(WEBSOCKETS_TO_KUBELETS));
        Ok(KubeletAddress {
            host: address.str_at(&["address"]).to_string(),
            port: port.unwrap_or(KUBELET_PORT),
            takes_websockets: declares && settings.websockets_to_kubelets,
        })
    }
}

/// The address and port of a kubelet.
pub(super) struct KubeletAddress {
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether the kubelet's WebSockets need no translation.
    takes_websockets: bool,
}

/// The parameters of a stream for the kubelet. Ports that are not numbers are refused.
fn stream_parameters(subresource: &str, query: Query<'_>) -> Result<Vec<(String, String)>, Status> {
    let mut out = Vec::new();
    if subresource == "portforward" {
        let mut ports = Vec::new();
        for text in query.all("ports").iter().flat_map(|texts| texts.split(',')) {
            let wrong = match text.parse::<u16>() {
                Ok(port) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                    ports.push(port.to_string());
                    continue;
                }
                Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => "value out of range",
                _ => "invalid syntax",
            };
            return Err(Status::bad_request(format!(
                "cannot convert to []int32: strconv.ParseUint: parsing {}: {wrong}",
                pintle_meta::field::quoted(text)
            )));
        }
        if !ports.is_empty() {
            out.push(("port".to_string(), ports.join(",")));
        }
        return Ok(out);
    }
    for (key, parameter) in [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")] {
        if query.switch(key) == Some(true) {
            out.push((parameter.to_string(), "1".to_string()));
        }
    }
    if subresource == "exec" {
        out.extend(query.all("command").into_iter().map(|word| ("command".to_string(), word.to_string())));
    }
    Ok(out)
}

/// The container of a stream. Refuses one that the pod does not have, and an omitted one if the pod has several.
fn container(pod: &Value, container: &str) -> Result<String, Status> {
    let name = pod.str_at(&["metadata", "name"]);
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = || lists.iter().flat_map(|list| pod.items_at(&["spec", list])).map(|c| c.str_at(&["name"]));
    if !container.is_empty() {
        if all().any(|own| own == container) {
            return Ok(container.to_string());
        }
        return Err(Status::bad_request(format!("container {container} is not valid for pod {name}")));
    }
    let must = format!("a container name must be specified for pod {name}");
    match pod.items_at(&["spec", "containers"]) {
        [only] => Ok(only.str_at(&["name"]).to_string()),
        [] => Err(Status::bad_request(must)),
        _ => {
            let names: Vec<&str> = all().collect();
            Err(Status::bad_request(format!("{must}, choose one of: [{}]", names.join(" "))))
        }
    }
}
