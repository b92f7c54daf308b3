//! The names of kinds and resources: group, version, kind, plural.

use pintle_value::Str;
use std::fmt;

/// A group and a version. The core group is "".
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// API group; "" is the core group.
    pub group: Str,
    /// Version within the group.
    pub version: Str,
}

impl GroupVersion {
    /// The group-version of these names.
    pub fn new(group: &str, version: &str) -> Self {
        GroupVersion { group: group.into(), version: version.into() }
    }

    /// Parses an `apiVersion`: `v1` or `apps/v1`. The error is kube-apiserver's message.
    pub fn parse(api_version: &str) -> Result<Self, String> {
        if api_version.is_empty() || api_version == "/" {
            return Ok(GroupVersion::default());
        }
        match api_version.split_once('/') {
            None => Ok(GroupVersion::new("", api_version)),
            Some((group, version)) if !version.contains('/') => Ok(GroupVersion::new(group, version)),
            Some(_) => Err(format!("unexpected GroupVersion string: {api_version}")),
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// A group and a kind, without a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// API group; "" is the core group.
    pub group: Str,
    /// Kind, such as `ConfigMap`.
    pub kind: Str,
}

impl GroupKind {
    /// The group-kind of these names.
    pub fn new(group: &str, kind: &str) -> Self {
        GroupKind { group: group.into(), kind: kind.into() }
    }
}

impl fmt::Display for GroupKind {
    /// `ConfigMap` or `Deployment.apps`, as errors name it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.kind)
        } else {
            write!(f, "{}.{}", self.kind, self.group)
        }
    }
}

/// A group and a plural resource name, without a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// API group; "" is the core group.
    pub group: Str,
    /// Plural, such as `configmaps`.
    pub resource: Str,
}

impl GroupResource {
    /// The group-resource of these names.
    pub fn new(group: &str, resource: &str) -> Self {
        GroupResource { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for GroupResource {
    /// `configmaps` or `deployments.apps`, as errors name it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

/// Group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// API group; "" is the core group.
    pub group: Str,
    /// Version within the group.
    pub version: Str,
    /// Kind.
    pub kind: Str,
}

impl GroupVersionKind {
    /// The group-version-kind of these names.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The kind's group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// The kind's group and kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }
}

impl fmt::Display for GroupVersionKind {
    /// `apps/v1, Kind=Deployment`, as kube-apiserver prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// Group, version and plural resource name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionResource {
    /// API group; "" is the core group.
    pub group: Str,
    /// Version within the group.
    pub version: Str,
    /// Plural.
    pub resource: Str,
}

impl GroupVersionResource {
    /// The group-version-resource of these names.
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        GroupVersionResource { group: group.into(), version: version.into(), resource: resource.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_are_read_and_written() {
        for text in ["v1", "apps/v1"] {
            assert_eq!(GroupVersion::parse(text).map(|gv| gv.to_string()), Ok(text.to_string()));
        }
        assert_eq!(GroupVersion::parse("a/b/c"), Err("unexpected GroupVersion string: a/b/c".to_string()));
    }
}
