//! The format of snapshots and backups: a header and blocks of entries, each with a checksum that includes all blocks
//! before it.

use crate::disk::{Disk, DiskFile, FolderDisk, TEMPORARY};
use crate::error::OpenError;
use crate::frame::{le_u32, le_u64};
use crate::manifest::{MANIFEST_FILE, Manifest};
use crate::options::{FRAME_BYTES_MAX, KEY_BYTES_MAX, Options};
use crate::pace::{Pace, PacedFile};
use crate::recovery::{create_first_segment, failed_to};
use crate::state::Snapshot;
use crate::store::{Entry, Key, Revision};
use bytes::Bytes;
use std::io::{self, BufReader, Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

const MAGIC: [u8; 8] = *b"PINTLSNP";
const VERSION: u32 = 1;
const HEADER: usize = 40;
const HEADER_CRC_AT: usize = HEADER - 4;
const BLOCK_HEADER: usize = 8;
const ENTRY_HEADER: usize = 24;
/// A block is complete once it has this many bytes.
const BLOCK_BYTES: usize = 256 << 10;
/// Snapshots with fewer entries are decoded by one thread.
const PARALLEL_ENTRIES_MIN: u64 = 10_000;
/// The maximum number of blocks that wait for a decoding thread.
const QUEUED_BLOCKS_MAX: usize = 4;

/// Writes a snapshot as a backup that [`restore`] can read.
pub fn write_backup(snapshot: &Snapshot, out: &mut dyn Write) -> io::Result<()> {
    let header = encode_header(snapshot);
    out.write_all(&header)?;
    let mut crc = le_u32(&header, HEADER_CRC_AT);
    let mut block = vec![0; BLOCK_HEADER];
    for (key, entry) in snapshot.iter() {
        encode_entry(&mut block, key, entry);
        if block.len() >= BLOCK_BYTES {
            crc = write_block(out, &mut block, crc)?;
        }
    }
    if block.len() > BLOCK_HEADER {
        write_block(out, &mut block, crc)?;
    }
    out.flush()
}

/// Reads a backup that [`write_backup`] wrote.
pub fn read_backup(backup: &mut dyn Read) -> Result<Snapshot, OpenError> {
    decode(backup, "backup")
}

/// Creates a new store in an empty `folder` from a state; it continues at the state's revision.
pub fn restore(folder: &Path, snapshot: &Snapshot, options: &Options) -> Result<Revision, OpenError> {
    let disk = FolderDisk::open(folder)?;
    restore_on(&disk, snapshot, options)
}

/// [`restore`] on any disk.
pub(crate) fn restore_on(
    disk: &dyn Disk,
    snapshot: &Snapshot,
    options: &Options,
) -> Result<Revision, OpenError> {
    let names = disk.list().map_err(OpenError::io("list", "data folder"))?;
    if let Some(file) = names.into_iter().next() {
        return Err(OpenError::NotEmpty { file });
    }
    let revision = snapshot.revision();
    write(disk, snapshot, &Pace::Unpaced).map_err(OpenError::io("write", &file_name(revision)))?;
    create_first_segment(disk, options, 1, revision.next())?;
    // The manifest comes last: without it the folder is not a store.
    let manifest = Manifest { snapshot: Some(revision), first_segment: 1, newest_segment: 1 };
    manifest.write(disk).map_err(failed_to("write", MANIFEST_FILE))?;
    Ok(revision)
}

/// The file name of the snapshot at `revision`.
pub(crate) fn file_name(revision: Revision) -> String {
    format!("snapshot-{:020}", revision.0)
}

/// The revision in a snapshot's file name.
pub(crate) fn parse_name(name: &str) -> Option<Revision> {
    let revision = Revision(name.strip_prefix("snapshot-")?.parse().ok()?);
    (file_name(revision) == name).then_some(revision)
}

/// Writes the snapshot's file durably, under its name only once it is whole; answers with its length.
pub(crate) fn write(disk: &dyn Disk, snapshot: &Snapshot, pace: &Pace) -> io::Result<u64> {
    let name = file_name(snapshot.revision());
    let temporary = format!("{name}{TEMPORARY}");
    let length = write_temporary(disk, &temporary, snapshot, pace).inspect_err(|_| {
        // The log needs the space on a full disk.
        let _ = disk.remove(&temporary);
    })?;
    disk.rename(&temporary, &name)?;
    disk.sync_dir()?;
    Ok(length)
}

fn write_temporary(disk: &dyn Disk, temporary: &str, snapshot: &Snapshot, pace: &Pace) -> io::Result<u64> {
    let file = disk.create(temporary)?;
    let mut out = FileEnd { file: PacedFile::new(&*file, pace), offset: 0 };
    write_backup(snapshot, &mut out)?;
    file.sync()?;
    Ok(out.offset)
}

/// The size of a snapshot file in bytes; a block has at least [`BLOCK_BYTES`], except the last one.
pub(crate) fn encoded_len(snapshot: &Snapshot) -> u64 {
    let entries =
        (snapshot.len() as u64).saturating_mul(ENTRY_HEADER as u64).saturating_add(snapshot.bytes());
    let blocks = entries.checked_div(BLOCK_BYTES as u64).map_or(1, |full| full.saturating_add(1));
    entries.saturating_add(blocks.saturating_mul(BLOCK_HEADER as u64)).saturating_add(HEADER as u64)
}

/// Reads the snapshot's file; also answers with its length.
pub(crate) fn read(disk: &dyn Disk, revision: Revision) -> Result<(Snapshot, u64), OpenError> {
    let name = file_name(revision);
    let file = disk.open(&name).map_err(OpenError::io("open", &name))?;
    let length = file.len().map_err(OpenError::io("measure", &name))?;
    let mut input = BufReader::with_capacity(BLOCK_BYTES, FileStart { file: &*file, offset: 0, length });
    let snapshot = decode(&mut input, &name)?;
    if snapshot.revision() != revision {
        return Err(OpenError::corrupt(&name, 0, "snapshot belongs to another revision"));
    }
    Ok((snapshot, length))
}

fn encode_header(snapshot: &Snapshot) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&snapshot.revision().0.to_le_bytes());
    header[24..32].copy_from_slice(&(snapshot.len() as u64).to_le_bytes());
    let crc = crc32c::crc32c(&header[..HEADER_CRC_AT]);
    header[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    header
}

fn encode_entry(block: &mut Vec<u8>, key: &Key, entry: &Entry) {
    block.extend_from_slice(&(key.len() as u16).to_le_bytes());
    block.extend_from_slice(&[0, 0]);
    block.extend_from_slice(&(entry.value.len() as u32).to_le_bytes());
    block.extend_from_slice(&entry.created.0.to_le_bytes());
    block.extend_from_slice(&entry.modified.0.to_le_bytes());
    block.extend_from_slice(key.as_bytes());
    block.extend_from_slice(&entry.value);
}

#[expect(clippy::indexing_slicing, reason = "the header was put at the start of the block")]
fn write_block(out: &mut dyn Write, block: &mut Vec<u8>, crc: u32) -> io::Result<u32> {
    let payload = block.len().saturating_sub(BLOCK_HEADER) as u32;
    block[0..4].copy_from_slice(&payload.to_le_bytes());
    let crc = block_crc(crc, payload, &block[BLOCK_HEADER..]);
    block[4..8].copy_from_slice(&crc.to_le_bytes());
    out.write_all(block)?;
    block.truncate(BLOCK_HEADER);
    Ok(crc)
}

/// The checksum of a block continues that of the previous block, so that blocks cannot be lost or swapped.
fn block_crc(previous: u32, length: u32, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(previous, &length.to_le_bytes()), payload)
}

fn decode(input: &mut dyn Read, name: &str) -> Result<Snapshot, OpenError> {
    let mut header = [0; HEADER];
    input.read_exact(&mut header).map_err(cut_short(name, 0))?;
    if header[0..8] != MAGIC || le_u32(&header, HEADER_CRC_AT) != crc32c::crc32c(&header[..HEADER_CRC_AT]) {
        return Err(OpenError::corrupt(name, 0, "snapshot header is damaged"));
    }
    let found = le_u32(&header, 8);
    if found != VERSION {
        return Err(OpenError::Version { file: name.to_owned(), found, known: VERSION });
    }
    let (revision, count) = (Revision(le_u64(&header, 16)), le_u64(&header, 24));
    let mut blocks =
        Blocks { input, name, crc: le_u32(&header, HEADER_CRC_AT), offset: HEADER as u64, left: count };
    let entries = decode_blocks(&mut blocks, revision, decoders(count))?;
    let more = blocks.input.read(&mut [0]).map_err(OpenError::io("read", name))?;
    if more != 0 {
        return Err(OpenError::corrupt(name, blocks.offset, "snapshot has more data than its header says"));
    }
    Ok(Snapshot::from_entries(revision, entries))
}

/// How many threads decode a snapshot of that many entries.
fn decoders(count: u64) -> usize {
    let is_small = count < PARALLEL_ENTRIES_MIN;
    if is_small { 1 } else { thread::available_parallelism().map_or(1, NonZero::get) }
}

/// The blocks that are still to be read.
struct Blocks<'a> {
    input: &'a mut dyn Read,
    name: &'a str,
    crc: u32,
    offset: u64,
    /// The number of entries that are still to be read.
    left: u64,
}

/// A block that was read without an error, with its position.
struct Block {
    offset: u64,
    bytes: Vec<u8>,
}

impl Blocks<'_> {
    fn next(&mut self) -> Result<Option<Block>, OpenError> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.crc = read_block(self.input, &mut bytes, self.crc, self.name, self.offset)?;
        let block = Block { offset: self.offset, bytes };
        let found = count_entries(&block.bytes).filter(|found| (1..=self.left).contains(found));
        self.left = self.left.saturating_sub(found.ok_or_else(|| self.unreadable(block.offset))?);
        self.offset = self.offset.saturating_add(BLOCK_HEADER.saturating_add(block.bytes.len()) as u64);
        Ok(Some(block))
    }

    fn unreadable(&self, offset: u64) -> OpenError {
        OpenError::corrupt(self.name, offset, "snapshot block is unreadable")
    }
}

type Decoded = Vec<(Key, Entry)>;

/// Reads blocks on this thread and decodes them on others, each of which gets every n-th block.
fn decode_blocks(blocks: &mut Blocks<'_>, revision: Revision, threads: usize) -> Result<Decoded, OpenError> {
    let decode = |block: Block| decode_block(&block.bytes, revision).ok_or(block.offset);
    let decoded = thread::scope(|scope| {
        let mut decoders = Vec::new();
        for _ in 0..threads {
            let (sender, receiver) = mpsc::sync_channel::<Block>(QUEUED_BLOCKS_MAX);
            let decode_all = move || receiver.into_iter().map(decode).collect::<Result<Vec<Decoded>, u64>>();
            let thread = thread::Builder::new().name("store-load".into()).spawn_scoped(scope, decode_all);
            decoders.push((sender, thread.map_err(OpenError::io("start", "decoder"))?));
        }
        let mut turn = decoders.iter().cycle();
        while let (Some(block), Some((sender, _))) = (blocks.next()?, turn.next()) {
            // A decoder ends early because of an error, which it returns below.
            if sender.send(block).is_err() {
                break;
            }
        }
        let decoded = decoders.into_iter().map(|(sender, thread)| {
            drop(sender);
            let decoded = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            decoded.map_err(|offset| blocks.unreadable(offset))
        });
        decoded.collect::<Result<Vec<Vec<Decoded>>, OpenError>>()
    })?;
    join(decoded).ok_or_else(|| OpenError::corrupt(blocks.name, blocks.offset, "snapshot is not in order"))
}

/// Joins the blocks of all threads; `None` if they are not in ascending order.
fn join(decoded: Vec<Vec<Decoded>>) -> Option<Decoded> {
    let mut all = Vec::with_capacity(decoded.iter().flatten().map(Vec::len).sum());
    let mut threads: Vec<_> = decoded.into_iter().map(Vec::into_iter).collect();
    let mut turn = 0;
    while let Some(block) = threads.get_mut(turn).and_then(Iterator::next) {
        let before: Option<&(Key, Entry)> = all.last();
        if before.zip(block.first()).is_some_and(|((before, _), (first, _))| before >= first) {
            return None;
        }
        all.extend(block);
        turn = turn.saturating_add(1).checked_rem(threads.len())?;
    }
    Some(all)
}

fn read_block(
    input: &mut dyn Read,
    block: &mut Vec<u8>,
    crc: u32,
    name: &str,
    offset: u64,
) -> Result<u32, OpenError> {
    let mut header = [0; BLOCK_HEADER];
    input.read_exact(&mut header).map_err(cut_short(name, offset))?;
    let length = le_u32(&header, 0);
    if length as usize > BLOCK_BYTES + FRAME_BYTES_MAX {
        return Err(OpenError::corrupt(name, offset, "snapshot block is damaged"));
    }
    block.resize(length as usize, 0);
    input.read_exact(block).map_err(cut_short(name, offset))?;
    if block_crc(crc, length, block) != le_u32(&header, 4) {
        return Err(OpenError::corrupt(name, offset, "snapshot block is damaged"));
    }
    Ok(le_u32(&header, 4))
}

/// An entry of a block as bytes.
struct RawEntry<'a> {
    header: &'a [u8; ENTRY_HEADER],
    key: &'a [u8],
    value: &'a [u8],
}

/// Splits a block into its first entry and the rest.
fn split_entry(block: &[u8]) -> Option<(RawEntry<'_>, &[u8])> {
    let (header, rest) = block.split_first_chunk::<ENTRY_HEADER>()?;
    let key_len = usize::from(u16::from_le_bytes([header[0], header[1]]));
    let (key, rest) = rest.split_at_checked(key_len).filter(|_| key_len <= KEY_BYTES_MAX)?;
    let (value, rest) = rest.split_at_checked(le_u32(header, 4) as usize)?;
    Some((RawEntry { header, key, value }, rest))
}

/// How many entries a block has; `None` if it does not end with one.
fn count_entries(mut block: &[u8]) -> Option<u64> {
    let mut count = 0_u64;
    while !block.is_empty() {
        (_, block) = split_entry(block)?;
        count = count.saturating_add(1);
    }
    Some(count)
}

fn decode_block(mut block: &[u8], revision: Revision) -> Option<Decoded> {
    let mut entries: Decoded = Vec::new();
    while !block.is_empty() {
        let (RawEntry { header, key, value }, rest) = split_entry(block)?;
        let key = std::str::from_utf8(key).ok()?;
        let (created, modified) = (Revision(le_u64(header, 8)), Revision(le_u64(header, 16)));
        let in_order = entries.last().is_none_or(|(before, _)| &**before < key);
        if !in_order || created > modified || modified > revision {
            return None;
        }
        // Values are copied out one by one: a slice would keep the whole block in memory.
        let entry = Entry { value: Bytes::copy_from_slice(value), created, modified };
        entries.push((Key::from(key), entry));
        block = rest;
    }
    Some(entries)
}

fn cut_short(name: &str, offset: u64) -> impl FnOnce(io::Error) -> OpenError {
    let name = name.to_owned();
    move |error| match error.kind() {
        io::ErrorKind::UnexpectedEof => OpenError::corrupt(&name, offset, "snapshot is cut short"),
        _ => OpenError::Io { action: "read", file: name, source: error },
    }
}

/// Appends to a file.
struct FileEnd<'a> {
    file: PacedFile<'a>,
    offset: u64,
}

impl Write for FileEnd<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(self.offset, bytes)?;
        self.offset = self.offset.saturating_add(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a file from its beginning.
struct FileStart<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
    length: u64,
}

impl Read for FileStart<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let count = into.len().min(left);
        self.file.read_at(self.offset, into.get_mut(..count).unwrap_or_default())?;
        self.offset = self.offset.saturating_add(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a snapshot of several blocks with a number of threads.
    fn decoded(threads: usize, bytes: &[u8], count: u64) -> Result<Decoded, OpenError> {
        let (header, mut input) = bytes.split_at(HEADER);
        let crc = le_u32(header, HEADER_CRC_AT);
        let mut blocks =
            Blocks { input: &mut input, name: "snapshot", crc, offset: HEADER as u64, left: count };
        decode_blocks(&mut blocks, Revision(40), threads)
    }

    #[test]
    fn any_number_of_threads_decodes_the_same_entries() {
        let entry = |n: u64| Entry {
            value: vec![0; 100_000].into(),
            created: Revision(n + 1),
            modified: Revision(40),
        };
        let entries: Decoded = (0..30).map(|n| (format!("/key-{n:02}").into(), entry(n))).collect();
        let mut bytes = Vec::new();
        let snapshot = Snapshot::from_entries(Revision(40), entries.clone());
        write_backup(&snapshot, &mut bytes).unwrap();
        assert!(bytes.len() > 5 * BLOCK_BYTES, "several blocks");
        let (length, estimated) = (bytes.len() as u64, encoded_len(&snapshot));
        assert!((length..length + 100).contains(&estimated), "{length} bytes, {estimated} were estimated");
        for threads in [1, 2, 3, 16] {
            assert!(decoded(threads, &bytes, 30).unwrap() == entries, "{threads} threads");
            // The header promises fewer entries than the blocks have, or more.
            assert!(decoded(threads, &bytes, 29).is_err() && decoded(threads, &bytes, 31).is_err());
        }
    }

    #[test]
    fn blocks_that_are_not_in_order_are_refused() {
        let entry = Entry { value: Bytes::new(), created: Revision(2), modified: Revision(2) };
        let block = |key: &str| vec![(Key::from(key), entry.clone())];
        let (first, second, third) = (block("a"), block("b"), block("c"));
        let in_order = join(vec![vec![first.clone(), third.clone()], vec![second.clone()]]).unwrap();
        assert_eq!(in_order.iter().map(|(key, _)| &**key).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(join(vec![vec![first, second], vec![third]]).is_none());
    }
}
