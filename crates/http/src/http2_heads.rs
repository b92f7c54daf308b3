//! The header blocks of HTTP/2 requests, before the HTTP/2 library reads them. Blocks with too many fields are refused, and URLs
//! that the library cannot hold are replaced by placeholders.
//!
//! HPACK names a field that was sent before by a single byte, and the decoded field takes 72 bytes. The library limits the size of
//! decoded lists, but not the number of fields: a client without credentials could make the server use a hundred megabytes
//! with one and a half.

use crate::head_budget::{HeadBudget, HeadShare};
use crate::request_line::{FIELDS_MAX, HeadTarget, LongTarget, RequestExtras, TargetForm, target_form};
use pintle_hpack::{Field, Fields, Indexing, Literal, Name, write_literal, write_named};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The first bytes of an HTTP/2 connection.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const FRAME_HEADER: usize = 9;
/// The longest payload of a frame; the library ends connections with longer ones.
const PAYLOAD_BYTES_MAX: usize = 16_384;
/// The most frames of a block. The library ends connections with fewer than these, which depends on the limit of heads.
const FRAMES_MAX: usize = 128;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const HAS_PRIORITY: u8 = 0x20;
const PRIORITY_BYTES: usize = 5;
/// The entries of HPACK's static table with the name `:path`.
const PATHS: std::ops::RangeInclusive<u64> = 4..=5;
const PATH: &[u8] = b":path";

/// A header block has too many fields.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("a request has more than {FIELDS_MAX} header fields")]
pub(crate) struct TooManyFields;

/// Finds the header blocks in the frames of one connection.
pub(crate) struct Http2Heads {
    /// The number of bytes to the next frame.
    skipped: usize,
    /// The number of bytes and of frames of an incomplete block that are known to be complete frames.
    complete: (usize, usize),
    urls: ReplacedUrls,
}

/// What to do with bytes that a client sent.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// All bytes pass unchanged.
    Plain,
    /// The bytes before `at` pass. The others are an incomplete frame or block, and are to be given again together with more.
    Incomplete { at: usize },
    /// The bytes before `at` pass, then `block` in place of those before `end`. The rest is to be given again.
    Replaced { at: usize, block: Vec<u8>, end: usize },
    /// The library ends the connection because of the frame that ends at `end`, so nothing passes after it.
    Broken { end: usize },
}

impl Http2Heads {
    /// Finds the blocks of a connection of which `preface_left` bytes of the preface are still to be read.
    pub(crate) fn new(preface_left: usize, urls: ReplacedUrls) -> Self {
        Http2Heads { skipped: preface_left, complete: (0, 0), urls }
    }

    /// Forgets replaced URLs that no later request can refer to. The requests that have been read so far must have their targets.
    pub(crate) fn forget_long_urls(&self) {
        // HPACK's dynamic table has no room for them.
        self.urls.lock().retain(|replaced| replaced.url.len() <= TABLE_BYTES);
    }

    /// Examines the next bytes. They begin where the bytes ended that passed before.
    pub(crate) fn examine(&mut self, bytes: &[u8]) -> Result<Found, TooManyFields> {
        let mut at = 0_usize;
        loop {
            let skipped = self.skipped.min(bytes.len().saturating_sub(at));
            at = at.saturating_add(skipped);
            self.skipped = self.skipped.saturating_sub(skipped);
            let rest = bytes.get(at..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(Found::Plain);
            }
            let Some(frame) = FrameHeader::read(rest) else { return Ok(Found::Incomplete { at }) };
            if frame.kind != HEADERS {
                self.skipped = FRAME_HEADER.saturating_add(frame.length);
                continue;
            }
            let end = match self.block_end(rest, frame) {
                End::At(end) => end,
                End::Incomplete => return Ok(Found::Incomplete { at }),
                End::Broken(end) => return Ok(Found::Broken { end: at.saturating_add(end) }),
            };
            let replaced = self.replace_urls(rest.get(..end).unwrap_or_default(), frame)?;
            let end = at.saturating_add(end);
            if let Some(block) = replaced {
                return Ok(Found::Replaced { at, block, end });
            }
            at = end;
        }
    }

    /// Finds the end of the block that begins with a frame at the start of `bytes`.
    fn block_end(&mut self, bytes: &[u8], first: FrameHeader) -> End {
        let (mut at, mut frames) = std::mem::take(&mut self.complete);
        loop {
            let Some(frame) = bytes.get(at..).and_then(FrameHeader::read) else {
                self.complete = (at, frames);
                return End::Incomplete;
            };
            let is_expected = frames == 0 || (frame.kind == CONTINUATION && frame.stream == first.stream);
            if !is_expected || frame.length > PAYLOAD_BYTES_MAX || frames >= FRAMES_MAX {
                return End::Broken(at.saturating_add(FRAME_HEADER));
            }
            let end = at.saturating_add(FRAME_HEADER).saturating_add(frame.length);
            if end > bytes.len() {
                self.complete = (at, frames);
                return End::Incomplete;
            }
            if frame.flags & END_HEADERS != 0 {
                return End::At(end);
            }
            (at, frames) = (end, frames.saturating_add(1));
        }
    }

    /// Returns other frames for those of a block, if it has a URL that must be replaced. A block that cannot be decoded stays as it
    /// is: the library ends the connection.
    fn replace_urls(&self, frames: &[u8], first: FrameHeader) -> Result<Option<Vec<u8>>, TooManyFields> {
        let Some(block) = content(frames) else { return Ok(None) };
        let mut fields = Fields::of(&block);
        let (mut count, mut start) = (0_usize, 0);
        let (mut copied, mut rewritten) = (0, Vec::new());
        while let Some(Ok(field)) = fields.next() {
            let end = block.len().saturating_sub(fields.rest().len());
            count = count.saturating_add(usize::from(!matches!(field, Field::TableSize(_))));
            if count > FIELDS_MAX {
                return Err(TooManyFields);
            }
            if let Field::Literal(literal) = field
                && let Some(placeholder) = self.placeholder(&literal)
            {
                rewritten.extend_from_slice(block.get(copied..start).unwrap_or_default());
                match literal.name {
                    Name::Index(name) => write_named(&mut rewritten, literal.indexing, name, &placeholder),
                    Name::Text(_) if literal.indexing == Indexing::Incremental => {
                        write_named(&mut rewritten, literal.indexing, *PATHS.start(), &placeholder);
                    }
                    Name::Text(_) => write_literal(&mut rewritten, PATH, &placeholder),
                }
                copied = end;
            }
            start = end;
        }
        if copied == 0 {
            return Ok(None);
        }
        rewritten.extend_from_slice(block.get(copied..).unwrap_or_default());
        Ok(Some(framed(&rewritten, first)))
    }

    /// Returns what a URL is replaced by, if the field has one that must be replaced.
    fn placeholder(&self, field: &Literal<'_>) -> Option<Vec<u8>> {
        let is_path = match &field.name {
            Name::Index(index) => PATHS.contains(index),
            // The code of each byte has five bits or more, so this text may be the name.
            Name::Text(name) => name.sent_bytes() <= PATH.len() && name.decode().ok()? == PATH,
        };
        let url = is_path.then(|| field.value.decode().ok())?.filter(|url| url.starts_with(b"/"))?;
        let placeholder = match target_form(&url) {
            TargetForm::Plain => return None,
            TargetForm::Encoded => self.urls.replace(&url),
            TargetForm::Refused => None,
        };
        // The library resets the stream of a request with this URL, as Go does if it refuses one.
        Some(placeholder.unwrap_or_else(|| vec![b'<'; placeholder_length(&url)]))
    }
}

/// The end of a header block.
enum End {
    At(usize),
    Incomplete,
    /// The library ends the connection when it has read so many bytes.
    Broken(usize),
}

#[derive(Clone, Copy)]
struct FrameHeader {
    length: usize,
    kind: u8,
    flags: u8,
    stream: [u8; 4],
}

impl FrameHeader {
    fn read(bytes: &[u8]) -> Option<Self> {
        let ([a, b, c, kind, flags, s1, s2, s3, s4], _) = bytes.split_first_chunk::<FRAME_HEADER>()?;
        let length = u32::from_be_bytes([0, *a, *b, *c]);
        // The first bit of the stream is reserved.
        let stream = [s1 & 0x7f, *s2, *s3, *s4];
        Some(FrameHeader { length: usize::try_from(length).ok()?, kind: *kind, flags: *flags, stream })
    }

    fn write(self, out: &mut Vec<u8>) {
        let [_, length @ ..] = u32::try_from(self.length).unwrap_or(u32::MAX).to_be_bytes();
        out.extend_from_slice(&length);
        out.extend_from_slice(&[self.kind, self.flags]);
        out.extend_from_slice(&self.stream);
    }
}

/// The header block in these frames, without padding and priority. `None` if the padding is too long.
fn content(mut frames: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut block = Cow::Borrowed(&[][..]);
    while let Some(frame) = FrameHeader::read(frames) {
        let (payload, rest) = frames.get(FRAME_HEADER..)?.split_at_checked(frame.length)?;
        frames = rest;
        let part = if frame.kind == HEADERS { without_padding(payload, frame.flags)? } else { payload };
        if block.is_empty() { block = Cow::Borrowed(part) } else { block.to_mut().extend_from_slice(part) }
    }
    Some(block)
}

fn without_padding(payload: &[u8], flags: u8) -> Option<&[u8]> {
    let (padding, payload) = match flags & PADDED {
        0 => (0, payload),
        _ => payload.split_first().map(|(padding, rest)| (usize::from(*padding), rest))?,
    };
    let start = if flags & HAS_PRIORITY != 0 { PRIORITY_BYTES } else { 0 };
    payload.get(start..payload.len().checked_sub(padding)?)
}

/// The frames of a block on the stream of `first`. Padding and priority, which the library ignores, are left out.
fn framed(block: &[u8], first: FrameHeader) -> Vec<u8> {
    let mut out = Vec::with_capacity(block.len().saturating_add(FRAME_HEADER));
    let mut parts = block.chunks(PAYLOAD_BYTES_MAX).peekable();
    let (mut kind, mut flags) = (HEADERS, first.flags & !(PADDED | HAS_PRIORITY | END_HEADERS));
    while let Some(part) = parts.next() {
        let end = if parts.peek().is_none() { END_HEADERS } else { 0 };
        FrameHeader { length: part.len(), kind, flags: flags | end, stream: first.stream }.write(&mut out);
        out.extend_from_slice(part);
        (kind, flags) = (CONTINUATION, 0);
    }
    out
}

/// The size of HPACK's dynamic table, which the library does not change. A longer field empties the table and is not added to it.
const TABLE_BYTES: usize = 4096;
/// The most bytes of replaced URLs that a connection retains, besides the newest URL. All that can be in the dynamic table, and all that
/// the library reads before it passes requests on, is less.
const RETAINED_BYTES_MAX: usize = 64 * 1024;
/// The most replaced URLs that a connection retains: short ones take more memory than they have bytes.
const RETAINED_URLS_MAX: usize = 2048;
/// How a placeholder begins. [`target_form`] has all URLs replaced that contain a quotation mark, so that none of a client begins so.
const PLACEHOLDER: &str = "/\"";
/// The digits of a placeholder's number, six bits each.
const DIGITS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

/// The URLs of a connection that were replaced, shared by the connection and its requests.
#[derive(Clone)]
pub(crate) struct ReplacedUrls {
    retained: Arc<Mutex<Retained>>,
    budget: HeadBudget,
}

/// The oldest URL is the first.
#[derive(Default)]
struct Retained {
    urls: VecDeque<Replaced>,
    bytes: usize,
    /// How many URLs were replaced.
    count: usize,
}

struct Replaced {
    placeholder: Vec<u8>,
    url: Vec<u8>,
    _share: HeadShare,
}

/// The length of a placeholder. The dynamic table of the library must always have the entries that the client's has, so a
/// placeholder is as long as the URL, unless that is longer than the table.
fn placeholder_length(url: &[u8]) -> usize {
    url.len().min(TABLE_BYTES)
}

impl ReplacedUrls {
    /// No URLs; long ones will take a part of the budget.
    pub(crate) fn new(budget: &HeadBudget) -> Self {
        ReplacedUrls { retained: Arc::default(), budget: budget.clone() }
    }

    /// Returns the placeholder for a URL. `None` for a URL of two bytes, which has no room for a number, and if the budget is
    /// exhausted.
    fn replace(&self, url: &[u8]) -> Option<Vec<u8>> {
        let mut share = self.budget.share();
        if !share.grow_to(url.len()) {
            return None;
        }
        let mut retained = self.lock();
        let mut placeholder = PLACEHOLDER.as_bytes().to_vec();
        let digits = placeholder_length(url).checked_sub(placeholder.len()).filter(|digits| *digits > 0)?;
        let mut number = retained.count;
        for _ in 0..digits {
            placeholder.push(DIGITS.get(number & 0x3f).copied().unwrap_or_default());
            number >>= 6;
        }
        retained.count = retained.count.wrapping_add(1);
        // A short placeholder comes again after a while. It then means the newer URL.
        retained.retain(|other| other.placeholder != placeholder);
        retained.bytes = retained.bytes.saturating_add(url.len());
        let replaced = Replaced { placeholder: placeholder.clone(), url: url.to_vec(), _share: share };
        retained.urls.push_back(replaced);
        while (retained.bytes > RETAINED_BYTES_MAX && retained.urls.len() > 1)
            || retained.urls.len() > RETAINED_URLS_MAX
        {
            let oldest = retained.urls.pop_front().map_or(0, |oldest| oldest.url.len());
            retained.bytes = retained.bytes.saturating_sub(oldest);
        }
        Some(placeholder)
    }

    /// The parts of a request with this path that the library does not have.
    pub(crate) fn extras(&self, path: &str) -> RequestExtras {
        if !path.starts_with(PLACEHOLDER) {
            return RequestExtras::NOTHING;
        }
        let retained = self.lock();
        RequestExtras::of(
            match retained.urls.iter().find(|replaced| replaced.placeholder == path.as_bytes()) {
                Some(found) => HeadTarget::Long(LongTarget::encode(&found.url)),
                // The name of the field was an entry of the dynamic table, so its URL was not replaced.
                None => HeadTarget::Refused(400),
            },
        )
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Retained> {
        self.retained.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Retained {
    fn retain(&mut self, keep: impl Fn(&Replaced) -> bool) {
        self.urls.retain(keep);
        self.bytes = self.urls.iter().map(|replaced| replaced.url.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn heads() -> Http2Heads {
        Http2Heads::new(PREFACE.len(), ReplacedUrls::new(&HeadBudget::default()))
    }

    /// Gives bytes to `heads` in pieces and returns what the library reads.
    fn passed(heads: &mut Http2Heads, bytes: &[u8], piece: usize) -> Result<Vec<u8>, TooManyFields> {
        let (mut out, mut held) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            held.extend_from_slice(piece);
            loop {
                match heads.examine(&held)? {
                    Found::Plain => out.append(&mut held),
                    Found::Incomplete { at } => out.extend(held.drain(..at)),
                    Found::Replaced { at, block, end } => {
                        out.extend_from_slice(&held[..at]);
                        out.extend(block);
                        held.drain(..end);
                        continue;
                    }
                    Found::Broken { end } => {
                        out.extend_from_slice(&held[..end]);
                        return Ok(out);
                    }
                }
                break;
            }
        }
        Ok(out)
    }

    /// What the library reads of these frames after a preface, whatever the pieces in which they arrive.
    fn read(frames: &[Vec<u8>]) -> Result<Vec<u8>, TooManyFields> {
        let bytes = [PREFACE, &frames.concat()].concat();
        let results = [1, 2, 3, 7, 100, bytes.len()].map(|piece| passed(&mut heads(), &bytes, piece));
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{results:x?}");
        let [first, ..] = results;
        first.map(|bytes| bytes[PREFACE.len()..].to_vec())
    }

    /// Fields of every form: indexed, with a long index, literals with an indexed and a new name, one with a long index and a
    /// value of 300 bytes that look like fields; and a new size of the table, which is no field.
    fn block() -> Vec<u8> {
        let indexed = [0x82, 0xff, 0x80, 0x01];
        let literals = [0x41, 3, 0x82, 0x82, 0x82, 0x00, 1, b'n', 1, 0x82];
        let size = [0x3f, 0x80, 0x01];
        let long = [&[0x0f, 0x85, 0x01, 0x7f, 0xad, 0x01][..], &[0x82; 300]].concat();
        [&indexed[..], &literals, &size, &long, &[0x84]].concat()
    }

    #[test]
    fn frames_pass_unchanged() {
        let padded = [&[3, 0, 0, 0, 1, 9][..], &block(), &[0x82; 3]].concat();
        let mut frames = vec![
            frame(HEADERS, END_HEADERS, &block()),
            frame(HEADERS, PADDED | HAS_PRIORITY | END_HEADERS, &padded),
            frame(0, 0, &[0x82; 5000]),
            frame(4, 0, &[]),
        ];
        assert_eq!(read(&frames), Ok(frames.concat()));
        // A block can continue in another frame at any byte.
        for at in 0..block().len() {
            let (first, second) = (&block()[..at], &block()[at..]);
            frames = vec![frame(HEADERS, 0, first), frame(CONTINUATION, END_HEADERS, second)];
            assert_eq!(read(&frames), Ok(frames.concat()), "split at {at}");
        }
    }

    #[test]
    fn too_many_fields_are_refused_whichever_frames_they_are_in() {
        let most = vec![0xbe; FIELDS_MAX];
        let frames = [frame(HEADERS, END_HEADERS, &most), frame(HEADERS, 0, &most)];
        assert_eq!(read(&frames).map(|read| read.len()), Ok(most.len() + FRAME_HEADER));
        let more = [
            frame(HEADERS, 0, &most),
            frame(CONTINUATION, 0, &[]),
            frame(CONTINUATION, END_HEADERS, &[0xbe]),
        ];
        assert_eq!(read(&more), Err(TooManyFields));
    }

    #[test]
    fn nothing_passes_after_a_frame_that_ends_the_connection() {
        let begun = frame(HEADERS, 0, &[0x82]);
        for broken in [
            vec![frame(HEADERS, END_HEADERS, &[0; PAYLOAD_BYTES_MAX + 1])],
            vec![begun.clone(), frame(0, 0, &[0x82])],
            vec![[&frame(CONTINUATION, 0, &[])[..8], &[2]].concat(); 2],
            [vec![begun.clone()], vec![frame(CONTINUATION, 0, &[]); FRAMES_MAX]].concat(),
        ]
        .map(|frames| [vec![begun.clone()], frames].concat())
        {
            let passed = read(&broken).unwrap();
            assert!(broken.concat().starts_with(&passed));
            assert!(passed.len() < broken.concat().len(), "{passed:x?}");
        }
    }

    #[test]
    fn damaged_blocks_pass() {
        let huge = [&[0x40, 0x7f][..], &[0xff; 40], &[0x7f]].concat();
        let frames = [
            frame(HEADERS, END_HEADERS, &huge),
            frame(HEADERS, PADDED | HAS_PRIORITY | END_HEADERS, &[255]),
            frame(HEADERS, PADDED | END_HEADERS, &[]),
            // A URL that ends early, and one whose code is invalid.
            frame(HEADERS, END_HEADERS, &[0x44, 9, b'/']),
            frame(HEADERS, END_HEADERS, &[0x44, 0x81, 0]),
        ];
        assert_eq!(read(&frames), Ok(frames.concat()));
    }

    /// The URL of the request that the library reads from a block, and the URL that the request has.
    fn url(heads: &mut Http2Heads, block: &[u8]) -> (Vec<u8>, String) {
        heads.skipped = 0;
        let first = FrameHeader { length: 0, kind: HEADERS, flags: 0, stream: [1; 4] };
        let frames = passed(heads, &framed(block, first), usize::MAX).unwrap();
        let block = content(&frames).unwrap().into_owned();
        let Some(Ok(Field::Literal(Literal { value, .. }))) = Fields::of(&block).next() else {
            panic!("{block:x?}");
        };
        let read = value.decode().unwrap().into_owned();
        let has = match heads.urls.extras(&String::from_utf8_lossy(&read)).target {
            HeadTarget::Long(LongTarget(url)) => url.to_string(),
            other => format!("{other:?}"),
        };
        (read, has)
    }

    #[test]
    fn urls_that_the_library_refuses_are_replaced_by_others_of_the_same_length() {
        let mut heads = heads();
        let long = "x".repeat(70_000);
        for (sent, want) in [
            (&b"/plain?a=%20"[..], "Plain"),
            (b"/a<b>", "/a%3Cb%3E"),
            (b"/a#b?c=\"d\"`", "/a%23b?c=%22d%22%60"),
            (b"/\xc3\xa9\xff", "/%C3%A9%FF"),
            (b"/\"0", "/%220"),
            (b"/\"00000", "/%2200000"),
            ([b"/", long.as_bytes()].concat().leak(), &format!("/{long}")),
            // These are refused: the stream is reset.
            (b"/%zz", "Plain"),
            (b"/a\x7f", "Plain"),
            (b"/<", "Plain"),
            (b"http://a/<", "Plain"),
        ] {
            for (indexing, name) in [(Indexing::Incremental, 4), (Indexing::Without, 5), (Indexing::Never, 4)]
            {
                let mut block = Vec::new();
                write_named(&mut block, indexing, name, sent);
                let (read, has) = url(&mut heads, &block);
                assert_eq!(has, want, "{}", String::from_utf8_lossy(sent));
                assert_eq!(read.len(), sent.len().min(TABLE_BYTES));
            }
            let mut block = Vec::new();
            write_literal(&mut block, b":path", sent);
            assert_eq!(url(&mut heads, &block).1, want);
        }
        // `/<` in Huffman's code. The library would accept a URL that only Go refuses.
        assert_eq!(url(&mut heads, &[0x44, 0x83, 0x63, 0xff, 0xe7]).0, b"<<");
        assert_eq!(url(&mut heads, &[0x44, 4, b'/', b'%', b'z', b'z']).0, b"<<<<");
    }

    #[test]
    fn urls_are_retained_while_the_dynamic_table_can_have_them() {
        let urls = ReplacedUrls::new(&HeadBudget::default());
        let target = |placeholder: &[u8]| urls.extras(std::str::from_utf8(placeholder).unwrap()).target;
        let first = urls.replace(b"/<first>").unwrap();
        for n in 0..1000 {
            urls.replace(format!("/<{n:060}>").as_bytes()).unwrap();
        }
        assert_eq!(target(&first), HeadTarget::Long(LongTarget("/%3Cfirst%3E".into())));
        let long = urls.replace(&[b'/'; 1 << 20]).unwrap();
        assert!(matches!(target(&long), HeadTarget::Long(_)));
        assert_eq!(target(&first), HeadTarget::Refused(400));
        Http2Heads::new(0, urls.clone()).forget_long_urls();
        assert_eq!((target(&long), urls.lock().bytes), (HeadTarget::Refused(400), 0));
        for n in 0..2 * RETAINED_URLS_MAX {
            urls.replace(format!("/<{n:04}").as_bytes()).unwrap();
        }
        assert_eq!(urls.lock().urls.len(), RETAINED_URLS_MAX);
        // Long URLs of all connections share the budget for heads.
        let granted = (0..65).map(|_| ReplacedUrls { retained: Arc::default(), ..urls.clone() });
        let granted: Vec<_> = granted.filter(|urls| urls.replace(&[b'/'; 1 << 20]).is_some()).collect();
        assert_eq!(granted.len(), 64);
    }
}
