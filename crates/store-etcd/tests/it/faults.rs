//! Restarts, compaction, lost connections, late answers, and an etcd that was replaced.

use crate::member::{Member, open, options};
use crate::proxy::{Mode, Proxy};
use pintle_store::{Change, Expect, Loaded, ReadError, Revision, Sink, Store, StoreFault, Write, WriteError};
use pintle_store_etcd::Etcd;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// How long etcd and the store may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn put(key: &str, expect: Expect, value: &str) -> Write {
    Write::put(key, expect, value.as_bytes().to_vec())
}

async fn ok(store: &Etcd, write: Write) -> Revision {
    store.write(write).await.unwrap()
}

/// Records the calls of the store.
struct Notes {
    changes: Mutex<Vec<(String, Revision)>>,
    resets: watch::Sender<Vec<Revision>>,
}

impl Notes {
    fn attach(store: &Etcd) -> (Arc<Notes>, Loaded) {
        let notes = Arc::new(Notes { changes: Mutex::default(), resets: watch::Sender::new(Vec::new()) });
        let loaded = store.load(notes.clone());
        (notes, loaded)
    }

    async fn reset(&self) -> Revision {
        let mut resets = self.resets.subscribe();
        let resets = tokio::time::timeout(LONG, resets.wait_for(|resets| !resets.is_empty()));
        resets.await.expect("no reset").unwrap()[0]
    }

    fn keys(&self) -> Vec<String> {
        self.changes.lock().unwrap().iter().map(|(key, _)| key.clone()).collect()
    }
}

impl Sink for Notes {
    fn apply(&self, changes: &[Change]) {
        let seen = changes.iter().map(|change| (change.key.to_string(), change.revision));
        self.changes.lock().unwrap().extend(seen);
    }

    fn reset(&self, loaded: Loaded) {
        self.resets.send_modify(|resets| resets.push(loaded.revision));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_opened_again_has_the_state_and_can_read_the_past() {
    let Some(member) = Member::start("http", &[]) else { return };
    let store = open(&member.endpoint, 0).await;
    let first = ok(&store, put("/a", Expect::Absent, "1")).await;
    ok(&store, put("/b", Expect::Absent, "1")).await;
    let last = ok(&store, Write::delete("/a", Expect::Revision(first))).await;
    store.close().await;

    let store = open(&member.endpoint, 0).await;
    let (_, loaded) = Notes::attach(&store);
    assert_eq!((loaded.revision, loaded.compacted, loaded.history.len()), (last, last, 0));
    assert_eq!(loaded.entries.iter().map(|(key, _)| &**key).collect::<Vec<_>>(), ["/b"]);
    let past = store.read_at("/", first).await.unwrap();
    assert_eq!(past.iter().map(|(key, _)| &**key).collect::<Vec<_>>(), ["/a"]);
    assert!(ok(&store, put("/a", Expect::Absent, "2")).await > last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compacted_revisions_cannot_be_read() {
    let Some(member) = Member::start("http", &[]) else { return };
    let mut compacting = options(&member.endpoint, 0);
    compacting.compaction_interval = Duration::from_millis(200);
    let store = Etcd::connect(compacting).await.unwrap();
    let first = ok(&store, put("/a", Expect::Absent, "1")).await;
    ok(&store, put("/a", Expect::Any, "2")).await;
    let compacted = async {
        while !matches!(store.read_at("/", first).await, Err(ReadError::Compacted)) {
            ok(&store, put("/a", Expect::Any, "3")).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, compacted).await.unwrap();
    assert!(store.compacted() > first);
    let now = store.barrier().await.unwrap();
    assert_eq!(store.read_at("/", now).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_a_lost_connection_kept_back_are_delivered_once() {
    let Some(member) = Member::start("http", &[]) else { return };
    let proxy = Proxy::start(&member.endpoint).await;
    let (behind, other) = (open(&proxy.endpoint, 0).await, open(&member.endpoint, 0).await);
    let (notes, _) = Notes::attach(&behind);
    ok(&other, put("/a", Expect::Absent, "1")).await;
    behind.barrier().await.unwrap();
    proxy.set(Mode::Cut);
    ok(&other, put("/b", Expect::Absent, "1")).await;
    ok(&other, put("/c", Expect::Absent, "1")).await;
    proxy.set(Mode::Late(Duration::ZERO));
    tokio::time::timeout(LONG, behind.barrier()).await.unwrap().unwrap();
    assert_eq!(notes.keys(), ["/a", "/b", "/c"]);
    assert!(notes.resets.borrow().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_loaded_anew_when_missed_changes_were_compacted() {
    let Some(member) = Member::start("http", &[]) else { return };
    let proxy = Proxy::start(&member.endpoint).await;
    let behind = open(&proxy.endpoint, 0).await;
    let mut compacting = options(&member.endpoint, 0);
    compacting.compaction_interval = Duration::from_millis(200);
    let other = Etcd::connect(compacting).await.unwrap();
    let (notes, _) = Notes::attach(&behind);
    behind.barrier().await.unwrap();
    proxy.set(Mode::Cut);
    let missed = ok(&other, put("/a", Expect::Absent, "1")).await;
    let compacted = async {
        while !matches!(other.read_at("/", missed).await, Err(ReadError::Compacted)) {
            ok(&other, put("/a", Expect::Any, "2")).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, compacted).await.unwrap();
    proxy.set(Mode::Late(Duration::ZERO));
    tokio::time::timeout(LONG, behind.barrier()).await.unwrap().unwrap();
    assert!(notes.reset().await > missed);
    assert!(behind.snapshot_state().get("/a").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_in_the_place_of_another_is_noticed() {
    let Some(mut member) = Member::start("http", &[]) else { return };
    let store = open(&member.endpoint, 0).await;
    let (notes, _) = Notes::attach(&store);
    for _ in 0..3 {
        ok(&store, put("/a", Expect::Any, "1")).await;
    }
    let before = store.revision();
    member.begin_anew();
    let revision = tokio::time::timeout(LONG, store.barrier()).await.unwrap().unwrap();
    assert!(revision < before);
    assert!(notes.reset().await < before);
    assert!(store.snapshot_state().get("/a").is_none());
    ok(&store, put("/a", Expect::Absent, "1")).await;
}

/// The other etcd has more revisions than the store has seen, so they alone do not show the difference.
async fn replaced_unseen(prepare: impl AsyncFn(&Etcd)) {
    let Some(mut member) = Member::start("http", &[]) else { return };
    let proxy = Proxy::start(&member.endpoint).await;
    let first = open(&member.endpoint, 0).await;
    ok(&first, put("/a", Expect::Any, "1")).await;
    ok(&first, put("/b", Expect::Any, "1")).await;
    let store = open(&proxy.endpoint, 0).await;
    prepare(&store).await;
    let (notes, _) = Notes::attach(&store);
    proxy.set(Mode::Cut);
    first.close().await;
    member.begin_anew();
    let other = open(&member.endpoint, 0).await;
    while ok(&other, put("/c", Expect::Any, "1")).await <= store.revision() {}
    proxy.set(Mode::Late(Duration::ZERO));
    tokio::time::timeout(LONG, store.barrier()).await.unwrap().unwrap();
    notes.reset().await;
    let keys: Vec<_> = store.snapshot_state().iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(keys, ["/c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_etcd_is_noticed_after_a_load() {
    replaced_unseen(async |_| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_etcd_is_noticed_after_a_put() {
    replaced_unseen(async |store| _ = ok(store, put("/a", Expect::Any, "2")).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_etcd_is_noticed_after_a_delete() {
    replaced_unseen(async |store| _ = ok(store, Write::delete("/a", Expect::Any)).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_answers_delay_and_lose_nothing() {
    let Some(member) = Member::start("http", &[]) else { return };
    let proxy = Proxy::start(&member.endpoint).await;
    let mut impatient = options(&proxy.endpoint, 0);
    impatient.write_timeout = Duration::from_secs(2);
    let store = Etcd::connect(impatient).await.unwrap();
    let probe = Duration::from_millis(500);
    assert_eq!(store.probe(probe).await, Ok(()));

    proxy.set(Mode::Late(Duration::from_secs(4)));
    let text = "error getting data from etcd: context deadline exceeded".to_owned();
    assert_eq!(store.probe(probe).await, Err(text));
    let unknown = store.write(put("/a", Expect::Absent, "1")).await;
    assert_eq!(unknown, Err(WriteError::TimedOut));

    proxy.set(Mode::Late(Duration::ZERO));
    // The write was executed, and a barrier that begins now sees it.
    tokio::time::timeout(LONG, store.barrier()).await.unwrap().unwrap();
    assert!(store.snapshot_state().get("/a").is_some());
    let again = store.write(put("/a", Expect::Absent, "1")).await;
    assert!(matches!(again, Err(WriteError::Conflict { .. })), "{again:?}");
    assert_eq!(store.probe(LONG).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_is_lost_is_found_when_etcd_answers_again() {
    let Some(member) = Member::start("http", &[]) else { return };
    let proxy = Proxy::start(&member.endpoint).await;
    let (store, other) = (Arc::new(open(&proxy.endpoint, 0).await), open(&member.endpoint, 0).await);
    // The answer stays in the proxy.
    proxy.set(Mode::Late(LONG));
    let writer = store.clone();
    let write = tokio::spawn(async move { writer.write(put("/a", Expect::Absent, "1")).await });
    let carried_out = async {
        while other.snapshot_state().get("/a").is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, carried_out).await.unwrap();
    proxy.set(Mode::Cut);
    // Longer than the watch may take once etcd answers.
    tokio::time::sleep(Duration::from_secs(6)).await;
    proxy.set(Mode::Late(Duration::ZERO));
    let written = tokio::time::timeout(LONG, write).await.unwrap().unwrap();
    assert_eq!(written, Ok(other.snapshot_state().get("/a").unwrap().modified));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_refuses_writes_and_goes_on_reading() {
    let Some(member) = Member::start("http", &["--quota-backend-bytes=1000000".into()]) else { return };
    let store = open(&member.endpoint, 0).await;
    let large = "x".repeat(200_000);
    let refused = async {
        loop {
            if let Err(error) = store.write(put("/large", Expect::Any, &large)).await {
                return error;
            }
        }
    };
    let refused = tokio::time::timeout(LONG, refused).await.unwrap();
    let message = "etcdserver: mvcc: database space exceeded".to_owned();
    assert_eq!(refused, WriteError::Refused { message });
    assert!(store.barrier().await.is_ok());
    assert_eq!(store.probe(LONG).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_too_large_is_refused() {
    let Some(member) = Member::start("http", &[]) else { return };
    let store = open(&member.endpoint, 0).await;
    let by_etcd = store.write(put("/a", Expect::Any, &"x".repeat(1_600_000))).await;
    assert!(matches!(by_etcd, Err(WriteError::TooLarge { .. })), "{by_etcd:?}");
    let by_client = store.write(put("/a", Expect::Any, &"x".repeat(2_200_000))).await;
    let Err(WriteError::Refused { message }) = by_client else { panic!("{by_client:?}") };
    assert!(message.contains("trying to send message larger than max"), "{message}");
    assert_eq!(store.snapshot_state().len(), 0);
    store.close().await;
    let closed = store.write(put("/a", Expect::Any, "1")).await;
    assert_eq!(closed, Err(WriteError::Unavailable(StoreFault::Closed)));
}
