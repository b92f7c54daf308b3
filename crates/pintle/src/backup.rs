//! `pintle backup` and `pintle restore`: write all objects to a file, also while the server runs, and restore them.

use crate::arguments::{self, Syntax};
use crate::data_dir::DataDir;
use crate::output::{Output, number, object};
use crate::progress::{self, Progress};
use pintle_store::{Options, REVISION_JUMP, Revision, Snapshot};
use pintle_value::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub(crate) const BACKUP: Syntax = Syntax {
    usage: "\
Usage: pintle backup FILE [--data-dir DIR] [-o text|json]

Writes a consistent snapshot of all objects to FILE, or to stdout for -. The server may be running. Values that the server encrypts are
encrypted in the file, too. Keys and certificates (DIR/pki) are not included.

      --data-dir DIR   The server's data folder (default ./pintle-data)
  -o, --output FORMAT  text (default) or json
",
    values: &["data-dir", "output"],
    switches: &[],
    operands: 1..=1,
};

pub(crate) const RESTORE: Syntax = Syntax {
    usage: "\
Usage: pintle restore FILE [--data-dir DIR] [-o text|json]

Creates a store in DIR from a backup, reads it again and compares every object. An existing store is not changed: move
DIR/store away first, but leave DIR/pki. Revisions continue far after those of the backup, so that no revision that a client
has seen is used again.

      --data-dir DIR   The server's data folder (default ./pintle-data)
  -o, --output FORMAT  text (default) or json
",
    values: &["data-dir", "output"],
    switches: &[],
    operands: 1..=1,
};

/// Runs `pintle backup`.
pub(crate) fn backup(args: Vec<String>) -> Result<(), String> {
    let Some(arguments) = arguments::parse(&BACKUP, args)? else { return Ok(()) };
    let store = arguments.data_dir().join("store");
    let output = Output::parse(arguments.value("output"))?;
    let state = progress::during("reading the store", || pintle_store::read_state(&store))
        .map_err(|error| format!("cannot read the store in {}: {error}", store.display()))?;
    let file = match arguments.operand(0) {
        "-" => PathBuf::from("/dev/stdout"),
        name => PathBuf::from(name),
    };
    write(&state, &file).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    if arguments.operand(0) == "-" {
        return Ok(());
    }
    let text =
        format!("{} objects at revision {} are in {}\n", state.len(), state.revision(), file.display());
    let tree = object([
        ("file", file.display().to_string().into()),
        ("objects", number(state.len())),
        ("revision", number(state.revision().0)),
    ]);
    output.print(&text, &tree)
}

/// Writes the file atomically, readable only by its owner. Devices and pipes are written to, not replaced, and so is the file
/// that a link leads to.
fn write(state: &Snapshot, target: &Path) -> std::io::Result<()> {
    if std::fs::metadata(target).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return write_to(OpenOptions::new().write(true).open(target)?, state).map(drop);
    }
    let target = &std::fs::canonicalize(target).unwrap_or_else(|_| target.to_path_buf());
    let mut beside = target.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&beside)?;
    let written = write_to(file, state).and_then(|file| {
        file.sync_all()?;
        std::fs::rename(&beside, target)
    });
    written.inspect_err(|_| _ = std::fs::remove_file(&beside))
}

fn write_to(file: File, state: &Snapshot) -> std::io::Result<File> {
    let mut out = BufWriter::new(Counted { file, written: 0, progress: Progress::new("written") });
    let written = pintle_store::write_backup(state, &mut out).and_then(|()| out.flush());
    out.get_mut().progress.end();
    written?;
    Ok(out.into_inner()?.file)
}

/// Runs `pintle restore`.
pub(crate) fn restore(args: Vec<String>) -> Result<(), String> {
    let Some(arguments) = arguments::parse(&RESTORE, args)? else { return Ok(()) };
    let source = PathBuf::from(arguments.operand(0));
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", source.display());
    let output = Output::parse(arguments.value("output"))?;
    let mut input = BufReader::new(File::open(&source).map_err(|e| named(&e))?);
    let state = progress::during("reading the backup", || pintle_store::read_backup(&mut input))
        .map_err(|e| named(&e))?;
    let path = arguments.data_dir();
    let _held = DataDir::open(&path).map_err(|e| e.to_string())?;
    let store = path.join("store");
    let renumbered = state.renumbered(Revision(state.revision().0.saturating_add(REVISION_JUMP)));
    progress::during("writing the store", || pintle_store::restore(&store, &renumbered, &Options::default()))
        .map_err(|error| format!("{}: {error}", store.display()))?;
    let restored = progress::during("reading the store again", || pintle_store::read_state(&store))
        .map_err(|error| error.to_string())?;
    let unreadable = compare(&state, &restored)?;
    let text = format!(
        "{} objects are restored and compared; the store goes on at revision {}\n",
        restored.len(),
        restored.revision()
    );
    let tree = object([
        ("objects", number(restored.len())),
        ("revision", number(restored.revision().0)),
        ("unreadable", Value::Array(unreadable.iter().map(|key| key.as_str().into()).collect())),
    ]);
    output.print(&text, &tree)?;
    match unreadable.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(format!(
            "{} objects are as they were in the backup, but cannot be read, such as {first}",
            unreadable.len()
        )),
    }
}

/// Checks that both have the same objects with the same bytes. Returns those that look like JSON but are not.
fn compare(backup: &Snapshot, restored: &Snapshot) -> Result<Vec<String>, String> {
    let mut progress = Progress::new("compared");
    let mut unreadable = Vec::new();
    if backup.len() != restored.len() {
        return Err(format!("{} objects were restored instead of {}", restored.len(), backup.len()));
    }
    for (index, (key, entry)) in backup.iter().enumerate() {
        progress.show(index as u64, "objects");
        match restored.get(key) {
            Some(found) if found.value == entry.value && found.modified > entry.modified => {}
            _ => return Err(format!("{key} was not restored as it is in the backup")),
        }
        if entry.value.starts_with(b"{") && json::parse(&entry.value).is_err() {
            unreadable.push(key.to_string());
        }
    }
    progress.end();
    Ok(unreadable)
}

/// A file that counts the bytes written to it.
struct Counted {
    file: File,
    written: u64,
    progress: Progress,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.written = self.written.saturating_add(count as u64);
        self.progress.show(self.written >> 10, "KiB");
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
