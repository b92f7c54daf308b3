//! Files that were damaged while the store was closed: opening refuses them and names the place, unless the damage
//! can only be an unfinished last write.

use super::small_options;
use crate::repair::recover_on;
use crate::segment::{Reader, SEGMENT_HEADER, SegmentHeader};
use crate::sim::{Random, SimDisk};
use crate::*;
use std::ops::Range;
use std::sync::Arc;

fn options() -> Options {
    small_options(Arc::new(ManualClock::new(1)))
}

/// A store with a snapshot and several segments.
async fn sample() -> SimDisk {
    let disk = Arc::new(SimDisk::default());
    let store = Embedded::open_on(disk.clone(), options()).unwrap();
    for index in 0..30 {
        let write = Write::put(format!("/{}", index % 4), Expect::Any, vec![index; 150]);
        store.write(write).await.unwrap();
        if index == 5 {
            store.compact(u64::MAX).await.unwrap();
        }
    }
    store.close().await;
    disk.after_kill()
}

fn segments(disk: &SimDisk) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.starts_with("segment-")).collect()
}

fn frames(disk: &SimDisk, name: &str) -> Vec<Range<usize>> {
    let bytes = disk.content(name).unwrap();
    let header = SegmentHeader::decode(&bytes, SegmentHeader::parse_name(name).unwrap()).unwrap();
    let mut reader = Reader::new(&bytes, header, true);
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        frames.push(frame.offset..frame.end);
    }
    frames
}

/// Opens a copy of the disk with the file changed.
fn open_changed(
    disk: &SimDisk,
    name: &str,
    change: impl FnOnce(&mut Vec<u8>),
) -> Result<Revision, OpenError> {
    let copy = Arc::new(disk.after_kill());
    let mut content = copy.content(name).unwrap();
    change(&mut content);
    copy.plant(name, content.clone());
    let opened = Embedded::open_on(copy.clone(), options());
    if opened.is_err() {
        assert_eq!(copy.content(name).unwrap(), content, "a refused store must be left as it is");
    }
    opened.map(|store| store.revision())
}

#[track_caller]
fn assert_corrupt(outcome: Result<Revision, OpenError>, name: &str, place: usize, at: usize) {
    match outcome {
        Err(OpenError::Corrupt { file, offset, .. }) => {
            assert_eq!((file.as_str(), offset), (name, place as u64), "byte {at}");
        }
        other => panic!("{name}, byte {at}: expected corruption at {place}, got {other:?}"),
    }
}

#[tokio::test]
async fn a_flipped_byte_in_the_log_is_refused_with_its_place() {
    let disk = sample().await;
    let names = segments(&disk);
    assert!(names.len() >= 2, "{names:?}");
    let (newest, older) = names.split_last().unwrap();
    for name in older {
        for frame in frames(&disk, name) {
            for at in frame.clone() {
                assert_corrupt(open_changed(&disk, name, |c| c[at] ^= 0x10), name, frame.start, at);
            }
        }
        let end = frames(&disk, name).last().unwrap().end;
        let last = disk.content(name).unwrap().len() - 1;
        for at in [end, (end + last) / 2, last] {
            assert_corrupt(open_changed(&disk, name, |c| c[at] ^= 0x10), name, end, at);
        }
    }
    let frames = frames(&disk, newest);
    let (_, acknowledged) = frames.split_last().unwrap();
    assert!(acknowledged.len() >= 2);
    for frame in acknowledged {
        for at in frame.clone() {
            assert_corrupt(open_changed(&disk, newest, |c| c[at] ^= 0x10), newest, frame.start, at);
        }
    }
}

#[tokio::test]
async fn wiped_regions_are_refused() {
    let disk = sample().await;
    let mut random = Random::new(3);
    for name in segments(&disk) {
        let frames = frames(&disk, &name);
        for _ in 0..100 {
            let index = random.below(frames.len() as u64 - 1) as usize;
            let hole = frames[index].start..frames[index].end;
            let garbage = random.number() as u8;
            let outcome = open_changed(&disk, &name, |content| content[hole.clone()].fill(garbage));
            assert_corrupt(outcome, &name, hole.start, index);
        }
    }
}

#[tokio::test]
async fn damaged_headers_manifests_and_snapshots_are_refused() {
    let disk = sample().await;
    for name in disk.list().unwrap() {
        let end =
            if name.starts_with("segment-") { SEGMENT_HEADER } else { disk.content(&name).unwrap().len() };
        for at in 0..end {
            let refused = open_changed(&disk, &name, |content| content[at] ^= 0x10).unwrap_err();
            let OpenError::Corrupt { file, .. } = &refused else { panic!("{name}, byte {at}: {refused}") };
            assert_eq!(*file, name);
            if !name.starts_with("segment-") {
                let cut = open_changed(&disk, &name, |content| content.truncate(at)).unwrap_err();
                assert!(matches!(cut, OpenError::Corrupt { .. }), "{name} cut at {at}: {cut}");
            }
        }
    }
}

/// No crash can make a segment shorter, so a cut segment held acknowledged writes.
#[tokio::test]
async fn a_log_cut_anywhere_is_refused_and_can_be_recovered() {
    let disk = sample().await;
    let newest = segments(&disk).pop().unwrap();
    let frames = frames(&disk, &newest);
    let full = open_changed(&disk, &newest, |_| ()).unwrap();
    for length in SEGMENT_HEADER..disk.content(&newest).unwrap().len() {
        let outcome = open_changed(&disk, &newest, |content| content.truncate(length));
        assert_corrupt(outcome, &newest, length, length);
        let copy = Arc::new(disk.after_kill());
        let mut content = copy.content(&newest).unwrap();
        content.truncate(length);
        copy.plant(&newest, content);
        let lost = frames.iter().filter(|frame| frame.end > length).count() as u64;
        let looked = recover_on(&*copy, &options(), true).unwrap().unwrap();
        assert!(Embedded::open_on(copy.clone(), options()).is_err(), "a dry run changes nothing");
        let recovery = recover_on(&*copy, &options(), false).unwrap().unwrap();
        assert_eq!((recovery.read_until, recovery.damage.len()), (Revision(full.0 - lost), 1), "{length}");
        assert_eq!((looked.read_until, looked.damage), (recovery.read_until, recovery.damage));
        let store = Embedded::open_on(copy.clone(), options()).unwrap();
        assert!(store.revision() > full, "revisions never go back");
        assert_eq!(store.snapshot_state().len(), recovery.entries);
        assert!(copy.content(&recovery.saved[0]).is_some());
        assert_eq!(recover_on(&*copy, &options(), false).unwrap(), None, "what was recovered is sound");
    }
    let outcome = open_changed(&disk, &newest, |content| content.truncate(SEGMENT_HEADER - 1));
    assert_corrupt(outcome, &newest, 0, SEGMENT_HEADER - 1);
}

#[tokio::test]
async fn what_is_lost_behind_a_damaged_frame_is_said() {
    let disk = sample().await;
    let names = segments(&disk);
    let older = &names[names.len() - 2];
    let frame = frames(&disk, older)[0].clone();
    let copy = Arc::new(disk.after_kill());
    let mut content = copy.content(older).unwrap();
    content[frame.start + 50] ^= 1;
    copy.plant(older, content);
    let recovery = recover_on(&*copy, &options(), false).unwrap().unwrap();
    assert_eq!(recovery.known_until, Revision(31), "the last of the frames behind it");
    assert!(recovery.read_until < recovery.known_until);
    assert_eq!(recovery.saved, [format!("lost-{older}"), format!("lost-{}", names[names.len() - 1])]);
    assert!(recovery.damage[0].contains(older.as_str()), "{:?}", recovery.damage);
    Embedded::open_on(copy, options()).unwrap();
}

/// Stores of older builds name neither the newest segment nor the lengths.
#[tokio::test]
async fn a_store_of_an_older_build_is_read_and_then_guarded() {
    let disk = sample().await;
    let rewrite = |name: &str, from: usize, to: usize, crc_at: usize| {
        let mut content = disk.content(name).unwrap();
        content[from..to].fill(0);
        let crc = crc32c::crc32c(&content[..crc_at]);
        content[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
        disk.plant(name, content);
    };
    rewrite("MANIFEST", 32, 36, 36);
    segments(&disk).iter().for_each(|name| rewrite(name, 40, 48, SEGMENT_HEADER - 4));
    let disk = Arc::new(disk);
    drop(Embedded::open_on(disk.clone(), options()).unwrap());
    let newest = segments(&disk).pop().unwrap();
    disk.remove(&newest).unwrap();
    let refused = Embedded::open_on(disk, options()).err().unwrap().to_string();
    assert!(refused.contains(&newest), "{refused}");
}

#[tokio::test]
async fn a_torn_last_frame_is_dropped_and_written_over() {
    let disk = sample().await;
    let newest = segments(&disk).pop().unwrap();
    let last = frames(&disk, &newest).pop().unwrap();
    for at in last.clone() {
        let copy = Arc::new(disk.after_kill());
        let mut content = copy.content(&newest).unwrap();
        content[at] ^= 0x10;
        copy.plant(&newest, content);
        let store = Embedded::open_on(copy.clone(), options()).unwrap();
        assert_eq!(store.revision(), Revision(30));
        assert_eq!(store.write(Write::put("/new", Expect::Absent, "")).await, Ok(Revision(31)));
        store.close().await;
        let store = Embedded::open_on(copy, options()).unwrap();
        assert_eq!((store.revision(), store.snapshot_state().len()), (Revision(31), 5));
    }
}

#[tokio::test]
async fn missing_files_are_refused_by_name() {
    let disk = sample().await;
    let names = disk.list().unwrap();
    for name in &names {
        let copy = Arc::new(disk.after_kill());
        copy.remove(name).unwrap();
        let refused = Embedded::open_on(copy, options()).err().unwrap().to_string();
        assert!(refused.contains(name.as_str()), "{name}: {refused}");
    }
}

/// A value may hold a copy of the log itself and must not be taken for a frame.
#[tokio::test]
async fn a_value_that_looks_like_a_log_does_no_harm() {
    let disk = sample().await;
    let newest = segments(&disk).pop().unwrap();
    let copied = disk.content(&newest).unwrap();
    let disk = Arc::new(disk.after_kill());
    let store = Embedded::open_on(disk.clone(), Options { segment_bytes_max: 1 << 20, ..options() }).unwrap();
    store.write(Write::put("/copy", Expect::Any, copied)).await.unwrap();
    store.close().await;
    let newest = segments(&disk).pop().unwrap();
    let last = frames(&disk, &newest).pop().unwrap();
    let found = open_changed(&disk, &newest, |content| content[last.start..last.start + 40].fill(0)).unwrap();
    assert_eq!(found, Revision(31), "torn, not corrupt");
}

#[tokio::test]
async fn an_unknown_format_version_is_said_plainly() {
    let disk = sample().await;
    let outcome = open_changed(&disk, "MANIFEST", |content| {
        content[8] = 9;
        let crc = crc32c::crc32c(&content[..36]);
        content[36..].copy_from_slice(&crc.to_le_bytes());
    });
    assert_eq!(outcome.unwrap_err().to_string(), "MANIFEST has format version 9; this build reads version 1");
}
