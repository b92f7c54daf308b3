//! `UserInfo`: who makes a request.

use std::collections::BTreeMap;

/// Who makes a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// Name, unique among active users.
    pub name: String,
    /// Unique over time, or "".
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// Group of those who may do anything.
    pub const MASTERS: &'static str = "system:masters";
    /// Group of everybody who is known.
    pub const AUTHENTICATED: &'static str = "system:authenticated";
    /// Group of everybody who is not.
    pub const UNAUTHENTICATED: &'static str = "system:unauthenticated";
    /// Key in `extra` of what names the credential.
    pub const CREDENTIAL_ID: &'static str = "authentication.kubernetes.io/credential-id";

    /// A user of this name in these groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        UserInfo {
            name: name.to_string(),
            groups: groups.iter().map(ToString::to_string).collect(),
            ..UserInfo::default()
        }
    }

    /// Who asks without credentials.
    pub fn anonymous() -> Self {
        UserInfo::new("system:anonymous", &[UserInfo::UNAUTHENTICATED])
    }

    /// A service account, without the group of those who are known.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let group = format!("system:serviceaccounts:{namespace}");
        UserInfo::new(
            &format!("system:serviceaccount:{namespace}:{name}"),
            &["system:serviceaccounts", &group],
        )
    }

    /// Whether the user is in `group`.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Adds the group of those who are known, unless the user is the anonymous one or already in it.
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
