//! The Kubernetes version of this server.

use std::sync::OnceLock;

/// Version of the API that is served.
pub const GIT_VERSION: &str = "v1.36.4";

/// The minor versions of Kubernetes 1 that the server claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulation {
    /// The minor version of Kubernetes that the server behaves like.
    pub minor: u64,
    /// The earliest version that it is compatible with.
    pub min_compatibility_minor: u64,
}

static EMULATION: OnceLock<Emulation> = OnceLock::new();

/// Sets the versions that the server claims. Only the first call has an effect, and only before the first request.
pub fn emulate(emulation: Emulation) {
    _ = EMULATION.set(emulation);
}

fn emulation() -> Emulation {
    *EMULATION.get_or_init(|| Emulation { minor: 36, min_compatibility_minor: 35 })
}

/// Major and minor version that the server behaves like, as OpenAPI documents name it.
pub(crate) fn emulated() -> String {
    format!("1.{}", emulation().minor)
}

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
    let Emulation { minor, min_compatibility_minor } = emulation();
    format!(
        r#"{{
  "major": "1",
  "minor": "36",
  "emulationMajor": "1",
  "emulationMinor": "{minor}",
  "minCompatibilityMajor": "1",
  "minCompatibilityMinor": "{min_compatibility_minor}",
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
