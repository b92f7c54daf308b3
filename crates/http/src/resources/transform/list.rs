//! Transformed lists; long ones are written while the client reads.

use super::json::{write_columns, write_list_metadata};
use super::protobuf;
use super::row::RowOptions;
use super::{Form, Source, Transformer};
use crate::Body;
use crate::negotiate::{Encoding, Media};
use crate::resources::list::CHUNK_BYTES;
use crate::resources::pieces;
use bytes::Bytes;
use pintle_cache::Object;
use pintle_engine::Listed;
use pintle_meta::options::IncludeObject;
use pintle_meta::{Status, Timestamp};
use std::sync::Arc;

impl Transformer {
    /// A list as the whole answer.
    pub(in crate::resources) fn list(self, mut listed: Listed) -> Result<Body, Status> {
        match &self.form {
            Form::Partial => return Err(self.is_a_list()),
            Form::PartialList
                if self.encoding.media() == Media::Protobuf && self.writes_storage_version() =>
            {
                return protobuf::list(self, listed);
            }
            Form::PartialList | Form::Table { .. } => {}
        }
        self.put_in_order(&mut listed.items);
        let encoding = self.encoding;
        // Items of other kinds cannot be included, and that is an error only while the answer has not begun.
        let includes_items = matches!(&self.form, Form::Table { include: IncludeObject::Object, .. });
        let is_stored = self.writes_storage_version() && !(includes_items && self.may_be_list());
        let rows = Rows::new(self, listed);
        match encoding {
            Encoding::Json { pretty: false } if is_stored => pieces::body(rows.map(Ok)),
            Encoding::Json { pretty: true } if is_stored => pieces::body(pieces::indented(rows.map(Ok))),
            _ => rows.whole().map(Body::Full),
        }
    }

    /// Some kinds sort their rows in another order than by name.
    fn put_in_order(&self, items: &mut [Arc<Object>]) {
        let Form::Table { printer, .. } = &self.form else { return };
        let Some(order) = printer.order() else { return };
        items.sort_by_cached_key(|object| printer.read(object.json(), 0).as_ref().map_or(i64::MAX, order));
    }
}

/// The pieces of a list.
struct Rows {
    transformer: Transformer,
    items: std::vec::IntoIter<Arc<Object>>,
    header: Vec<u8>,
    /// The footer; empty once it is written.
    footer: Vec<u8>,
    first: bool,
    now: Timestamp,
}

impl Rows {
    fn new(transformer: Transformer, listed: Listed) -> Self {
        let mut header =
            Vec::with_capacity(CHUNK_BYTES.min(listed.items.len().saturating_mul(256).saturating_add(1024)));
        // In Go, an empty list is null here, except in Tables that are created with one.
        let is_nothing = match &transformer.form {
            Form::Table { printer, .. } => {
                transformer.write_kind("Table", &mut header);
                header.extend_from_slice(b",\"metadata\":");
                write_list_metadata(&listed, &mut header);
                header.extend_from_slice(b",\"columnDefinitions\":");
                write_columns(printer.columns(), &mut header);
                header.extend_from_slice(b",\"rows\":");
                printer.is_plain() && listed.items.is_empty()
            }
            Form::Partial | Form::PartialList => {
                transformer.write_kind("PartialObjectMetadataList", &mut header);
                header.extend_from_slice(b",\"metadata\":");
                write_list_metadata(&listed, &mut header);
                header.extend_from_slice(b",\"items\":");
                listed.items.is_empty()
            }
        };
        header.extend_from_slice(if is_nothing { b"null" } else { b"[" });
        let footer = if is_nothing { b"}\n".to_vec() } else { b"]}\n".to_vec() };
        let now = transformer.now();
        Rows { transformer, items: listed.items.into_iter(), header, footer, first: true, now }
    }

    /// The whole list in the encoding of the answer.
    fn whole(mut self) -> Result<Bytes, Status> {
        let mut out = std::mem::take(&mut self.header);
        while let Some(object) = self.items.next() {
            self.write(&object, &mut out)?;
        }
        out.extend_from_slice(self.footer.trim_ascii_end());
        self.transformer.encoded(out, &self.transformer.partial_list)
    }

    fn write(&mut self, object: &Object, out: &mut Vec<u8>) -> Result<(), Status> {
        let source = Source::Stored(object, object.revision());
        match &self.transformer.form {
            Form::Table { printer, include } => {
                let options = RowOptions { printer, include: *include, now: self.now };
                self.transformer.write_rows(source, options, &mut self.first, out)
            }
            Form::Partial | Form::PartialList => {
                if !std::mem::take(&mut self.first) {
                    out.push(b',');
                }
                self.transformer.write_partial(source, out)
            }
        }
    }
}

impl Iterator for Rows {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut out = std::mem::take(&mut self.header);
        out.reserve(CHUNK_BYTES.min(self.items.len().saturating_mul(1024)));
        while out.len() < CHUNK_BYTES && !self.footer.is_empty() {
            let Some(object) = self.items.next() else {
                out.append(&mut self.footer);
                break;
            };
            let (length, first) = (out.len(), self.first);
            if self.write(&object, &mut out).is_err() {
                // The answer has already begun, so an object that cannot be transformed is omitted.
                out.truncate(length);
                self.first = first;
            }
        }
        (!out.is_empty()).then(|| out.into())
    }
}
