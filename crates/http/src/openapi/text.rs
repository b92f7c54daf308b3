//! The texts that documents are assembled from, plain or as gzip.
//!
//! Compressed text is cached per run of texts. A single text is too short to compress well, and a compressed document
//! would have to be made anew after each change. The texts alone determine where a run begins, so a new text only
//! changes the run that contains it.

use crate::body::{Aborted, Body, Chunks};
use bytes::{BufMut, Bytes, BytesMut};
use flate2::{Compress, Compression, Crc, FlushCompress};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

/// The chunk size of bodies; smaller texts are combined.
const CHUNK_BYTES: usize = 64 * 1024;
const GZIP_CHUNK_BYTES: usize = 16 * 1024;
/// On average one of so many names starts a run.
const RUN_NAMES: u32 = 16;
/// The gzip header (no name, no time, unknown system) and the empty last block of the data.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];
const LAST_BLOCK: [u8; 2] = [3, 0];

/// A piece of a document.
pub(super) struct Text {
    plain: Bytes,
    begins_run: bool,
    /// The compressed run that starts with this text, cached from the last request.
    run: Mutex<Option<Arc<Run>>>,
}

/// A run of texts as deflate blocks that end at a byte boundary and do not refer to earlier data.
struct Run {
    /// The texts after the first.
    others: Vec<Weak<Text>>,
    blocks: Bytes,
    crc: Crc,
}

impl Text {
    /// Wraps a text.
    pub(super) fn new(plain: impl Into<Bytes>) -> Self {
        Text { plain: plain.into(), begins_run: true, run: Mutex::default() }
    }

    /// A member of a document.
    pub(super) fn named(name: &str, plain: impl Into<Bytes>) -> Self {
        let mut crc = Crc::new();
        crc.update(name.as_bytes());
        Text { begins_run: crc.sum().is_multiple_of(RUN_NAMES), ..Text::new(plain) }
    }

    /// The text without the separator at its start, for the first member.
    pub(super) fn first(&self, separator: usize) -> Self {
        Text { begins_run: false, ..Text::new(self.plain.slice(separator..)) }
    }

    pub(super) fn plain(&self) -> &Bytes {
        &self.plain
    }
}

impl Run {
    /// The compressed run of these texts; the cached one if they are unchanged.
    fn of(texts: &[Arc<Text>]) -> Option<Arc<Run>> {
        let (first, others) = texts.split_first()?;
        let cached = || first.run.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |run: &&Arc<Run>| {
            let pairs = || run.others.iter().zip(others);
            run.others.len() == others.len() && pairs().all(|(old, new)| old.as_ptr() == Arc::as_ptr(new))
        };
        if let Some(run) = cached().as_ref().filter(is_same) {
            return Some(run.clone());
        }
        let plain: Vec<u8> = texts.iter().flat_map(|text| text.plain.iter().copied()).collect();
        let mut crc = Crc::new();
        crc.update(&plain);
        let others = others.iter().map(Arc::downgrade).collect();
        let run = Arc::new(Run { others, blocks: deflate(&plain), crc });
        *cached() = Some(run.clone());
        Some(run)
    }
}

fn deflate(plain: &[u8]) -> Bytes {
    let mut encoder = Compress::new(Compression::fast(), false);
    let mut out = Vec::with_capacity((plain.len() / 4).saturating_add(64));
    loop {
        let done = usize::try_from(encoder.total_in()).unwrap_or(usize::MAX);
        let rest = plain.get(done..).unwrap_or_default();
        // Compression only fails if its state is invalid, and this one is new.
        let failed = encoder.compress_vec(rest, &mut out, FlushCompress::Sync).is_err();
        // Spare capacity means that everything was written.
        if failed || out.len() < out.capacity() {
            out.shrink_to_fit();
            return out.into();
        }
        out.reserve((plain.len() / 4).saturating_add(64));
    }
}

/// Texts one after another.
#[derive(Clone)]
pub(super) struct Texts(pub(super) Arc<[Arc<Text>]>);

impl Texts {
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|text| text.plain.len()).sum()
    }

    /// A body that is assembled while the client reads.
    pub(super) fn body(&self) -> Body {
        match &*self.0 {
            [one] => Body::Full(one.plain.clone()),
            _ => Body::Chunks(Box::pin(Plain { texts: self.clone(), next: 0, remaining: self.len() })),
        }
    }

    /// The bytes from `first` to `last`.
    pub(super) fn part(&self, first: usize, last: usize) -> Bytes {
        let (mut out, mut start) = (BytesMut::new(), 0usize);
        for text in self.0.iter() {
            let end = start.saturating_add(text.plain.len());
            let (from, to) = (first.max(start), last.saturating_add(1).min(end));
            if from < to {
                out.put(text.plain.slice(from.saturating_sub(start)..to.saturating_sub(start)));
            }
            start = end;
        }
        out.freeze()
    }

    #[cfg(test)]
    pub(super) fn whole(&self) -> Vec<u8> {
        self.0.iter().flat_map(|text| text.plain.to_vec()).collect()
    }
}

struct Plain {
    texts: Texts,
    next: usize,
    remaining: usize,
}

impl Chunks for Plain {
    fn poll_chunk(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        let texts = self.texts.clone();
        let chunk = gather(&texts, &mut self.next);
        self.remaining = self.remaining.saturating_sub(chunk.len());
        Poll::Ready((!chunk.is_empty()).then_some(Ok(chunk)))
    }

    fn remaining(&self) -> Option<u64> {
        u64::try_from(self.remaining).ok()
    }

    fn compressed(&self) -> Option<Pin<Box<dyn Chunks>>> {
        Some(Box::pin(Gzip { texts: self.texts.clone(), next: 0, crc: Crc::new(), ended: false }))
    }
}

/// The next texts up to the size of a chunk; a large one is sent without copying.
fn gather(texts: &Texts, next: &mut usize) -> Bytes {
    let mut out = BytesMut::new();
    while let Some(text) = texts.0.get(*next) {
        if out.is_empty() && text.plain.len() >= CHUNK_BYTES {
            *next = next.saturating_add(1);
            return text.plain.clone();
        }
        if out.len().saturating_add(text.plain.len()) > CHUNK_BYTES {
            break;
        }
        if out.is_empty() {
            out.reserve(CHUNK_BYTES);
        }
        out.extend_from_slice(&text.plain);
        *next = next.saturating_add(1);
    }
    out.freeze()
}

/// The body in gzip, from runs that are compressed when they are first needed.
struct Gzip {
    texts: Texts,
    next: usize,
    crc: Crc,
    ended: bool,
}

impl Gzip {
    fn next_run(&mut self) -> Option<Arc<Run>> {
        let rest = self.texts.0.get(self.next..)?;
        let len = rest
            .iter()
            .skip(1)
            .position(|text| text.begins_run)
            .map_or(rest.len(), |at| at.saturating_add(1));
        self.next = self.next.saturating_add(len);
        Run::of(rest.get(..len)?)
    }
}

impl Chunks for Gzip {
    fn poll_chunk(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut out = BytesMut::with_capacity(GZIP_CHUNK_BYTES * 2);
        if self.next == 0 {
            out.put_slice(&GZIP_HEAD);
        }
        while out.len() < GZIP_CHUNK_BYTES {
            let Some(run) = self.next_run() else {
                self.ended = true;
                out.put_slice(&LAST_BLOCK);
                out.put_u32_le(self.crc.sum());
                out.put_u32_le(self.crc.amount());
                break;
            };
            self.crc.combine(&run.crc);
            out.put_slice(&run.blocks);
        }
        Poll::Ready(Some(Ok(out.freeze())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::io::Read;

    #[test]
    fn a_new_text_changes_the_run_it_comes_into_only() {
        let text = |n: usize| Arc::new(Text::named(&format!("name{n}"), n.to_string()));
        let runs = |texts: &[Arc<Text>]| {
            let texts = Texts(texts.to_vec().into());
            let mut gzip = Gzip { texts, next: 0, crc: Crc::new(), ended: false };
            std::iter::from_fn(|| gzip.next_run()).collect::<Vec<_>>()
        };
        let mut texts: Vec<_> = (0..200).map(text).collect();
        let before = runs(&texts);
        texts.insert(100, text(1000));
        let after = runs(&texts);
        let cached = after.iter().filter(|run| before.iter().any(|old| Arc::ptr_eq(old, run))).count();
        assert!(before.len() > 5 && cached + 2 >= before.len(), "{cached} of {}", before.len());
    }

    #[tokio::test]
    async fn pieces_make_one_whole() {
        let pieces: [Vec<u8>; 5] = [
            b"{".to_vec(),
            (0..200_000u32).map(|i| (i % 251) as u8).collect(),
            Vec::new(),
            (0..70_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect(),
            b"}".to_vec(),
        ];
        let whole: Vec<u8> = pieces.concat();
        let named = |(n, piece): (usize, Vec<u8>)| Arc::new(Text::named(&n.to_string(), piece));
        let texts = Texts(pieces.into_iter().enumerate().map(named).collect());
        assert_eq!(texts.len(), whole.len());
        assert_eq!(texts.body().size(), Some(whole.len() as u64));
        assert_eq!(texts.body().collect().await.unwrap().to_bytes(), whole);
        let packed = || async {
            let packed = crate::compress::gzip(texts.body()).collect().await.unwrap().to_bytes();
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
            unpacked
        };
        assert!(packed().await == whole);
        assert!(packed().await == whole, "from what was cached");
    }
}
