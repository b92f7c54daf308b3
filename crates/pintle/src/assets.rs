//! `pintle assets`: a folder for `KUBEBUILDER_ASSETS`, with Pintle under the names of the programs that envtest starts.

use crate::arguments::{self, Syntax};
use crate::output::Output;
use pintle_value::json;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

pub(crate) const ASSETS: Syntax = Syntax {
    usage: "\
Usage: pintle assets DIR [--copy] [--force] [-o text|json]

Creates DIR with links kube-apiserver and etcd to Pintle, and kubectl if it is on PATH. Test frameworks that read
KUBEBUILDER_ASSETS (controller-runtime's envtest and others) then start Pintle:

  eval \"$(pintle assets DIR)\" && go test ./...

      --copy         Copy the programs instead of linking to them, for a folder that is moved to another machine
      --force        Replace existing files that are not links
  -o, --output json  Print {\"assets\": DIR, \"kubectl\": PATH} instead of the shell command
",
    values: &["output"],
    switches: &["copy", "force"],
    operands: 1..=1,
};

/// The names under which envtest starts Pintle.
const PINTLE_NAMES: [&str; 2] = ["kube-apiserver", "etcd"];

/// Why the folder could not be created, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AssetsError {
    #[error("{0}")]
    Usage(String),
    #[error("cannot find the path of this program: {0}")]
    OwnPath(io::Error),
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    #[error("{0} exists and is not a link: choose another folder, or replace it with --force")]
    Occupied(PathBuf),
}

/// Runs the command with the arguments after its name.
pub(crate) fn run(args: Vec<String>) -> Result<(), AssetsError> {
    let Some(arguments) = arguments::parse(&ASSETS, args).map_err(AssetsError::Usage)? else { return Ok(()) };
    let as_json = Output::parse(arguments.value("output")).map_err(AssetsError::Usage)? == Output::Json;
    let own = std::env::current_exe().map_err(AssetsError::OwnPath)?;
    let folder = PathBuf::from(arguments.operand(0));
    let placing = Placing { copy: arguments.has("copy"), force: arguments.has("force") };
    let folder = make_folder(&folder)?;
    for name in PINTLE_NAMES {
        placing.place(&own, &folder.join(name))?;
    }
    let kubectl = find_kubectl(&folder, std::env::var_os("PATH").as_deref());
    match &kubectl {
        Some(path) => placing.place(path, &folder.join("kubectl"))?,
        None => {
            let hint = "there is no kubectl on PATH, so the folder has none; suites that run it need one (install it and run this again)";
            _ = writeln!(io::stderr(), "pintle assets: {hint}");
        }
    }
    let text = if as_json { as_json_text(&folder, kubectl.as_deref()) } else { shell_command(&folder) };
    crate::output::write(&text).map_err(AssetsError::Usage)
}

fn make_folder(folder: &Path) -> Result<PathBuf, AssetsError> {
    let failed = |error| AssetsError::File(folder.to_path_buf(), error);
    fs::create_dir_all(folder).map_err(failed)?;
    folder.canonicalize().map_err(failed)
}

/// How programs are placed in the folder.
struct Placing {
    copy: bool,
    force: bool,
}

impl Placing {
    /// Places `program` at `target`. An existing link is replaced; anything else only with `--force`, because it may be a
    /// real kube-apiserver.
    fn place(&self, program: &Path, target: &Path) -> Result<(), AssetsError> {
        let failed = |error| AssetsError::File(target.to_path_buf(), error);
        match fs::symlink_metadata(target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(metadata) if !metadata.is_symlink() && !self.force => {
                return Err(AssetsError::Occupied(target.to_path_buf()));
            }
            Ok(_) => {}
        }
        // Rename a temporary name: a suite that starts at this moment finds the old program or the new one.
        let mut beside = target.as_os_str().to_owned();
        beside.push(format!(".{}.new", std::process::id()));
        let beside = PathBuf::from(beside);
        let made = if self.copy { fs::copy(program, &beside).map(|_| ()) } else { symlink(program, &beside) };
        made.and_then(|()| fs::rename(&beside, target)).map_err(|error| {
            _ = fs::remove_file(&beside);
            failed(error)
        })
    }
}

/// The first kubectl on the path that is not in the folder itself.
fn find_kubectl(folder: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    let folders = folders.filter_map(|place| place.canonicalize().ok()).filter(|place| place != folder);
    folders.map(|place| place.join("kubectl")).find(is_program)
}

/// The shell command that makes test frameworks use the folder.
fn shell_command(folder: &Path) -> String {
    let quoted = folder.display().to_string().replace('\'', r"'\''");
    format!("export KUBEBUILDER_ASSETS='{quoted}'\n")
}

fn as_json_text(folder: &Path, kubectl: Option<&Path>) -> String {
    let text = |path: &Path| {
        let mut out = Vec::new();
        json::write_string(&path.display().to_string(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    format!(
        "{{\"assets\":{},\"kubectl\":{}}}\n",
        text(folder),
        kubectl.map_or_else(|| "null".to_string(), text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pintle-assets-{}-{name}", std::process::id()));
        _ = fs::remove_dir_all(&folder);
        make_folder(&folder).unwrap()
    }

    #[test]
    fn links_are_replaced_and_files_only_by_force() {
        let folder = folder("place");
        let program = folder.join("program");
        fs::write(&program, "#!").unwrap();
        let target = folder.join("etcd");
        let link = Placing { copy: false, force: false };
        link.place(&program, &target).unwrap();
        link.place(&program, &target).unwrap();
        assert_eq!(fs::read_link(&target).unwrap(), program);
        Placing { copy: true, force: false }.place(&program, &target).unwrap();
        assert!(matches!(link.place(&program, &target), Err(AssetsError::Occupied(_))));
        Placing { copy: false, force: true }.place(&program, &target).unwrap();
        assert!(fs::symlink_metadata(&target).unwrap().is_symlink());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing else is left");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn kubectl_is_looked_for_outside_the_folder() {
        let (assets, bin) = (folder("assets"), folder("bin"));
        for place in [&assets, &bin] {
            fs::write(place.join("kubectl"), "").unwrap();
        }
        let path = std::env::join_paths([&assets, &bin]).unwrap();
        assert_eq!(find_kubectl(&assets, Some(&path)), None, "none can be run");
        for place in [&assets, &bin] {
            fs::set_permissions(place.join("kubectl"), fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(find_kubectl(&assets, Some(&path)), Some(bin.join("kubectl")));
        assert_eq!(find_kubectl(&assets, None), None);
        for place in [assets, bin] {
            fs::remove_dir_all(place).unwrap();
        }
    }

    #[test]
    fn the_command_is_safe_to_evaluate() {
        let text = shell_command(Path::new("/tmp/it's $(here)"));
        assert_eq!(text, "export KUBEBUILDER_ASSETS='/tmp/it'\\''s $(here)'\n");
    }
}
