//! Warns about files of one volume that would hide each other.

use crate::fields::{list, member, text};
use pintle_meta::field::quoted;
use pintle_value::Value;

/// A path inside a volume and its source.
#[derive(PartialEq)]
struct Place {
    path: String,
    source: String,
}

impl Place {
    fn new(path: &str, source: &str) -> Self {
        Place { path: path.trim_end_matches('/').to_string(), source: source.to_string() }
    }

    fn error_text(&self) -> String {
        let path = quoted(&self.path);
        if self.source.is_empty() { path } else { format!("{path} ({})", self.source) }
    }

    /// Returns whether one path equals or contains the other.
    fn overlaps(&self, other: &Place) -> bool {
        let below = |a: &Place, b: &Place| format!("{}/", a.path).starts_with(&format!("{}/", b.path));
        !self.path.is_empty() && !other.path.is_empty() && (below(self, other) || below(other, self))
    }
}

/// Warnings about paths that overlap inside a volume.
pub(crate) fn warnings(volumes: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for volume in volumes {
        let name = quoted(text(volume, "name"));
        let mut add = |what: &str, bodies: Vec<String>| {
            found.extend(
                bodies.into_iter().map(|b| format!("volume {name} ({what}): overlapping paths: {b}")),
            );
        };
        if let Some(map) = member(volume, "configMap") {
            add(&format!("ConfigMap {}", quoted(text(map, "name"))), among(items(map, "")));
        }
        if let Some(secret) = member(volume, "secret") {
            add(&format!("Secret {}", quoted(text(secret, "secretName"))), among(items(secret, "")));
        }
        if let Some(downward) = member(volume, "downwardAPI") {
            add("DownwardAPI", among(items(downward, "")));
        }
        if let Some(projected) = member(volume, "projected") {
            let sources = list(projected, "sources");
            let empty = |s: &&Value| s.as_object().is_none_or(|m| m.is_empty());
            let places = sources.iter().flat_map(places).collect();
            let overlapping = among(places);
            add("Projected", overlapping);
            for _ in sources.iter().filter(empty) {
                found.push(format!("volume {name} (Projected) has no sources provided"));
            }
        }
    }
    found
}

fn items(source: &Value, what: &str) -> Vec<Place> {
    list(source, "items").iter().map(|item| Place::new(text(item, "path"), what)).collect()
}

fn places(source: &Value) -> Vec<Place> {
    let listed = |key: &str| member(source, key).filter(|s| member(s, "items").is_some());
    if let Some(map) = listed("configMap") {
        return items(map, &format!("ConfigMap {}", quoted(text(map, "name"))));
    }
    if let Some(secret) = listed("secret") {
        return items(secret, &format!("Secret {}", quoted(text(secret, "name"))));
    }
    if let Some(downward) = listed("downwardAPI") {
        return items(downward, "DownwardAPI");
    }
    if let Some(token) = member(source, "serviceAccountToken") {
        return vec![Place::new(text(token, "path"), "ServiceAccountToken")];
    }
    if let Some(bundle) = member(source, "clusterTrustBundle") {
        let name =
            if member(bundle, "name").is_some() { text(bundle, "name") } else { text(bundle, "signerName") };
        return vec![Place::new(text(bundle, "path"), &format!("ClusterTrustBundle {}", quoted(name)))];
    }
    let Some(certificate) = member(source, "podCertificate") else { return Vec::new() };
    let paths = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let set = paths.iter().filter(|(key, _)| !text(certificate, key).is_empty());
    set.map(|(key, what)| Place::new(text(certificate, key), what)).collect()
}

fn among(places: Vec<Place>) -> Vec<String> {
    let mut found = Vec::new();
    for (at, place) in places.iter().enumerate() {
        for earlier in places.iter().take(at).filter(|earlier| place.overlaps(earlier)) {
            found.push(format!("{} with {}", place.error_text(), earlier.error_text()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::warnings;
    use crate::testing::tree;

    #[test]
    fn files_that_hide_each_other_are_told() {
        let volumes = tree(
            r#"[{"name":"v","configMap":{"name":"m","items":[{"path":"a"},{"path":"a/b"},{"path":"c"}]}},
                {"name":"p","projected":{"sources":[{}]}}]"#,
        );
        assert_eq!(
            warnings(volumes.as_array().unwrap()),
            [
                r#"volume "v" (ConfigMap "m"): overlapping paths: "a/b" with "a""#,
                r#"volume "p" (Projected) has no sources provided"#,
            ]
        );
    }
}
