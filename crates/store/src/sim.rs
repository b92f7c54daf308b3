//! A disk in memory that can lose power, fail to sync and run full, for tests of durability.
//!
//! It is stricter than most disks: after a power loss every sector written since the last sync of its file is there
//! or not, independently of all others, and of the directory only some first part of the unsynced changes is there.
//! After a failed sync, reads still return data that will never reach the disk, as the page cache of Linux does.

#![allow(clippy::indexing_slicing, reason = "only tests use it, and a panic is a failed test")]

use crate::disk::{Disk, DiskFile};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The unit that is written completely or not at all.
pub const SECTOR: usize = 512;

/// A small random number generator; the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to and without `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The disk.
pub struct SimDisk {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    files: BTreeMap<u64, SimFile>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// The directory after each change since the last sync of it.
    pending_names: Vec<BTreeMap<String, u64>>,
    operations: u64,
    syncs: u64,
    power_off_at: Option<u64>,
    failing_sync: Option<(u64, Random)>,
    bytes_max: Option<u64>,
    no_descriptors: bool,
    failing_writes: u64,
    full_syncs: u64,
}

#[derive(Clone, Default)]
struct SimFile {
    content: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
}

impl Default for SimDisk {
    fn default() -> SimDisk {
        SimDisk::from_parts(BTreeMap::new(), BTreeMap::new())
    }
}

impl SimDisk {
    /// Lets `operations` more operations succeed; then the power fails, and with it all operations.
    pub fn power_off_after(&self, operations: u64) {
        let mut inner = self.lock();
        inner.power_off_at = Some(inner.operations + operations);
    }

    /// Lets `syncs` more syncs of files succeed and the next one fail.
    pub fn fail_sync_after(&self, syncs: u64, seed: u64) {
        let mut inner = self.lock();
        inner.failing_sync = Some((inner.syncs + syncs, Random::new(seed)));
    }

    /// Refuses writes that would make all files together larger than this.
    pub fn limit_bytes(&self, bytes: u64) {
        self.lock().bytes_max = Some(bytes);
    }

    /// Whether opening and creating files fails, as in a process that has no descriptors left.
    pub fn refuse_descriptors(&self, refuse: bool) {
        self.lock().no_descriptors = refuse;
    }

    /// Makes the next `writes` writes fail after their first half.
    pub fn fail_writes(&self, writes: u64) {
        self.lock().failing_writes = writes;
    }

    /// Makes the next `syncs` syncs of files fail for lack of space; the unsynced data is torn.
    pub fn fail_syncs_for_space(&self, syncs: u64) {
        self.lock().full_syncs = syncs;
    }

    /// How many operations there have been.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// How many syncs of files there have been.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// The disk as a process finds it after a power loss: with everything that was synced and some of what was not.
    pub fn after_power_loss(&self, random: &mut Random) -> SimDisk {
        let inner = self.lock();
        let kept = random.below(inner.pending_names.len() as u64 + 1) as usize;
        let names = match kept.checked_sub(1) {
            Some(last) => inner.pending_names[last].clone(),
            None => inner.durable_names.clone(),
        };
        let keep_percent = [0, 20, 50, 80, 100][random.below(5) as usize];
        let files = inner.files.iter().map(|(id, file)| (*id, file.after_power_loss(random, keep_percent)));
        SimDisk::from_parts(names, files.collect())
    }

    /// The disk as a process finds it after the previous process was killed: with everything, synced or not.
    pub fn after_kill(&self) -> SimDisk {
        let inner = self.lock();
        let next = SimDisk::from_parts(inner.names.clone(), inner.files.clone());
        let mut copy = next.lock();
        copy.durable_names = inner.durable_names.clone();
        copy.pending_names = inner.pending_names.clone();
        drop(copy);
        next
    }

    /// The content of a file as it can be read now.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let inner = self.lock();
        inner.names.get(name).and_then(|id| inner.files.get(id)).map(|file| file.content.clone())
    }

    /// Writes a file durably and regardless of all faults, to simulate damage by others.
    pub fn plant(&self, name: &str, content: Vec<u8>) {
        let mut inner = self.lock();
        let id = inner.fresh_id();
        inner.files.insert(id, SimFile { content: content.clone(), durable: content, pending: Vec::new() });
        inner.names.insert(name.to_owned(), id);
        inner.durable_names.insert(name.to_owned(), id);
    }

    fn from_parts(names: BTreeMap<String, u64>, files: BTreeMap<u64, SimFile>) -> SimDisk {
        let inner = Inner { files, durable_names: names.clone(), names, ..Inner::default() };
        SimDisk { inner: Arc::new(Mutex::new(inner)) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn fresh_id(&self) -> u64 {
        self.files.last_key_value().map_or(1, |(id, _)| id + 1)
    }

    /// Counts an operation; fails if the power is off.
    fn operate(&mut self) -> io::Result<()> {
        self.operations += 1;
        match self.power_off_at {
            Some(at) if self.operations > at => Err(io::Error::other("the power is off")),
            _ => Ok(()),
        }
    }

    fn take_descriptor(&self) -> io::Result<()> {
        if self.no_descriptors { Err(rustix::io::Errno::MFILE.into()) } else { Ok(()) }
    }

    fn names_changed(&mut self) {
        self.pending_names.push(self.names.clone());
    }

    fn id(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn bytes(&self) -> u64 {
        self.names.values().filter_map(|id| self.files.get(id)).map(|file| file.content.len() as u64).sum()
    }
}

impl SimFile {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        overwrite(&mut self.content, offset, bytes);
        self.pending.push((offset, bytes.to_vec()));
    }

    /// The pending writes cut at sector borders, in order, by sector.
    fn pending_sectors(&self) -> BTreeMap<usize, Vec<(usize, &[u8])>> {
        let mut sectors: BTreeMap<usize, Vec<(usize, &[u8])>> = BTreeMap::new();
        for (offset, bytes) in &self.pending {
            let mut at = *offset;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let (piece, later) = rest.split_at(rest.len().min(SECTOR - at % SECTOR));
                sectors.entry(at / SECTOR).or_default().push((at, piece));
                at += piece.len();
                rest = later;
            }
        }
        sectors
    }

    /// The durable content with each pending sector written up to some point, or not at all.
    fn torn(&self, random: &mut Random, keep_percent: u64) -> Vec<u8> {
        let mut durable = self.durable.clone();
        for pieces in self.pending_sectors().values() {
            let all = random.chance(keep_percent);
            let kept = if all { pieces.len() } else { random.below(pieces.len() as u64) as usize };
            for (at, piece) in &pieces[..kept] {
                overwrite(&mut durable, *at, piece);
            }
        }
        durable
    }

    fn after_power_loss(&self, random: &mut Random, keep_percent: u64) -> SimFile {
        let content = self.torn(random, keep_percent);
        SimFile { durable: content.clone(), content, pending: Vec::new() }
    }

    fn sync(&mut self) {
        for (offset, bytes) in std::mem::take(&mut self.pending) {
            overwrite(&mut self.durable, offset, &bytes);
        }
    }

    /// Some sectors reach the disk; the remaining ones will not be retried, but all can be read.
    fn fail_sync(&mut self, random: &mut Random) {
        self.durable = self.torn(random, 50);
        self.pending.clear();
    }
}

fn overwrite(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut inner = self.lock();
        inner.operate()?;
        Ok(inner.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.lock();
        inner.operate()?;
        inner.take_descriptor()?;
        Ok(Box::new(SimHandle { inner: self.inner.clone(), id: inner.id(name)? }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.lock();
        inner.operate()?;
        inner.take_descriptor()?;
        let id = inner.fresh_id();
        inner.files.insert(id, SimFile::default());
        inner.names.insert(name.to_owned(), id);
        inner.names_changed();
        Ok(Box::new(SimHandle { inner: self.inner.clone(), id }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.lock();
        inner.operate()?;
        let id = inner.id(from)?;
        inner.names.remove(from);
        inner.names.insert(to.to_owned(), id);
        inner.names_changed();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.lock();
        inner.operate()?;
        inner.id(name)?;
        inner.names.remove(name);
        inner.names_changed();
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut inner = self.lock();
        inner.operate()?;
        inner.durable_names = inner.names.clone();
        inner.pending_names.clear();
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let inner = self.lock();
        Ok(inner.bytes_max.map_or(u64::MAX, |max| max.saturating_sub(inner.bytes())))
    }
}

struct SimHandle {
    inner: Arc<Mutex<Inner>>,
    id: u64,
}

impl SimHandle {
    fn operate<T>(&self, act: impl FnOnce(&mut Inner) -> io::Result<T>) -> io::Result<T> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.operate()?;
        act(&mut inner)
    }
}

impl DiskFile for SimHandle {
    fn len(&self) -> io::Result<u64> {
        self.operate(|inner| Ok(inner.files[&self.id].content.len() as u64))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.operate(|inner| {
            let content = &inner.files[&self.id].content;
            let from = content.get(offset as usize..offset as usize + into.len());
            into.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.operate(|inner| {
            let length = inner.files[&self.id].content.len() as u64;
            let growth = (offset + bytes.len() as u64).saturating_sub(length);
            if growth > 0 && inner.bytes_max.is_some_and(|max| inner.bytes() + growth > max) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let fails = inner.failing_writes > 0;
            inner.failing_writes = inner.failing_writes.saturating_sub(1);
            let taken = if fails { &bytes[..bytes.len() / 2] } else { bytes };
            if let Some(file) = inner.files.get_mut(&self.id) {
                file.write(offset as usize, taken);
            }
            if fails { Err(io::Error::other("the disk did not take all of it")) } else { Ok(()) }
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.operate(|inner| {
            let fails = inner.failing_sync.as_ref().is_some_and(|(at, _)| *at == inner.syncs);
            inner.syncs += 1;
            let full = inner.full_syncs > 0;
            inner.full_syncs = inner.full_syncs.saturating_sub(1);
            let seed = inner.syncs;
            let Some(file) = inner.files.get_mut(&self.id) else { return Ok(()) };
            if full {
                file.fail_sync(&mut Random::new(seed));
                return Err(io::ErrorKind::StorageFull.into());
            }
            match &mut inner.failing_sync {
                Some((_, random)) if fails => {
                    file.fail_sync(random);
                    Err(io::Error::other("the disk did not take it"))
                }
                _ => {
                    file.sync();
                    Ok(())
                }
            }
        })
    }
}
