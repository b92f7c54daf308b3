//! Lists without cached encodings: the items are encoded one after another while the client reads.

use super::list::CHUNK_BYTES;
use crate::Body;
use crate::body::Aborted;
use bytes::Bytes;
use pintle_cache::Object;
use pintle_meta::Status;
use pintle_value::json::Indenter;
use std::iter::once;
use std::sync::Arc;

/// Appends an item.
pub(super) type WriteItem = Box<dyn Fn(&Object, &mut Vec<u8>) -> Result<(), Status> + Send>;

/// The pieces of a list: a header, the items with separators, a footer.
pub(super) struct Pieces {
    pub(super) header: Vec<u8>,
    pub(super) items: std::vec::IntoIter<Arc<Object>>,
    pub(super) between: &'static [u8],
    pub(super) write: WriteItem,
    /// `None` once it is written.
    pub(super) footer: Option<Vec<u8>>,
    pub(super) is_first: bool,
}

impl Iterator for Pieces {
    type Item = Result<Bytes, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        self.footer.as_ref()?;
        let mut out = std::mem::take(&mut self.header);
        while out.len() < CHUNK_BYTES {
            let Some(object) = self.items.next() else {
                out.extend(self.footer.take().unwrap_or_default());
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                out.extend_from_slice(self.between);
            }
            if let Err(status) = (self.write)(&object, &mut out) {
                self.footer = None;
                return Some(Err(status));
            }
        }
        Some(Ok(out.into()))
    }
}

/// The body made of pieces. A failure in the first chunk is an ordinary error; a later one ends the answer prematurely.
pub(super) fn body(
    mut pieces: impl Iterator<Item = Result<Bytes, Status>> + Send + Unpin + 'static,
) -> Result<Body, Status> {
    let first = pieces.next().transpose()?.unwrap_or_default();
    let Some(second) = pieces.next() else { return Ok(Body::Full(first)) };
    let all = once(Ok(first)).chain(once(second)).chain(pieces);
    Ok(Body::attempt(all.map(|piece| piece.map_err(|status| Aborted(status.message)))))
}

/// Indents pieces of compact JSON.
pub(super) fn indented<I>(pieces: I) -> impl Iterator<Item = Result<Bytes, Status>> + use<I>
where
    I: Iterator<Item = Result<Bytes, Status>>,
{
    let mut indenter = Indenter::default();
    pieces.map(move |piece| {
        let piece = piece?;
        let mut out = Vec::with_capacity(piece.len().saturating_add(piece.len() / 2));
        indenter.feed(&piece, &mut out);
        Ok(out.into())
    })
}
