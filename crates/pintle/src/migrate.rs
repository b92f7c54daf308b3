//! `pintle migrate`: moves all objects between the embedded store and etcd, and compares all of them afterwards.

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::etcd::EtcdSettings;
use crate::flags::{self, Flags, Invocation};
use crate::output::{Output, number, object};
use crate::progress::{self, Progress};
use crate::{encryption, flag_checks, objects, operation};
use bytes::Bytes;
use pintle_engine::{Codec, MASTER_LEASES, PEER_LEASES, is_object_key};
use pintle_store::{Entry, Expect, Key, Options, Revision, Snapshot, Store, Write};
use pintle_store_etcd::Etcd;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

pub(crate) const USAGE: &str = "\
Usage: pintle migrate to-etcd|from-etcd [flags of the server] [-o text|json]

Copies all objects from the store in --data-dir to the etcd of --etcd-servers, or back, and compares all of them afterwards.
The flags are those of the server: --data-dir, --etcd-servers, --etcd-prefix, --etcd-cafile, --etcd-certfile, --etcd-keyfile,
--storage-media-type, --encryption-provider-config, --feature-gates. Stop all servers first. The source is not changed; the
destination must be empty. Revisions continue after those of the source, so that they never decrease for clients.

  -o, --output FORMAT  text (default) or json
";

/// The largest increase of the revision by writing, which takes minutes.
const RAISE_MAX: u64 = 5_000_000;
/// The time limit for etcd to answer and to return all objects.
const CONNECT_MAX: Duration = Duration::from_secs(120);
/// The maximum number of concurrent writes to etcd.
const IN_FLIGHT: usize = 64;

/// Runs the command.
pub(crate) fn run(mut args: Vec<String>) -> Result<(), String> {
    if args.iter().any(|arg| arg == "-h" || arg == "--help") {
        return crate::output::write(USAGE);
    }
    let output = Output::take(&mut args)?;
    let direction = match args.first().map(String::as_str) {
        Some("to-etcd") => Direction::ToEtcd,
        Some("from-etcd") => Direction::FromEtcd,
        Some(other) => return Err(format!("{other:?} is no direction. {}", first_line())),
        None => return Err(format!("an argument is missing. {}", first_line())),
    };
    args.remove(0);
    let flags = match flags::parse(args).map_err(|error| error.to_string())? {
        Invocation::Serve(flags) => flags,
        Invocation::Print(_) => return Err(first_line()),
    };
    let migration = Migration::new(&flags)?;
    // On a terminal, the progress says that the command waits for etcd.
    if !std::io::stderr().is_terminal() {
        operation::start_log(&flags).map_err(|error| error.to_string())?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let moved = runtime.block_on(async {
        match direction {
            Direction::ToEtcd => migration.import().await,
            Direction::FromEtcd => migration.export().await,
        }
    })?;
    let Moved { objects, place, revision } = moved;
    let text = format!("{objects} objects are in {place} and compared; it goes on at revision {revision}\n");
    let tree = object([
        ("objects", number(objects)),
        ("place", place.as_str().into()),
        ("revision", number(revision.0)),
    ]);
    output.print(&text, &tree)
}

/// Where the objects go.
enum Direction {
    ToEtcd,
    FromEtcd,
}

/// The result of a migration.
struct Moved {
    objects: usize,
    /// The store that has the objects now.
    place: String,
    /// The last revision there.
    revision: Revision,
}

fn first_line() -> String {
    USAGE.lines().next().unwrap_or_default().to_owned()
}

struct Migration {
    config: Config,
    folder: PathBuf,
}

impl Migration {
    fn new(flags: &Flags) -> Result<Migration, String> {
        let config = flag_checks::check(flags).and_then(|()| Config::new(flags));
        let config = config.map_err(|error| error.to_string())?;
        match &config.etcd {
            None => return Err("--etcd-servers must name an etcd".into()),
            Some(etcd) if etcd.has_overrides() => {
                return Err("--etcd-servers-overrides: objects can only be moved to and from one etcd".into());
            }
            Some(_) => {}
        }
        let folder = config.data_dir.clone().ok_or("--data-dir must name a folder")?;
        Ok(Migration { config, folder })
    }

    fn etcd(&self) -> Result<&EtcdSettings, String> {
        self.config.etcd.as_ref().ok_or_else(|| "--etcd-servers must name an etcd".into())
    }

    async fn read_codecs(&self) -> Result<Codecs, String> {
        let encryption =
            encryption::load(&self.config.encryption).await.map_err(|error| error.to_string())?;
        let kinds = objects::all_builtin_kinds();
        Ok(Codecs {
            embedded: objects::embedded_codec(&kinds, encryption.clone()),
            etcd: objects::etcd_codec(self.etcd()?, &self.config, &kinds, encryption),
        })
    }

    async fn connect(&self) -> Result<Etcd, String> {
        let connect = tokio::time::timeout(CONNECT_MAX, self.etcd()?.connect());
        match progress::during_future("waiting for etcd", connect).await {
            Ok(connected) => connected.map_err(|error| error.to_string()),
            Err(_) => {
                let servers = self.etcd()?.endpoints();
                Err(format!("etcd at {servers} does not answer within {} s", CONNECT_MAX.as_secs()))
            }
        }
    }

    /// Copies from the data folder to etcd.
    async fn import(&self) -> Result<Moved, String> {
        let _held = DataDir::open(&self.folder).map_err(|error| error.to_string())?;
        let store = self.folder.join("store");
        let source = progress::during("reading the store", || pintle_store::read_state(&store))
            .map_err(|error| format!("cannot read the store in {}: {error}", store.display()))?;
        let codecs = self.read_codecs().await?;
        let etcd = Arc::new(self.connect().await?);
        let found = etcd.snapshot_state();
        if let Some((key, _)) = found.iter().next() {
            return Err(format!(
                "etcd is not empty: {key} and {} other keys are there",
                found.len().saturating_sub(1)
            ));
        }
        self.raise_revision(&etcd, source.revision()).await?;
        let objects = decode_all(&source, &codecs.embedded)?;
        write_all(&etcd, &objects, &codecs.etcd).await?;
        let revision = etcd.barrier().await.map_err(|error| error.to_string())?;
        let written = etcd.read_at("/registry", revision).await.map_err(|error| error.to_string())?;
        compare(&objects, &decode_all(&written, &codecs.etcd)?)?;
        etcd.close().await;
        Ok(Moved { objects: objects.len(), place: "etcd".to_string(), revision })
    }

    /// Raises etcd's revision above all revisions that clients have seen.
    async fn raise_revision(&self, etcd: &Etcd, above: Revision) -> Result<(), String> {
        let writes = above.0.saturating_sub(etcd.revision().0);
        if writes > RAISE_MAX {
            return Err(format!(
                "the revision of etcd must rise by {writes} first, and each takes a write: raise it with \
                 etcdutl snapshot restore --bump-revision {writes} --mark-compacted (etcd 3.6)"
            ));
        }
        let mut progress = Progress::new("reached");
        let raised = etcd.raise_revision(above, |revision| progress.show(revision, "revisions")).await;
        progress.end();
        raised.map(drop).map_err(|error| format!("cannot raise the revision of etcd: {error}"))
    }

    /// Copies from etcd to the data folder.
    async fn export(&self) -> Result<Moved, String> {
        let _held = DataDir::open(&self.folder).map_err(|error| error.to_string())?;
        let codecs = self.read_codecs().await?;
        let etcd = self.connect().await?;
        let revision = etcd.barrier().await.map_err(|error| error.to_string())?;
        let source = etcd.read_at("/registry", revision).await.map_err(|error| error.to_string())?;
        etcd.close().await;
        if let Some((key, _)) = source.iter().find(|(key, _)| is_member(key)) {
            return Err(format!("a server is running on etcd, or ended within the last 15 seconds: {key}"));
        }
        let objects = decode_all(&source, &codecs.etcd)?;
        let stored = encode_all(&objects, &codecs.embedded)?;
        let store = self.folder.join("store");
        let path_text = store.display();
        pintle_store::restore(&store, &stored, &Options::default())
            .map_err(|error| format!("{path_text}: {error}"))?;
        let written = progress::during("reading the store again", || pintle_store::read_state(&store))
            .map_err(|error| format!("{path_text}: {error}"))?;
        compare(&objects, &decode_all(&written, &codecs.embedded)?)?;
        Ok(Moved { objects: objects.len(), place: path_text.to_string(), revision })
    }
}

/// The codecs of both stores.
struct Codecs {
    embedded: Codec,
    etcd: Codec,
}

/// Returns whether a key belongs to a server's lease, which is not moved.
fn is_member(key: &str) -> bool {
    key.starts_with(MASTER_LEASES) || key.starts_with(PEER_LEASES)
}

/// Decodes all objects. Fails if one cannot be decoded, so that none is lost.
fn decode_all(stored: &Snapshot, codec: &Codec) -> Result<Snapshot, String> {
    let mut progress = Progress::new("read");
    let mut entries: Vec<(Key, Entry)> = Vec::with_capacity(stored.len());
    for (index, (key, entry)) in stored.iter().filter(|(key, _)| !is_member(key)).enumerate() {
        progress.show(index as u64, "objects");
        let value = codec.decode(key, &entry.value);
        if let Some(why) = pintle_cache::unreadable_reason(&value) {
            return Err(format!("{key} cannot be read, nothing was moved: {why}"));
        }
        entries.push((key.clone(), Entry { value: pintle_cache::clear_outdated(value), ..entry.clone() }));
    }
    progress.end();
    Ok(Snapshot::from_entries(stored.revision(), entries))
}

fn encode_all(objects: &Snapshot, codec: &Codec) -> Result<Snapshot, String> {
    let encode = |(key, entry): (&Key, &Entry)| {
        let value = codec.encode(key, &entry.value, None).map_err(|error| format!("{key}: {}", error.0))?;
        Ok((key.clone(), Entry { value, ..entry.clone() }))
    };
    let entries: Result<Vec<(Key, Entry)>, String> = objects.iter().map(encode).collect();
    Ok(Snapshot::from_entries(objects.revision(), entries?))
}

/// Writes the objects in the order of their last modification, except for concurrent ones.
async fn write_all(etcd: &Arc<Etcd>, objects: &Snapshot, codec: &Codec) -> Result<(), String> {
    let mut progress = Progress::new("written");
    let mut order: Vec<(&Key, &Entry)> = objects.iter().collect();
    order.sort_by_key(|(_, entry)| entry.modified);
    let mut writes: JoinSet<Result<(), String>> = JoinSet::new();
    for (index, (key, entry)) in order.into_iter().enumerate() {
        progress.show(index as u64, "objects");
        if writes.len() >= IN_FLIGHT {
            write_outcome(writes.join_next().await)?;
        }
        let value: Bytes =
            codec.encode(key, &entry.value, None).map_err(|error| format!("{key}: {}", error.0))?;
        let (etcd, key) = (etcd.clone(), key.clone());
        writes.spawn(async move {
            let write = Write::put(key.clone(), Expect::Absent, value);
            etcd.write(write).await.map(drop).map_err(|error| format!("{key}: {error}"))
        });
    }
    while !writes.is_empty() {
        write_outcome(writes.join_next().await)?;
    }
    progress.end();
    Ok(())
}

fn write_outcome(written: Option<Result<Result<(), String>, tokio::task::JoinError>>) -> Result<(), String> {
    match written {
        None => Ok(()),
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) => Err(error.to_string()),
    }
}

/// Checks that every object exists unchanged, and no other.
fn compare(source: &Snapshot, written: &Snapshot) -> Result<(), String> {
    let mut progress = Progress::new("compared");
    for (index, (key, entry)) in source.iter().enumerate() {
        progress.show(index as u64, "objects");
        if !written.get(key).is_some_and(|found| is_same(key, &entry.value, &found.value)) {
            return Err(format!("{key} did not arrive as it was"));
        }
    }
    progress.end();
    if written.len() == source.len() {
        Ok(())
    } else {
        Err(format!("{} objects arrived instead of {}", written.len(), source.len()))
    }
}

/// Whether two values are the same object. Allocations have another encoding in each store, and every server recomputes
/// them at start.
fn is_same(key: &str, source: &[u8], written: &[u8]) -> bool {
    let tree = |value: &[u8]| {
        let json = value.get(pintle_cache::value_header(0).len()..)?;
        Some(pintle_value::json::parse(json).ok()?.value)
    };
    !is_object_key(key)
        || source == written
        || tree(source).is_some_and(|source| Some(source) == tree(written))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(values: &[(&str, &str)]) -> Snapshot {
        let entry = |text: &str| Entry {
            value: Bytes::copy_from_slice(text.as_bytes()),
            created: Revision(2),
            modified: Revision(3),
        };
        let entries = values.iter().map(|(key, text)| (Key::from(*key), entry(text)));
        Snapshot::from_entries(Revision(9), entries)
    }

    #[test]
    fn what_did_not_arrive_is_noticed() {
        let source = state(&[("/registry/configmaps/d/a", "....1"), ("/registry/configmaps/d/b", "....2")]);
        assert_eq!(compare(&source, &source), Ok(()));
        for other in [
            &[("/registry/configmaps/d/a", "....1")][..],
            &[("/registry/configmaps/d/a", "....1"), ("/registry/configmaps/d/b", "....3")],
            &[
                ("/registry/configmaps/d/a", "....1"),
                ("/registry/configmaps/d/b", "....2"),
                ("/registry/configmaps/d/c", "....3"),
            ],
        ] {
            assert!(compare(&source, &state(other)).is_err(), "{other:?}");
        }
    }

    #[test]
    fn directions_are_named() {
        for args in [&[][..], &["sideways"], &["to-etcd"]] {
            assert!(run(args.iter().map(|arg| (*arg).to_owned()).collect()).is_err(), "{args:?}");
        }
    }
}
