//! Tasks of the workspace: `cargo xtask kinds` generates the tables of the built-in kinds from the facts in `reference/`,
//! and `cargo xtask import DIR` takes these facts from recorded documents of another kube-apiserver version.

mod reference;
mod resources;
mod schemas;
mod sha256;
mod types;
#[cfg(test)]
mod workspace;

use reference::Reference;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The folder of the facts, relative to the workspace.
const REFERENCE: &str = "crates/xtask/reference";
/// The folder of the tables, relative to the workspace.
const TABLES: &str = "crates/kinds/data";

/// Why a task failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path}: {message}")]
    Format { path: PathBuf, message: String },
    #[error("usage: cargo xtask kinds | import DIR")]
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
    let args: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["kinds"] => {}
        ["import", from] => Reference::import(Path::new(from))?.write(&root.join(REFERENCE))?,
        _ => return Err(Error::Usage),
    }
    for (name, text) in tables(&root)? {
        write(&root.join(TABLES).join(name), &text)?;
    }
    Ok(())
}

/// The generated tables by the names of their files.
fn tables(root: &Path) -> Result<[(&'static str, String); 3], Error> {
    let reference = Reference::read(&root.join(REFERENCE))?;
    Ok([
        ("types.txt", types::table(&reference)),
        ("resources.txt", resources::table(&reference)),
        ("schemas.txt", schemas::table(&reference)),
    ])
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|source| Error::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_tables_are_what_the_facts_give() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (name, text) in tables(&root).unwrap() {
            let committed = std::fs::read_to_string(root.join(TABLES).join(name)).unwrap();
            assert!(committed == text, "{name} is not what `cargo xtask kinds` writes");
        }
    }
}
