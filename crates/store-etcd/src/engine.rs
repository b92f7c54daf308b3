//! The engine as callers see it: writes as transactions, barriers, reads of the past.

use crate::barrier::Barrier;
use crate::channel::{Channel, Method};
use crate::compaction;
use crate::follow::{Follower, NO_LEADER, new_entry};
use crate::grpc::{CallError, code};
use crate::lease::Leases;
use crate::message::{self, Condition, Operation, RangeRequest, TxnRequest, TxnResponse};
use crate::options::{Options, OptionsError};
use crate::pending::Registered;
use crate::raise;
use bytes::Bytes;
use pintle_store::{
    BoxFuture, Expect, Loaded, Op, ReadError, Revision, Sink, Snapshot, Store, StoreFault, Write, WriteError,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// etcd takes this many operations in one transaction, by default.
const TRANSACTION_WRITES_MAX: usize = 128;
/// The pause between attempts to write while there is no leader.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the server logs at the start that it waits for etcd.
const START_NOTICE_EVERY: Duration = Duration::from_secs(5);

/// The engine on etcd.
pub struct Etcd {
    channel: Arc<Channel>,
    follower: Arc<Follower>,
    barrier: Barrier,
    leases: Leases,
    options: Options,
    closed: AtomicBool,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Etcd {
    /// Connects, waits until etcd is reachable, and loads everything under the prefix.
    pub async fn connect(options: Options) -> Result<Etcd, OptionsError> {
        if options.endpoints.is_empty() {
            return Err(OptionsError::NoEndpoint);
        }
        let (channel, keep_connected) = Channel::new(&options);
        let follower = Arc::new(Follower::new(channel.clone(), &options));
        let barrier = Barrier::new(channel.clone(), &follower.health_key());
        let mut tasks = vec![tokio::spawn(keep_connected)];
        load(&follower, &options).await;
        tasks.push(tokio::spawn(follower.clone().run()));
        if !options.compaction_interval.is_zero() {
            tasks.push(tokio::spawn(compaction::run(channel.clone(), options.compaction_interval)));
        }
        let (leases, closed) = (Leases::default(), AtomicBool::new(false));
        Ok(Etcd { channel, follower, barrier, leases, options, closed, tasks: Mutex::new(tasks) })
    }

    /// Writes to a separate key until etcd's revision is at least `wanted`, so that objects from another store can
    /// continue with higher revisions here. `report` receives the progress.
    pub async fn raise_revision(
        &self,
        wanted: Revision,
        report: impl FnMut(u64),
    ) -> Result<Revision, StoreFault> {
        let reached = raise::raise(&self.channel, wanted.0, report).await.map_err(|error| fault(&error))?;
        self.follower.progress.reach(reached).await;
        Ok(Revision(reached))
    }

    async fn transact(&self, writes: &[Write]) -> Result<Revision, WriteError> {
        self.health()?;
        check_limits(writes)?;
        let outcome = timeout(self.options.write_timeout, self.send(writes)).await;
        outcome.unwrap_or(Err(WriteError::TimedOut))
    }

    async fn send(&self, writes: &[Write]) -> Result<Revision, WriteError> {
        let keys: Vec<Vec<u8>> = writes.iter().map(|write| self.follower.stored_key(&write.key)).collect();
        let request = self.encode_request(writes, &keys).await?;
        let (loads, applied) = (self.follower.loads(), self.follower.progress.applied());
        let puts: Vec<Registered<'_>> = writes
            .iter()
            .filter_map(|write| match &write.op {
                Op::Put(value) => {
                    let after = match write.expect {
                        Expect::Revision(revision) => revision.0,
                        Expect::Absent | Expect::Any => applied,
                    };
                    Some(self.follower.pending.register(&write.key, value, &write.note, after))
                }
                Op::Delete => None,
            })
            .collect();
        let message = self.call_txn(&request).await;
        let answer = message
            .as_ref()
            .map_err(CallError::clone)
            .and_then(|message| TxnResponse::decode(message).map_err(|error| CallError::malformed(&error)));
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.without_answer(error, &puts).await,
        };
        if answer.header.revision < applied {
            // As with a barrier, etcd was restored to an earlier state.
            self.follower.load_anew(loads).await;
        }
        // Return a conflict once the sink has the conflicting value, so that a retry sees it too.
        self.follower.progress.reach(answer.header.revision).await;
        if answer.succeeded {
            return Ok(Revision(answer.header.revision));
        }
        Err(conflict(writes, &answer))
    }

    async fn encode_request(&self, writes: &[Write], keys: &[Vec<u8>]) -> Result<Bytes, WriteError> {
        let mut txn = TxnRequest::with_capacity(request_bytes(writes, keys));
        for (write, key) in writes.iter().zip(keys) {
            match (write.expect, &write.op) {
                (Expect::Absent, Op::Put(_)) => txn.add_condition(key, &Condition::ModRevision(0)),
                (Expect::Revision(revision), _) => {
                    txn.add_condition(key, &Condition::ModRevision(revision.0))
                }
                (Expect::Any, Op::Put(_)) => {}
                (Expect::Any, Op::Delete) => txn.add_condition(key, &Condition::Exists),
                // A key that must be absent cannot be deleted.
                (Expect::Absent, Op::Delete) => {
                    txn.add_condition(key, &Condition::ModRevision(u64::MAX >> 1))
                }
            }
        }
        for (write, key) in writes.iter().zip(keys) {
            match &write.op {
                Op::Put(value) => {
                    let lease = match write.ttl.or_else(|| self.options.ttl(&write.key)) {
                        None => 0,
                        Some(ttl) if ttl.is_zero() => 0,
                        Some(ttl) => {
                            let lease = self.leases.lease(&self.channel, &self.options, ttl).await;
                            lease.map_err(|error| write_error(&error))?
                        }
                    };
                    txn.on_success(&Operation::Put { key, value, lease });
                }
                Op::Delete => txn.on_success(&Operation::Delete { key }),
            }
            txn.on_failure(&Operation::Get { key });
        }
        Ok(txn.encode())
    }

    /// Sends the transaction once, or again as long as it certainly was not carried out.
    async fn call_txn(&self, request: &Bytes) -> Result<Bytes, CallError> {
        loop {
            match self.channel.call(Method::Txn, request).await {
                Ok(message) => return Ok(message),
                Err(CallError::NotSent(_)) if !self.closed.load(Ordering::Acquire) => {}
                Err(CallError::Status { message, .. }) if message == NO_LEADER => {
                    self.channel.rotate();
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Determines the outcome of a transaction that got no answer, or an answer that leaves it open. kube-apiserver
    /// returns the error at once; here the watch may still show that the write was committed.
    async fn without_answer(
        &self,
        error: CallError,
        puts: &[Registered<'_>],
    ) -> Result<Revision, WriteError> {
        if !is_open(&error) {
            return Err(write_error(&error));
        }
        tracing::debug!(%error, "a write got no answer");
        // While etcd does not answer, the time limit of the write decides how long this takes.
        if let Some(first) = puts.first()
            && let Ok(revision) = self.barrier.revision().await
        {
            self.follower.progress.reach(revision).await;
            if let Some(committed) = first.put.seen_at() {
                return Ok(Revision(committed));
            }
        }
        Err(WriteError::Unknown { reason: error.to_string() })
    }

    fn end_tasks(&self) {
        self.closed.store(true, Ordering::Release);
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}

async fn load(follower: &Follower, options: &Options) {
    let endpoints: Vec<String> = options.endpoints.iter().map(crate::Endpoint::authority).collect();
    loop {
        match timeout(START_NOTICE_EVERY, follower.load()).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot load from etcd at {}", endpoints.join(", "));
                tokio::time::sleep(PAUSE).await;
            }
            Err(_) => tracing::warn!("waiting for etcd at {}", endpoints.join(", ")),
        }
    }
}

/// Whether the transaction may have been carried out, or may yet be.
fn is_open(error: &CallError) -> bool {
    match error {
        CallError::NotSent(_) => false,
        CallError::Lost(_) => true,
        CallError::Status { code, .. } => {
            matches!(*code, code::CANCELLED | code::DEADLINE_EXCEEDED | code::UNAVAILABLE)
        }
    }
}

fn write_error(error: &CallError) -> WriteError {
    match error {
        CallError::Status { message, .. } if message == "etcdserver: request is too large" => {
            WriteError::TooLarge { limit: crate::grpc::REQUEST_BYTES_MAX }
        }
        CallError::NotSent(reason) => StoreFault::Unreachable { reason: reason.clone() }.into(),
        CallError::Lost(_) | CallError::Status { .. } => WriteError::Refused { message: error.to_string() },
    }
}

/// The size of a transaction: each key occurs three times, beside a few small numbers.
fn request_bytes(writes: &[Write], keys: &[Vec<u8>]) -> usize {
    const NUMBERS_BYTES: usize = 64;
    writes.iter().zip(keys).fold(0, |sum: usize, (write, key)| {
        let value = if let Op::Put(value) = &write.op { value.len() } else { 0 };
        sum.saturating_add(value).saturating_add(key.len().saturating_mul(3)).saturating_add(NUMBERS_BYTES)
    })
}

fn check_limits(writes: &[Write]) -> Result<(), WriteError> {
    if writes.len() > TRANSACTION_WRITES_MAX {
        return Err(WriteError::TooMany { limit: TRANSACTION_WRITES_MAX });
    }
    Write::require_distinct_keys(writes)
}

/// The first write whose precondition does not hold, and the current entry of its key.
fn conflict(writes: &[Write], answer: &TxnResponse<'_>) -> WriteError {
    let found =
        answer.ranges.iter().map(|range| range.kvs.first().map(new_entry)).chain(std::iter::repeat(None));
    let mut all = writes.iter().zip(found);
    let broken = all.find(|(write, current)| match (write.expect, &write.op, current) {
        (Expect::Any, Op::Put(_), _) => false,
        (Expect::Absent, Op::Put(_), current) => current.is_some(),
        (Expect::Revision(revision), _, current) => {
            current.as_ref().is_none_or(|entry| entry.modified != revision)
        }
        (Expect::Any, Op::Delete, current) => current.is_none(),
        (Expect::Absent, Op::Delete, _) => true,
    });
    match broken {
        Some((write, current)) => WriteError::Conflict { key: write.key.clone(), current },
        None => WriteError::Refused { message: "etcd refused a transaction without a reason".into() },
    }
}

fn fault(error: &CallError) -> StoreFault {
    StoreFault::Unreachable { reason: error.to_string() }
}

impl Store for Etcd {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>> {
        Box::pin(async move { self.transact(&[write]).await })
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Revision>, WriteError>> {
        Box::pin(async move {
            if writes.is_empty() {
                return Ok(Vec::new());
            }
            let revision = self.transact(&writes).await?;
            Ok(vec![revision; writes.len()])
        })
    }

    fn load(&self, sink: Arc<dyn Sink>) -> Loaded {
        self.follower.attach(sink)
    }

    fn revision(&self) -> Revision {
        Revision(self.follower.progress.applied())
    }

    fn barrier(&self) -> BoxFuture<'_, Result<Revision, StoreFault>> {
        Box::pin(async move {
            self.health()?;
            let loads = self.follower.loads();
            let applied = self.follower.progress.applied();
            let revision = self.barrier.revision().await.map_err(|error| fault(&error))?;
            if revision < applied {
                // A linearizable read never returns the past, so this is not the same etcd any more. The state of the
                // sink is invalid.
                self.follower.load_anew(loads).await;
            }
            self.follower.progress.reach(revision).await;
            Ok(Revision(revision))
        })
    }

    fn read_at<'a>(
        &'a self,
        prefix: &'a str,
        revision: Revision,
    ) -> BoxFuture<'a, Result<Snapshot, ReadError>> {
        Box::pin(async move {
            let stored = self.follower.stored_key(prefix);
            match self.follower.read_all(stored, revision.0).await {
                Ok((_, entries)) => Ok(Snapshot::from_entries(revision, entries)),
                Err(CallError::Status { code: code::OUT_OF_RANGE, message }) => {
                    if message.contains("compacted") {
                        Err(ReadError::Compacted)
                    } else {
                        Err(ReadError::Future { current: self.revision() })
                    }
                }
                Err(error) => Err(ReadError::Unavailable(fault(&error))),
            }
        })
    }

    fn probe(&self, limit: Duration) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let key = self.follower.health_key();
            let request = RangeRequest { key: &key, ..RangeRequest::default() }.encode();
            let why = match timeout(limit, self.channel.read(Method::Range, &request)).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => WriteError::TimedOut.to_string(),
            };
            Err(format!("error getting data from etcd: {why}"))
        })
    }

    fn sizes(&self) -> BoxFuture<'_, Vec<Option<u64>>> {
        Box::pin(async move {
            let answer = self.channel.call(Method::Status, &Bytes::new()).await;
            vec![answer.ok().and_then(|answer| message::database_size(&answer).ok())]
        })
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn removes_expired(&self) -> bool {
        true
    }

    fn compacted(&self) -> Revision {
        self.follower.compacted()
    }

    fn health(&self) -> Result<(), StoreFault> {
        if self.closed.load(Ordering::Acquire) { Err(StoreFault::Closed) } else { Ok(()) }
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.end_tasks() })
    }

    fn snapshot_state(&self) -> Snapshot {
        self.follower.state()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.end_tasks();
    }
}
