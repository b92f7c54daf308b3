//! What goes through to the node of a pod: logs, exec, attach, portforward. Nodes are not reached from here, but what
//! can be told without them is told as it should be.

use crate::{Engine, Target};
use pintle_meta::options::LogOptions;
use pintle_meta::{GroupResource, Reason, Status};
use pintle_value::Value;

impl Engine {
    /// The log of a container: empty while the pod has no node, an error where the node would have to be asked.
    pub fn pod_log(&self, target: &Target, options: &LogOptions) -> Result<(), Status> {
        let pod = self.existing(target)?;
        check_container(&pod, &options.container)?;
        match pod.str_at(&["spec", "nodeName"]) {
            "" => Ok(()),
            node => Err(self.unreachable(node)),
        }
    }

    /// Why a stream to a pod, service or node cannot be had.
    pub(super) fn stream_refusal(&self, target: &Target, container: &str) -> Status {
        if target.subresource == "proxy" {
            return self.proxy_refusal(target).err().unwrap_or_else(nobody_answers);
        }
        let pod = match self.existing(target) {
            Ok(pod) => pod,
            Err(status) => return status,
        };
        if target.subresource != "portforward"
            && let Err(status) = check_container(&pod, container)
        {
            return status;
        }
        match pod.str_at(&["spec", "nodeName"]) {
            "" => Status::bad_request(format!("pod {} does not have a host assigned", target.name)),
            node => self.unreachable(node),
        }
    }

    pub(super) fn existing(&self, target: &Target) -> Result<Value, Status> {
        let missing = || Status::not_found(&target.group_resource(), &target.name);
        self.object_tree(target)?.ok_or_else(missing)
    }

    fn unreachable(&self, node: &str) -> Status {
        self.node_refusal(node).err().unwrap_or_else(nobody_answers)
    }

    /// Why a node cannot even be asked: it is not there, or nothing says where it is.
    pub(super) fn node_refusal(&self, node: &str) -> Result<(), Status> {
        let found =
            self.target("", "v1", "nodes", "", node).and_then(|t| self.object_tree(&t).ok().flatten());
        let found = found.ok_or_else(|| Status::not_found(&GroupResource::new("", "nodes"), node))?;
        if found.items_at(&["status", "addresses"]).is_empty() {
            return Err(Status::unclassified("no preferred addresses found; known addresses: []"));
        }
        Ok(())
    }
}

fn nobody_answers() -> Status {
    Status::new(501, Reason::Unknown, "no node answers here")
}

/// Refuses a container that the pod does not have, or none where it has several.
fn check_container(pod: &Value, container: &str) -> Result<(), Status> {
    let name = pod.str_at(&["metadata", "name"]);
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = || lists.iter().flat_map(|list| pod.items_at(&["spec", list])).map(|c| c.str_at(&["name"]));
    if !container.is_empty() {
        if all().any(|own| own == container) {
            return Ok(());
        }
        return Err(Status::bad_request(format!("container {container} is not valid for pod {name}")));
    }
    let must = format!("a container name must be specified for pod {name}");
    match pod.items_at(&["spec", "containers"]).len() {
        1 => Ok(()),
        0 => Err(Status::bad_request(must)),
        _ => {
            let names: Vec<&str> = all().collect();
            Err(Status::bad_request(format!("{must}, choose one of: [{}]", names.join(" "))))
        }
    }
}
