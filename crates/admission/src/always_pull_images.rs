//! AlwaysPullImages: sets the pull policy to Always, so that a pod cannot use a cached image without the right to pull
//! it.

use crate::{Attributes, Mutation, Operation, Plugin, Validation, resources};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, Status};
use pintle_value::{Path, Value};

const ALWAYS: &str = "Always";
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

pub(crate) struct AlwaysPullImages;

impl Plugin for AlwaysPullImages {
    fn mutate(&self, Mutation { request, object: pod, .. }: Mutation<'_>) -> Result<(), Status> {
        if !applies(request, pod) {
            return Ok(());
        }
        for list in CONTAINERS {
            let containers = pod.at_mut(&["spec", list]).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                container.set_at(&["imagePullPolicy"], ALWAYS.into());
            }
        }
        let volumes = pod.at_mut(&["spec", "volumes"]).and_then(Value::as_array_mut);
        for image in volumes.into_iter().flatten().filter_map(|volume| volume.get_mut("image")) {
            image.set_at(&["pullPolicy"], ALWAYS.into());
        }
        Ok(())
    }

    /// A webhook or policy may have changed a pull policy since.
    fn validate(&self, Validation { request, object, .. }: Validation<'_>) -> Result<(), Status> {
        let Some(pod) = object.filter(|pod| applies(request, pod)) else { return Ok(()) };
        let root = Path::of("spec");
        let mut errors = FieldErrors::new();
        let mut check = |path: &Path<'_>, policy: &str| {
            if policy != ALWAYS {
                errors.not_supported(path, Named(policy), &[ALWAYS]);
            }
        };
        for list in CONTAINERS {
            for (index, container) in pod.items_at(&["spec", list]).iter().enumerate() {
                let path = root.field(list);
                check(&path.index(index).field("imagePullPolicy"), container.str_at(&["imagePullPolicy"]));
            }
        }
        for (index, volume) in pod.items_at(&["spec", "volumes"]).iter().enumerate() {
            let Some(image) = volume.get("image") else { continue };
            let path = root.field("volumes");
            check(&path.index(index).field("image").field("pullPolicy"), image.str_at(&["pullPolicy"]));
        }
        // kube-apiserver joins one refusal for each of them, which is no Status.
        let refusals = errors.0.iter().map(|error| request.forbidden(object, &error.to_string()).message);
        match resources::join_errors(refusals.collect()) {
            Some(why) => Err(Status::unclassified(why)),
            None => Ok(()),
        }
    }
}

/// Returns whether the plugin applies: to new pods, and to updates with new images.
fn applies(request: &Attributes<'_>, pod: &Value) -> bool {
    let writes = matches!(request.operation, Operation::Create | Operation::Update);
    let is_known = |old: &Value| images(pod).all(|image| images(old).any(|known| known == image));
    writes && request.is("", "pods") && request.subresource.is_empty() && !request.old.is_some_and(is_known)
}

fn images(pod: &Value) -> impl Iterator<Item = &str> {
    let all = CONTAINERS.into_iter().flat_map(|list| pod.items_at(&["spec", list]));
    all.map(|container| container.str_at(&["image"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, admitted, kind, text, tree, with_request};

    #[test]
    fn new_images_are_always_pulled() {
        let pods = kind("", "pods");
        let cluster = Objects::of(&[]);
        let pod = r#"{"spec":{"containers":[{"image":"a","imagePullPolicy":"Never"}],"volumes":[{"image":{"reference":"b"}}]}}"#;
        let (pod, _) = admitted(&AlwaysPullImages, &pods, pod, &cluster).unwrap();
        assert_eq!(
            text(&pod),
            r#"{"spec":{"containers":[{"image":"a","imagePullPolicy":"Always"}],"volumes":[{"image":{"pullPolicy":"Always","reference":"b"}}]}}"#
        );
        let old = tree(r#"{"spec":{"containers":[{"image":"a","imagePullPolicy":"Never"}]}}"#);
        let mut same = old.clone();
        with_request(&pods, Some(&old), |request| {
            AlwaysPullImages.mutate(Mutation { request, object: &mut same, cluster: &cluster })
        })
        .unwrap();
        assert_eq!(same, old);
    }
}
