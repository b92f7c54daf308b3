//! The Kubernetes version of this server.

/// Version of the API that is served.
pub const GIT_VERSION: &str = "v1.36.4";

/// Major and minor version, as OpenAPI documents name it.
pub(crate) const MINOR: &str = "1.36";

/// Returns whether a server may claim this version: ours, with an optional suffix.
pub fn may_be_called(name: &str) -> bool {
    let of_version = |c: char| c.is_ascii_alphanumeric() || "-+.".contains(c);
    name.strip_prefix(GIT_VERSION).is_some_and(|rest| {
        rest.is_empty() || (rest.len() > 1 && rest.starts_with(['-', '+']) && rest.chars().all(of_version))
    })
}

/// Operating system and architecture, by Go's names.
pub fn platform() -> String {
    format!("{}/{}", std::env::consts::OS, go_arch(std::env::consts::ARCH))
}

/// The document of `/version`.
pub(crate) fn document(git_version: &str, git_commit: &str) -> String {
    let platform = platform();
    format!(
        r#"{{
  "major": "1",
  "minor": "36",
  "emulationMajor": "1",
  "emulationMinor": "36",
  "minCompatibilityMajor": "1",
  "minCompatibilityMinor": "35",
  "gitVersion": "{git_version}",
  "gitCommit": "{git_commit}",
  "gitTreeState": "clean",
  "buildDate": "1970-01-01T00:00:00Z",
  "goVersion": "",
  "compiler": "rustc",
  "platform": "{platform}"
}}"#
    )
}

/// Go's name of an architecture, which clients compare with their own.
fn go_arch(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
