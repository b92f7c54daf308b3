//! Chores of the workspace: `cargo xtask kinds [REFERENCE]` writes the tables of the built-in kinds.

mod reference;
mod resources;
mod schemas;
mod sha256;
mod types;
#[cfg(test)]
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where the reference data is, seen from the root of the workspace.
const REFERENCE: &str = "../shared/reference";
/// Where the tables are, seen from the root of the workspace.
const TABLES: &str = "crates/kinds/data";

/// Why a chore failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path}: {message}")]
    Format { path: PathBuf, message: String },
    #[error("usage: cargo xtask kinds [REFERENCE]")]
    Usage,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() != Some("kinds") {
        return Err(Error::Usage);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let from = args.next().map_or_else(|| root.join(REFERENCE), PathBuf::from);
    let reference = reference::Reference::read(&from)?;
    write(&root.join(TABLES).join("types.txt"), &types::table(&reference))?;
    write(&root.join(TABLES).join("resources.txt"), &resources::table(&reference))?;
    write(&root.join(TABLES).join("schemas.txt"), &schemas::table(&reference))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|source| Error::Io { path: path.to_owned(), source })
}
