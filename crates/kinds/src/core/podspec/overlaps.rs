//! Warns about files of one volume that would hide each other.

use crate::fields::{list, member, text};
use pintle_meta::field::quoted;
use pintle_value::Value;

/// How many overlaps of one volume are reported. kube-apiserver reports all of them, but the warnings of a response end after
/// 4096 characters.
const OVERLAPS_MAX: usize = 1000;

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

    /// Returns whether the other path is this one or below it.
    fn contains(&self, other: &Place) -> bool {
        let rest = other.path.strip_prefix(&self.path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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
            add(&format!("ConfigMap {}", quoted(text(map, "name"))), describe_overlaps(items(map, "")));
        }
        if let Some(secret) = member(volume, "secret") {
            add(
                &format!("Secret {}", quoted(text(secret, "secretName"))),
                describe_overlaps(items(secret, "")),
            );
        }
        if let Some(downward) = member(volume, "downwardAPI") {
            add("DownwardAPI", describe_overlaps(items(downward, "")));
        }
        if let Some(projected) = member(volume, "projected") {
            let sources = list(projected, "sources");
            let empty = |s: &&Value| s.as_object().is_none_or(|m| m.is_empty());
            let places = sources.iter().flat_map(places_of).collect();
            let overlapping = describe_overlaps(places);
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

fn places_of(source: &Value) -> Vec<Place> {
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

/// Describes the pairs of places of which one contains the other, at most [`OVERLAPS_MAX`]: each place with the earlier ones,
/// in order.
fn describe_overlaps(places: Vec<Place>) -> Vec<String> {
    let mut sorted: Vec<(usize, &Place)> =
        places.iter().enumerate().filter(|(_, place)| !place.path.is_empty()).collect();
    // In this order, what a path contains follows it, so that not all pairs must be compared.
    sorted.sort_by(|(_, a), (_, b)| a.path.split('/').cmp(b.path.split('/')));
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let mut containing: Vec<(usize, &Place)> = Vec::new();
    for (at, place) in sorted {
        while containing.pop_if(|(_, outer)| !outer.contains(place)).is_some() {}
        let room = OVERLAPS_MAX.saturating_sub(pairs.len());
        pairs.extend(containing.iter().take(room).map(|(outer, _)| (at.max(*outer), at.min(*outer))));
        if room == 0 {
            break;
        }
        containing.push((at, place));
    }
    pairs.sort_unstable();
    let text = |at: usize| places.get(at).map(Place::error_text).unwrap_or_default();
    pairs.into_iter().map(|(later, earlier)| format!("{} with {}", text(later), text(earlier))).collect()
}

#[cfg(test)]
mod tests {
    use super::warnings;
    use crate::testing::tree;

    #[test]
    fn overlaps_are_found_in_linear_time_and_limited() {
        let volume = |paths: &mut dyn Iterator<Item = String>| {
            let items: Vec<String> = paths.map(|path| format!(r#"{{"path":"{path}"}}"#)).collect();
            tree(&format!(r#"[{{"name":"v","secret":{{"items":[{}]}}}}]"#, items.join(",")))
        };
        let overlaps = |volumes: &pintle_value::Value| warnings(volumes.as_array().unwrap());
        let names = |path: &str| path.split(' ').map(str::to_string).collect::<Vec<_>>();
        let few = volume(&mut names("a/b a-b a a a/b/c b").into_iter());
        let found: Vec<String> = overlaps(&few);
        let pairs: Vec<&str> = found.iter().filter_map(|text| text.split(": ").last()).collect();
        let expected = [
            r#""a" with "a/b""#,
            r#""a" with "a/b""#,
            r#""a" with "a""#,
            r#""a/b/c" with "a/b""#,
            r#""a/b/c" with "a""#,
            r#""a/b/c" with "a""#,
        ];
        assert_eq!(pairs, expected);
        // Comparing all pairs of these would take minutes.
        assert_eq!(overlaps(&volume(&mut (0..100_000).map(|number| number.to_string()))).len(), 0);
        let nested = (1..500).map(|depth| vec!["a"; depth].join("/"));
        assert_eq!(overlaps(&volume(&mut nested.into_iter())).len(), super::OVERLAPS_MAX);
    }

    #[test]
    fn files_that_hide_each_other_are_reported() {
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
