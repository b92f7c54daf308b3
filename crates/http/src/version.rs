//! The version that this server answers as.

/// Version of the API that is served.
pub const GIT_VERSION: &str = "v1.36.4";

/// Major and minor version, as OpenAPI documents name it.
pub(crate) const MINOR: &str = "1.36";

/// The document of `/version`.
pub(crate) fn document() -> String {
    let platform = format!("{}/{}", std::env::consts::OS, go_arch(std::env::consts::ARCH));
    format!(
        r#"{{
  "major": "1",
  "minor": "36",
  "emulationMajor": "1",
  "emulationMinor": "36",
  "minCompatibilityMajor": "1",
  "minCompatibilityMinor": "35",
  "gitVersion": "{GIT_VERSION}",
  "gitCommit": "",
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
