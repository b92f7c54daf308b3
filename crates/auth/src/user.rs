//! `UserInfo`: the user of a request.

use std::collections::BTreeMap;

/// The user of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// Name, unique among active users.
    pub name: String,
    /// Unique over time, or "".
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Additional attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// The group with unrestricted access.
    pub const MASTERS: &'static str = "system:masters";
    /// The group of all authenticated users.
    pub const AUTHENTICATED: &'static str = "system:authenticated";
    /// The group of all unauthenticated users.
    pub const UNAUTHENTICATED: &'static str = "system:unauthenticated";
    /// The key in `extra` that identifies the credential.
    pub const CREDENTIAL_ID: &'static str = "authentication.kubernetes.io/credential-id";

    /// A user of this name in these groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        UserInfo {
            name: name.to_string(),
            groups: groups.iter().map(ToString::to_string).collect(),
            ..UserInfo::default()
        }
    }

    /// The anonymous user.
    pub fn anonymous() -> Self {
        UserInfo::new("system:anonymous", &[UserInfo::UNAUTHENTICATED])
    }

    /// A service account, without the group `system:authenticated`.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let group = format!("system:serviceaccounts:{namespace}");
        UserInfo::new(
            &format!("system:serviceaccount:{namespace}:{name}"),
            &["system:serviceaccounts", &group],
        )
    }

    /// An estimate of the memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let texts =
            |all: &[String]| all.iter().map(|text| text.len().saturating_add(size_of::<String>())).sum();
        let extra = self.extra.iter().map(|(key, values)| {
            let values: usize = texts(values);
            key.len().saturating_add(size_of::<(String, Vec<String>)>()).saturating_add(values)
        });
        let groups: usize = texts(&self.groups);
        [size_of::<Self>(), self.name.len(), self.uid.len(), groups, extra.sum()].into_iter().sum()
    }

    /// Whether the user is in `group`.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Adds the group `system:authenticated`, unless the user is anonymous or already in it.
    pub fn with_authenticated_group(mut self) -> Self {
        if self.name != "system:anonymous"
            && !self.in_group(UserInfo::AUTHENTICATED)
            && !self.in_group(UserInfo::UNAUTHENTICATED)
        {
            self.groups.push(UserInfo::AUTHENTICATED.to_string());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_a_user_count() {
        let bytes = |change: fn(&mut UserInfo)| {
            let mut user = UserInfo::default();
            change(&mut user);
            user.bytes() - UserInfo::default().bytes()
        };
        assert_eq!(bytes(|user| user.name = "n".repeat(100)), 100);
        assert!(bytes(|user| user.groups = vec![String::new(); 1000]) >= 24_000);
        assert!(bytes(|user| _ = user.extra.insert("k".repeat(10), vec!["v".repeat(1000)])) >= 1010);
    }
}
