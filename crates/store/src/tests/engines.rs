//! The conformance suite for both forms of the engine, and tests that only apply to one of them.

use super::{Folder, small_options};
use crate::conformance::{self, Harness, Recorder};
use crate::sim::SimDisk;
use crate::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;

enum Form {
    Ephemeral,
    Folder,
    Simulated,
}

/// A store, its folder if it has one, and its simulated disk.
type Live = (Arc<Embedded>, Option<Folder>, Arc<SimDisk>);

struct EmbeddedHarness {
    form: Form,
    live: Mutex<Vec<Live>>,
}

impl EmbeddedHarness {
    fn new(form: Form) -> EmbeddedHarness {
        EmbeddedHarness { form, live: Mutex::default() }
    }

    fn open(&self, folder: Option<Folder>, disk: Arc<SimDisk>) -> Arc<dyn Store> {
        let options = match self.form {
            Form::Simulated => small_options(Arc::new(ManualClock::new(1))),
            _ => Options::default(),
        };
        let store = Arc::new(match (&self.form, &folder) {
            (Form::Ephemeral, _) => Embedded::ephemeral(options).unwrap(),
            (Form::Folder, Some(folder)) => Embedded::open(&folder.0, options).unwrap(),
            _ => Embedded::open_on(disk.clone(), options).unwrap(),
        });
        self.live.lock().unwrap().push((store.clone(), folder, disk));
        store
    }

    fn latest(&self) -> Arc<Embedded> {
        self.live.lock().unwrap().last().unwrap().0.clone()
    }
}

impl Harness for EmbeddedHarness {
    fn create(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async { self.open(Some(Folder::new()), Arc::new(SimDisk::default())) })
    }

    fn reopen(&self, store: Arc<dyn Store>) -> BoxFuture<'_, Option<Arc<dyn Store>>> {
        Box::pin(async move {
            store.close().await;
            let (_, folder, disk) = self.live.lock().unwrap().pop().unwrap();
            match self.form {
                Form::Ephemeral => None,
                _ => Some(self.open(folder, disk)),
            }
        })
    }

    fn compact<'a>(&'a self, _store: &'a Arc<dyn Store>) -> BoxFuture<'a, bool> {
        Box::pin(async { self.latest().compact(u64::MAX).await.is_ok() })
    }
}

#[tokio::test]
async fn ephemeral_conforms() {
    conformance::run(&EmbeddedHarness::new(Form::Ephemeral)).await;
}

#[tokio::test]
async fn embedded_conforms() {
    conformance::run(&EmbeddedHarness::new(Form::Folder)).await;
}

#[tokio::test]
async fn embedded_conforms_when_everything_is_small() {
    conformance::run(&EmbeddedHarness::new(Form::Simulated)).await;
}

#[tokio::test]
async fn revisions_start_at_one() {
    let store = Embedded::ephemeral(Options::default()).unwrap();
    assert_eq!((store.revision(), store.compacted()), (Revision(1), Revision(1)));
    assert_eq!(store.write(Write::put("/a", Expect::Any, "")).await, Ok(Revision(2)));
    let pair = vec![Write::put("/a", Expect::Any, ""), Write::put("/b", Expect::Any, "")];
    assert_eq!(store.commit(pair).await, Ok(vec![Revision(3), Revision(4)]));
}

#[tokio::test]
async fn limits_are_exact() {
    let store = Embedded::ephemeral(Options { value_bytes_max: 100, ..Options::default() }).unwrap();
    assert!(store.write(Write::put("/a", Expect::Any, vec![0; 100])).await.is_ok());
    let answer = store.write(Write::put("/a", Expect::Any, vec![0; 101])).await;
    assert_eq!(answer, Err(WriteError::TooLarge { limit: 100 }));
    assert!(store.write(Write::put("k".repeat(4096), Expect::Any, "")).await.is_ok());
    let answer = store.write(Write::put("k".repeat(4097), Expect::Any, "")).await;
    assert_eq!(answer, Err(WriteError::TooLarge { limit: 4096 }));
}

#[tokio::test]
async fn the_largest_transaction_fits_and_comes_back() {
    let folder = Folder::new();
    let store = folder.open();
    let value = |index: usize| vec![index as u8; (8 << 20) / 8 - 1024];
    let writes = (0..8).map(|index| Write::put(format!("/{index}"), Expect::Absent, value(index))).collect();
    store.commit(writes).await.unwrap();
    store.close().await;
    let store = folder.open();
    for index in 0..8 {
        assert_eq!(store.snapshot_state().get(&format!("/{index}")).unwrap().value, value(index));
    }
}

#[tokio::test]
async fn history_is_compacted_by_age() {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let disk = Arc::new(SimDisk::default());
    let store = Embedded::open_on(disk.clone(), small_options(clock.clone())).unwrap();
    let mut written = Vec::new();
    for round in 0..200 {
        clock.advance_ms(1000);
        let key = format!("/{}", round % 3);
        written
            .push((store.write(Write::put(key, Expect::Any, vec![7; 100])).await.unwrap(), clock.now_ms()));
        // Changes younger than the retention must be there.
        let young = written.iter().find(|(_, time)| *time > clock.now_ms() - 10_000).unwrap().0;
        assert!(store.compacted() < young, "round {round}");
    }
    assert!(store.compacted() > Revision(100), "compacted only to {}", store.compacted());
    let compacted = store.compacted();
    store.close().await;
    let names = disk.list().unwrap();
    assert!(names.len() <= 6, "leftovers: {names:?}");
    let store = Embedded::open_on(disk, small_options(clock)).unwrap();
    let loaded = store.load(Arc::new(Recorder::default()));
    assert_eq!((loaded.compacted, loaded.revision), (compacted, Revision(201)));
    assert_eq!(loaded.history.len() as u64, 201 - compacted.0);
    conformance::assert_history(&loaded);
}

#[tokio::test]
async fn history_is_compacted_by_size_even_when_young() {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let disk = Arc::new(SimDisk::default());
    let store = Embedded::open_on(disk.clone(), small_options(clock)).unwrap();
    for _ in 0..500 {
        store.write(Write::put("/a", Expect::Any, vec![7; 100])).await.unwrap();
    }
    assert!(store.compacted() > Revision(300), "compacted only to {}", store.compacted());
    let total: usize = disk.list().unwrap().iter().map(|name| disk.content(name).unwrap().len()).sum();
    assert!(total < 64 << 10, "{total} bytes on disk");
}

#[tokio::test]
async fn compaction_respects_retention() {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let store = Embedded::open_on(Arc::new(SimDisk::default()), small_options(clock.clone())).unwrap();
    store.write(Write::put("/a", Expect::Any, "1")).await.unwrap();
    assert_eq!(store.compact(clock.now_ms() + 9_999).await, Ok(Revision(1)));
    assert_eq!(store.compact(clock.now_ms() + 10_000).await, Ok(Revision(2)));
    assert_eq!(store.compact(clock.now_ms() + 10_000).await, Ok(Revision(2)));
}

#[tokio::test]
async fn a_backup_can_be_restored_and_written_on() {
    let store = Embedded::ephemeral(Options::default()).unwrap();
    for index in 0..1000 {
        let write = Write::put(format!("/{index:04}"), Expect::Any, vec![index as u8; index]);
        store.write(write).await.unwrap();
    }
    store.write(Write::put("/0500", Expect::Any, "new")).await.unwrap();
    let mut backup = Vec::new();
    write_backup(&store.snapshot_state(), &mut backup).unwrap();
    let folder = Folder::new();
    let options = Options::default();
    assert_eq!(
        restore(&folder.0, &read_backup(&mut backup.as_slice()).unwrap(), &options).unwrap(),
        Revision(1002)
    );
    let refused = restore(&folder.0, &read_backup(&mut backup.as_slice()).unwrap(), &options).unwrap_err();
    assert!(matches!(refused, OpenError::NotEmpty { .. }), "{refused}");
    let restored = folder.open();
    assert!(restored.snapshot_state().iter().eq(store.snapshot_state().iter()));
    assert_eq!((restored.revision(), restored.compacted()), (Revision(1002), Revision(1002)));
    assert_eq!(restored.write(Write::put("/0500", Expect::Any, "")).await, Ok(Revision(1003)));
    restored.close().await;
    assert_eq!(folder.open().revision(), Revision(1003));
}

#[tokio::test]
async fn a_damaged_backup_is_refused() {
    let store = Embedded::ephemeral(Options::default()).unwrap();
    for index in 0..20 {
        store.write(Write::put(format!("/{index:04}"), Expect::Any, "value")).await.unwrap();
    }
    let mut backup = Vec::new();
    write_backup(&store.snapshot_state(), &mut backup).unwrap();
    for length in 0..backup.len() {
        let cut = read_backup(&mut &backup[..length]).unwrap_err();
        assert!(matches!(cut, OpenError::Corrupt { .. }), "{length}: {cut}");
        backup[length] ^= 1;
        let flipped = read_backup(&mut backup.as_slice()).unwrap_err();
        assert!(matches!(flipped, OpenError::Corrupt { .. }), "{length}: {flipped}");
        backup[length] ^= 1;
    }
}

#[tokio::test]
async fn a_full_queue_makes_writers_wait() {
    let options = Options { queue_writes_max: 2, ..Options::default() };
    let store = Embedded::ephemeral(options).unwrap();
    let writes = (0..100).map(|index| store.write(Write::put(format!("/{index}"), Expect::Absent, "")));
    let answers = conformance::join_all(writes.collect()).await;
    assert!(answers.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_panicking_sink_stops_the_store_and_not_its_callers() {
    struct Broken;
    impl Sink for Broken {
        fn apply(&self, _: &[Change]) {
            panic!("a broken sink (this panic is part of the test)");
        }

        fn reset(&self, _: Loaded) {}
    }
    let store = Embedded::ephemeral(Options::default()).unwrap();
    store.load(Arc::new(Broken));
    let answer = store.write(Write::put("/a", Expect::Any, "")).await;
    assert_eq!(answer, Err(WriteError::Unavailable(StoreFault::Stopped)));
    assert_eq!(store.health(), Err(StoreFault::Stopped));
    store.close().await;
}

#[test]
fn a_folder_belongs_to_one_store_at_a_time() {
    let folder = Folder::new();
    let store = folder.open();
    let refused = Embedded::open(&folder.0, Options::default()).err().unwrap();
    let expected = format!(
        "data folder {} is in use by another process (pid {})",
        folder.0.display(),
        std::process::id()
    );
    assert_eq!(refused.to_string(), expected);
    drop(store);
    drop(folder.open());
}

#[test]
fn an_empty_store_opens_fast() {
    let folder = Folder::new();
    let start = std::time::Instant::now();
    drop(folder.open());
    assert!(start.elapsed() < Duration::from_secs(2), "took {:?}", start.elapsed());
}
