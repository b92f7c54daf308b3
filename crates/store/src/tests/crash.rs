//! Power loss, kills and failed syncs at any point, over many seeds.
//!
//! After reopening, every acknowledged write must be there; a batch in progress is there completely or not at all; a
//! reopened store never loses what it has returned once; revisions have no gap.

use super::small_options;
use crate::conformance::{self, Recorder, join_all};
use crate::recovery;
use crate::sequencer::{Command, Sequencer};
use crate::sim::{Random, SimDisk};
use crate::stage::{Request, Writes};
use crate::*;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

const KEYS: u64 = 6;
const LIVES: u64 = 5;
const BATCHES: u64 = 40;

/// The expected content of the store: every change, from the first on.
#[derive(Default)]
struct Model {
    changes: Vec<(Key, Option<Bytes>)>,
    /// The batch in progress when the disk failed.
    in_doubt: Vec<(Key, Option<Bytes>)>,
    compacted: u64,
}

impl Model {
    fn revision(&self) -> u64 {
        1 + self.changes.len() as u64
    }

    fn state_at(&self, revision: u64) -> BTreeMap<String, Entry> {
        let mut state = BTreeMap::new();
        for (index, (key, value)) in self.changes[..(revision - 1) as usize].iter().enumerate() {
            let modified = Revision(index as u64 + 2);
            let before = state.remove(&**key);
            let created = before.map_or(modified, |entry: Entry| entry.created);
            if let Some(value) = value {
                state.insert(key.to_string(), Entry { value: value.clone(), created, modified });
            }
        }
        state
    }

    /// Checks a reopened store, and takes its content as the expected one from now on.
    fn check(&mut self, loaded: &Loaded) {
        let doubt = std::mem::take(&mut self.in_doubt);
        if loaded.revision.0 != self.revision() {
            assert_eq!(loaded.revision.0, self.revision() + doubt.len() as u64, "all or nothing");
            self.changes.extend(doubt);
        }
        assert!(loaded.compacted.0 >= self.compacted, "history came back");
        self.compacted = loaded.compacted.0;
        let history: Vec<_> =
            loaded.history.iter().map(|change| (change.key.clone(), change.value.clone())).collect();
        assert_eq!(history, self.changes[(self.compacted - 1) as usize..], "history");
        let end = conformance::replay(self.state_at(self.compacted), &loaded.history);
        let entries: BTreeMap<_, _> =
            loaded.entries.iter().map(|(key, entry)| (key.to_string(), entry.clone())).collect();
        assert_eq!(entries, end, "state");
    }

    fn live_keys(&self) -> BTreeSet<Key> {
        let mut live = BTreeSet::new();
        self.changes.iter().for_each(|change| note(&mut live, change));
        live
    }
}

fn note(live: &mut BTreeSet<Key>, (key, value): &(Key, Option<Bytes>)) {
    match value {
        Some(_) => live.insert(key.clone()),
        None => live.remove(key),
    };
}

/// A batch of requests that will all be accepted, and their changes.
fn batch(random: &mut Random, live: &mut BTreeSet<Key>) -> (Vec<Writes>, Vec<(Key, Option<Bytes>)>) {
    let (mut requests, mut changes) = (Vec::new(), Vec::new());
    for _ in 0..=random.below(4) {
        let mut writes: Vec<Write> = Vec::new();
        for _ in 0..=random.below(3) {
            let write = one_write(random, live);
            if writes.iter().all(|other| other.key != write.key) {
                changes.push(match &write.op {
                    Op::Put(value) => (write.key.clone(), Some(value.clone())),
                    Op::Delete => (write.key.clone(), None),
                });
                changes.iter().next_back().into_iter().for_each(|change| note(live, change));
                writes.push(write);
            }
        }
        requests.push(Writes::Many(writes));
    }
    (requests, changes)
}

fn one_write(random: &mut Random, live: &BTreeSet<Key>) -> Write {
    let victim = live.iter().nth(random.below(live.len() as u64) as usize);
    if let Some(victim) = victim.filter(|_| random.chance(20)) {
        return Write::delete(victim.clone(), Expect::Any);
    }
    let length = if random.chance(10) { random.below(3000) } else { random.below(200) };
    let value: Vec<u8> = (0..length).map(|_| random.number() as u8).collect();
    Write::put(format!("/{}", random.below(KEYS)), Expect::Any, value)
}

/// Opens and checks a store, and writes until the disk fails or for some time. Returns `None` if it could not be
/// opened.
fn live(disk: &Arc<SimDisk>, clock: &Arc<ManualClock>, random: &mut Random, model: &mut Model) -> Option<()> {
    // Half of the runs retain segments that they no longer need, the other half removes them.
    let retained = HistoryRetention { time: Duration::from_secs(20), bytes: 16 << 10 };
    let history = (random.below(2) == 0).then_some(retained);
    let options = Options { history, ..small_options(clock.clone()) };
    let recovered = match recovery::open(disk.clone(), &options) {
        Ok(recovered) => recovered,
        Err(OpenError::Io { .. }) => return None,
        Err(error) => panic!("refused to open: {error}"),
    };
    let mut sequencer = Sequencer::resume(disk.clone(), recovered, &options);
    model.check(&sequencer.shared().load(Arc::new(Recorder::default())));
    let mut live = model.live_keys();
    for _ in 0..BATCHES {
        clock.advance_ms(random.below(3000));
        let (requests, changes) = batch(random, &mut live);
        let (commands, answers): (Vec<_>, Vec<_>) = requests.into_iter().map(command).unzip();
        sequencer.run(commands);
        let answers: Vec<_> = answers.into_iter().map(|mut answer| answer.try_recv().unwrap()).collect();
        if answers.iter().any(Result::is_err) {
            assert!(answers.iter().all(Result::is_err), "one sync for all");
            assert!(sequencer.shared().fault().is_some());
            model.in_doubt = changes;
            return Some(());
        }
        model.changes.extend(changes);
        assert_eq!(sequencer.shared().revision().0, model.revision());
    }
    Some(())
}

fn command(writes: Writes) -> (Command, oneshot::Receiver<Result<Revision, WriteError>>) {
    let (reply, answer) = oneshot::channel();
    (Command::Write(Request { writes, reply }), answer)
}

fn simulate(seed: u64) -> (u64, u64) {
    let mut random = Random::new(seed);
    let clock = Arc::new(ManualClock::new(1_000_000));
    let mut model = Model::default();
    let mut disk = Arc::new(SimDisk::default());
    let mut opened = 0;
    model.compacted = 1;
    for _ in 0..LIVES {
        match random.below(4) {
            0 => disk.fail_sync_after(random.below(60), random.number()),
            1 => disk.power_off_after(random.below(40)),
            _ => disk.power_off_after(random.below(300)),
        }
        if random.chance(30) {
            // Little space is left: history must be removed, and writes are refused if that is not enough.
            let names = disk.list().unwrap_or_default();
            let lengths =
                names.iter().filter_map(|name| disk.content(name)).map(|content| content.len() as u64);
            disk.limit_bytes(lengths.sum::<u64>() + random.below(20 << 10));
        }
        opened += u64::from(live(&disk, &clock, &mut random, &mut model).is_some());
        let killed = random.chance(30);
        disk = Arc::new(if killed { disk.after_kill() } else { disk.after_power_loss(&mut random) });
    }
    // With an intact disk the store must open, whatever happened before.
    assert!(live(&disk, &clock, &mut random, &mut model).is_some());
    (opened, model.compacted)
}

/// `PINTLE_STORE_SEEDS` sets more seeds than an ordinary run has time for.
#[test]
fn nothing_acknowledged_is_ever_lost() {
    let seeds: u64 = std::env::var("PINTLE_STORE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let (mut opened, mut compactions) = (0, 0);
    for seed in 0..seeds {
        let outcome = std::panic::catch_unwind(|| simulate(seed));
        let (lives, compacted) = outcome.unwrap_or_else(|_| panic!("seed {seed} failed, see above"));
        opened += lives;
        compactions += u64::from(compacted > 1);
    }
    assert!(opened > seeds * LIVES / 2, "only {opened} of {} lives got past opening", seeds * LIVES);
    assert!(compactions > seeds / 2, "only {compactions} of {seeds} stores were ever compacted");
}

/// The process is killed at every single operation of a fixed run, then started again, then the power fails: names
/// and data that the first process left unsynced must not affect later writes.
#[tokio::test]
async fn killed_at_any_operation_then_power_loss() {
    let options = || small_options(Arc::new(ManualClock::new(1)));
    let put = |index: u8| Write::put(format!("/{index}"), Expect::Any, vec![index; 700]);
    for operations in 0.. {
        let disk = Arc::new(SimDisk::default());
        disk.power_off_after(operations);
        let mut acknowledged = 0;
        if let Ok(store) = Embedded::open_on(disk.clone(), options()) {
            while acknowledged < 8 && store.write(put(acknowledged)).await.is_ok() {
                acknowledged += 1;
            }
            let _ = store.compact(u64::MAX).await;
        }
        let survived = disk.operations() <= operations;
        let disk = Arc::new(disk.after_kill());
        let store = Embedded::open_on(disk.clone(), options()).unwrap();
        store.write(put(100)).await.unwrap();
        store.close().await;
        let visible = store.snapshot_state();
        for seed in 0..4 {
            let disk = Arc::new(disk.after_power_loss(&mut Random::new(seed)));
            let store = Embedded::open_on(disk, options()).unwrap();
            assert!(store.snapshot_state().iter().eq(visible.iter()), "killed after {operations}");
            assert!((0..acknowledged).all(|index| visible.get(&format!("/{index}")).is_some()));
        }
        if survived {
            return;
        }
    }
}

/// The same guarantees with threads: concurrent writers, background compaction, spare segments.
#[tokio::test]
async fn nothing_acknowledged_is_lost_with_threads() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let disk = Arc::new(SimDisk::default());
        let options = || Options { inline: false, ..small_options(Arc::new(ManualClock::new(1))) };
        let store = Embedded::open_on(disk.clone(), options()).unwrap();
        disk.power_off_after(random.below(400));
        let writer = |writer: u64| -> BoxFuture<'_, Option<u64>> {
            let store = &store;
            Box::pin(async move {
                let mut acknowledged = None;
                for round in 0..60u64 {
                    let value = [&round.to_le_bytes()[..], &[writer as u8; 300]].concat();
                    match store.write(Write::put(format!("/{writer}"), Expect::Any, value)).await {
                        Ok(_) => acknowledged = Some(round),
                        Err(_) => break,
                    }
                }
                acknowledged
            })
        };
        let acknowledged = join_all((0..8).map(writer).collect()).await;
        let visible = store.revision();
        drop(store);
        let disk = Arc::new(disk.after_power_loss(&mut random));
        let store = Embedded::open_on(disk, options()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(store.revision() >= visible, "seed {seed}");
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            let state = store.snapshot_state();
            let found = state.get(&format!("/{writer}"));
            let found = found.map(|entry| u64::from_le_bytes(*entry.value.first_chunk().unwrap()));
            assert!(
                found >= *acknowledged,
                "seed {seed}: writer {writer} lost {acknowledged:?}, has {found:?}"
            );
        }
    }
}

const CHILD_FOLDER: &str = "PINTLE_STORE_CHILD_FOLDER";

/// Not a test by itself: the process that [`a_killed_process_loses_nothing`] starts and kills.
#[tokio::test]
async fn child_that_writes_until_killed() {
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    let options = Options {
        history_bytes_max: 256 << 10,
        compact_bytes_min: 64 << 10,
        segment_bytes_min: 16 << 10,
        segment_bytes_max: 64 << 10,
        ..Options::default()
    };
    let store = Embedded::open(std::path::Path::new(&folder), options).unwrap();
    loop {
        let key = |index: u64| format!("/{}", index % 50);
        let next = store.revision().0 + 1;
        let writes = (next..next + 8).map(|at| Write::put(key(at), Expect::Any, vec![at as u8; 500]));
        println!("acknowledged {}", store.commit(writes.collect()).await.unwrap().pop().unwrap());
    }
}

#[test]
fn a_killed_process_loses_nothing() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let folder = super::Folder::new();
    for lines in [1, 40, 5, 100] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::crash::child_that_writes_until_killed", "--nocapture"])
            .env(CHILD_FOLDER, &folder.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let acknowledged = output.map_while(Result::ok).filter(|line| line.contains("acknowledged "));
        let last = acknowledged.take(lines).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let last: u64 = last.rsplit(' ').next().unwrap().parse().unwrap();
        let store = folder.open();
        let revision = store.revision().0;
        assert!(revision >= last, "acknowledged {last}, found {revision}");
        assert_eq!(revision % 8, 1, "transactions are whole");
        for (key, entry) in store.snapshot_state().iter() {
            assert_eq!(format!("/{}", entry.modified.0 % 50), **key);
            assert_eq!(entry.value, vec![entry.modified.0 as u8; 500]);
        }
    }
}

/// A folder that counts how often the file of the next segment is created and put in place.
struct CountingDisk {
    disk: FolderDisk,
    created: AtomicU64,
    placed: AtomicU64,
}

impl Disk for CountingDisk {
    fn list(&self) -> std::io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> std::io::Result<Box<dyn DiskFile>> {
        self.disk.open(name)
    }

    fn create(&self, name: &str) -> std::io::Result<Box<dyn DiskFile>> {
        self.created.fetch_add(u64::from(name == "spare.tmp"), Ordering::SeqCst);
        self.disk.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.placed.fetch_add(u64::from(from == "spare.tmp"), Ordering::SeqCst);
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> std::io::Result<()> {
        self.disk.sync_dir()
    }

    fn free_bytes(&self) -> std::io::Result<u64> {
        self.disk.free_bytes()
    }
}

/// Two threads that fill the same file would overwrite the segment that it becomes.
#[tokio::test]
async fn the_file_of_the_next_segment_is_made_once() {
    let folder = super::Folder::new();
    let disk = FolderDisk::open(&folder.0).unwrap();
    let disk = Arc::new(CountingDisk { disk, created: AtomicU64::new(0), placed: AtomicU64::new(0) });
    let options = Options { segment_bytes_min: 16 << 10, segment_bytes_max: 64 << 10, ..Options::default() };
    let store = Embedded::open_on(disk.clone(), options).unwrap();
    for at in 0..200_u64 {
        store.write(Write::put(format!("/{at}"), Expect::Absent, vec![at as u8; 1000])).await.unwrap();
    }
    let (created, placed) = (disk.created.load(Ordering::SeqCst), disk.placed.load(Ordering::SeqCst));
    assert!(placed > 3, "{placed} segments");
    assert_eq!(created, placed + 1, "one for each segment, and the next one");
}
