//! AlwaysPullImages: sets the pull policy to Always, so that a pod cannot use a cached image without the right to pull
//! it.

use crate::{Mutation, Plugin};
use pintle_meta::Status;
use pintle_value::Value;

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

pub(crate) struct AlwaysPullImages;

impl Plugin for AlwaysPullImages {
    fn name(&self) -> &'static str {
        "AlwaysPullImages"
    }

    fn mutate(&self, Mutation { request, object: pod, .. }: Mutation<'_>) -> Result<(), Status> {
        if !request.is("", "pods") || !request.subresource.is_empty() {
            return Ok(());
        }
        if request.old.is_some_and(|old| images(pod).all(|image| images(old).any(|known| known == image))) {
            return Ok(());
        }
        for list in CONTAINERS {
            let containers = pod.at_mut(&["spec", list]).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                container.set_at(&["imagePullPolicy"], "Always".into());
            }
        }
        let volumes = pod.at_mut(&["spec", "volumes"]).and_then(Value::as_array_mut);
        for image in volumes.into_iter().flatten().filter_map(|volume| volume.get_mut("image")) {
            image.set_at(&["pullPolicy"], "Always".into());
        }
        Ok(())
    }
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
