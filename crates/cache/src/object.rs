//! One version of one object: its bytes, what selectors need, and its other encodings.

use crate::Str;
use crate::encodings::{EncodingKey, Encodings};
use crate::key::ObjectKey;
use crate::options::{CONVERTED_MAX, ENCODINGS_MAX};
use crate::stored_value::{HEADER_BYTES, UNTRANSFORMABLE, header, is_valid, json, rv_offset};
use bytes::{BufMut, Bytes};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Distinguishes converted objects from encodings.
const CONVERTED: u32 = 1 << 16;

/// The values that selectors need and that the cache cannot read from the bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extracted {
    /// The labels, sorted by key.
    pub labels: Box<[(Str, Str)]>,
    /// The values of the kind's selectable fields, in the kind's order.
    pub fields: Box<[Str]>,
    /// The uid.
    pub uid: Str,
}

/// Decodes an object's JSON; one for each registered resource.
pub trait Extract: Send + Sync {
    /// Labels, fields and uid of the object in `json`, which has no resourceVersion. Empty for an undecodable object.
    fn extract(&self, json: &[u8]) -> Extracted;

    /// How a value that this server has just written differs when it is read.
    fn read_form(&self, value: &Bytes) -> ReadForm {
        let _ = value;
        ReadForm::AsStored
    }

    /// Reads a stored value.
    fn read(&self, value: &Bytes) -> (Extracted, ReadForm) {
        (self.extract(json(value)), ReadForm::AsStored)
    }
}

/// The difference between a stored value and the value that clients read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadForm {
    /// Clients read the value as it was written.
    AsStored,
    /// Clients read this value instead, which is also what a write would store now: the kind has new defaults or
    /// another storage version.
    Revised(Bytes),
    /// Clients read this value instead, but writers work with the stored one, which has white space in raw fields or a
    /// field that is not returned.
    ForReaders(Bytes),
    /// The value cannot be read, for this reason.
    Unreadable(Box<str>),
}

/// One version of one object, immutable and shared by views and events.
pub struct Object {
    key: ObjectKey,
    revision: u64,
    created: u64,
    value: Bytes,
    /// `None` of an object that reads as it is stored, as most do.
    read_form: Option<Box<ReadForm>>,
    /// Labels and the values of selectable fields; `None` if the object has neither.
    selectable: Option<Box<Selectable>>,
    uid: Uid,
    encodings: Encodings,
    /// The range of the metadata in the JSON; 0 until it is determined.
    metadata: AtomicU64,
}

#[derive(Clone)]
struct Selectable {
    labels: Box<[(Str, Str)]>,
    fields: Box<[Str]>,
}

/// The position of the uid. With millions of objects, a second copy of each is worth avoiding.
#[derive(Clone)]
enum Uid {
    /// The uid is at this range of the stored value.
    At(u32, u32),
    /// The uid does not appear literally in the stored value.
    Own(Box<str>),
}

impl Uid {
    fn new(uid: &str, value: &[u8]) -> Uid {
        // In the JSON of most kinds the uid is right before the resourceVersion, which saves a search.
        let end = HEADER_BYTES.saturating_add(rv_offset(value)).saturating_sub(1);
        let start = end.saturating_sub(uid.len());
        let at = if value.get(start..end) == Some(uid.as_bytes()) {
            Some(start)
        } else {
            memchr::memmem::find(value, uid.as_bytes())
        };
        let found = at.map(|at| (at.try_into(), uid.len().try_into()));
        match found {
            Some((Ok(at), Ok(length))) => Uid::At(at, length),
            _ => Uid::Own(uid.into()),
        }
    }
}

impl Object {
    /// Creates an object; `None` if the stored value has no valid header.
    pub(crate) fn new(
        key: ObjectKey,
        revision: u64,
        created: u64,
        value: Bytes,
        extracted: Extracted,
    ) -> Option<Object> {
        let Extracted { labels, fields, uid } = extracted;
        let selects_nothing = labels.is_empty() && fields.is_empty();
        is_valid(&value).then(|| Object {
            key,
            revision,
            created,
            uid: Uid::new(&uid, &value),
            value,
            read_form: None,
            selectable: (!selects_nothing).then(|| Box::new(Selectable { labels, fields })),
            encodings: Encodings::default(),
            metadata: AtomicU64::new(0),
        })
    }

    /// Returns the object with the value that clients read.
    pub(crate) fn with_read_form(mut self, read_form: ReadForm) -> Object {
        self.read_form = match read_form {
            ReadForm::AsStored => None,
            ReadForm::Revised(value) | ReadForm::ForReaders(value) if !is_valid(&value) => None,
            read_form => Some(Box::new(read_form)),
        };
        self.metadata = AtomicU64::new(0);
        self
    }

    /// Returns whether readers see the stored form.
    pub fn is_as_stored(&self) -> bool {
        self.read_form.is_none()
    }

    /// The reason why the object cannot be decoded, if it cannot.
    pub fn unreadable(&self) -> Option<&str> {
        match self.read_form.as_deref() {
            Some(ReadForm::Unreadable(why)) => Some(why),
            _ => None,
        }
    }

    /// Whether the object cannot be read because its stored value cannot be decrypted.
    pub fn is_untransformable(&self) -> bool {
        header(&self.value) == UNTRANSFORMABLE
    }

    fn current(&self) -> &Bytes {
        match self.read_form.as_deref() {
            Some(ReadForm::Revised(value) | ReadForm::ForReaders(value)) => value,
            _ => &self.value,
        }
    }

    /// An object that is not in the store: the result of a dry run, or the last state of a deleted object. At revision
    /// 0 it is written without resourceVersion.
    pub fn unstored(
        key: ObjectKey,
        revision: u64,
        value: Bytes,
        extracted: Extracted,
        read_form: ReadForm,
    ) -> Option<Arc<Object>> {
        let object = Object::new(key, revision, revision, value, extracted)?;
        Some(Arc::new(object.with_read_form(read_form)))
    }

    /// The key of the object: `namespace/name` or `name`.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The namespace, if there is one.
    pub fn namespace(&self) -> Option<&str> {
        self.key.namespace()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// The revision of this version.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision of the object's first version.
    pub fn created(&self) -> u64 {
        self.created
    }

    /// The labels, sorted by key.
    pub fn labels(&self) -> &[(Str, Str)] {
        self.selectable.as_ref().map_or(&[], |selectable| &selectable.labels)
    }

    /// The value of one label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let labels = self.labels();
        let at = labels.binary_search_by(|(label, _)| label.as_str().cmp(key)).ok()?;
        labels.get(at).map(|(_, value)| value.as_str())
    }

    /// The values of the kind's selectable fields, in the kind's order.
    pub fn fields(&self) -> &[Str] {
        self.selectable.as_ref().map_or(&[], |selectable| &selectable.fields)
    }

    /// The value of one selectable field; empty when the object does not have it.
    pub fn field(&self, index: usize) -> &str {
        self.fields().get(index).map_or("", Str::as_str)
    }

    /// The uid.
    pub fn uid(&self) -> &str {
        match &self.uid {
            Uid::At(at, length) => {
                let place = *at as usize..(*at as usize).saturating_add(*length as usize);
                self.value.get(place).and_then(|uid| std::str::from_utf8(uid).ok()).unwrap_or_default()
            }
            Uid::Own(uid) => uid,
        }
    }

    /// The value as the store has it.
    pub fn value(&self) -> &Bytes {
        &self.value
    }

    /// The JSON without resourceVersion, sharing the store's bytes.
    pub fn body(&self) -> Bytes {
        self.current().slice(HEADER_BYTES..)
    }

    /// The stored JSON without resourceVersion; clients may see another form.
    pub fn stored_json(&self) -> &[u8] {
        match self.read_form.as_deref() {
            Some(ReadForm::ForReaders(_)) => json(&self.value),
            _ => self.json(),
        }
    }

    /// The JSON without resourceVersion.
    pub fn json(&self) -> &[u8] {
        json(self.current())
    }

    /// The offset of the resourceVersion in the JSON.
    pub fn rv_offset(&self) -> usize {
        rv_offset(self.current())
    }

    /// The number of bytes that [`Object::write_json`] writes, at most.
    pub fn json_len_max(&self) -> usize {
        self.current().len().saturating_add(RV_BYTES_MAX)
    }

    /// The number of bytes that [`Object::write_json`] writes with this `skip`.
    pub fn json_len(&self, skip: usize) -> usize {
        let version = if self.rv_offset() > 0 && self.revision > 0 {
            RV_FRAME_BYTES.saturating_add(itoa::Buffer::new().format(self.revision).len())
        } else {
            0
        };
        self.json().len().saturating_sub(skip.min(self.json().len())).saturating_add(version)
    }

    /// Writes the JSON with its resourceVersion, without the first `skip` bytes after the opening brace: the length of
    /// `"kind":…,"apiVersion":…,` for items of built-in lists, otherwise 0.
    pub fn write_json(&self, skip: usize, out: &mut impl BufMut) {
        self.write_json_at(self.revision, skip, out);
    }

    /// Like `write_json`, with another resourceVersion: a deleted object has that of its deletion.
    pub fn write_json_at(&self, revision: u64, skip: usize, out: &mut impl BufMut) {
        let (before, after) = self.split_at_revision(skip);
        if skip > 0 {
            out.put_slice(b"{");
        }
        out.put_slice(before);
        if self.rv_offset() > 0 && revision > 0 {
            put_version(revision, out);
        }
        out.put_slice(after);
    }

    /// Starts [`Object::write_json`]: writes everything up to the end of the resourceVersion and returns the rest
    /// without copying.
    pub fn write_json_head(&self, skip: usize, out: &mut impl BufMut) -> Bytes {
        let (before, after) = self.split_at_revision(skip);
        if skip > 0 {
            out.put_slice(b"{");
        }
        out.put_slice(before);
        if self.rv_offset() > 0 && self.revision > 0 {
            put_version(self.revision, out);
        }
        self.body().slice(self.json().len().saturating_sub(after.len())..)
    }

    /// Writes a part of [`Object::json`], including the resourceVersion if its offset is in the part.
    pub fn write_part(&self, part: Range<usize>, revision: u64, out: &mut impl BufMut) {
        let slot = self.rv_offset();
        if !part.contains(&slot) || revision == 0 || slot == 0 {
            out.put_slice(self.json().get(part).unwrap_or_default());
            return;
        }
        out.put_slice(self.json().get(part.start..slot).unwrap_or_default());
        put_version(revision, out);
        out.put_slice(self.json().get(slot..part.end).unwrap_or_default());
    }

    /// The object's JSON with resourceVersion.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.json_len_max());
        self.write_json(0, &mut out);
        out
    }

    /// The range of the metadata in [`Object::json`]; `find` is called the first time and its result cached.
    pub fn metadata_place(&self, find: impl FnOnce(&[u8]) -> Option<Range<usize>>) -> Option<Range<usize>> {
        let known = self.metadata.load(Ordering::Relaxed);
        if known != 0 {
            return Some((known >> 32) as usize..(known & u64::from(u32::MAX)) as usize);
        }
        let found = find(self.json())?;
        if let (Ok(start), Ok(end)) = (u32::try_from(found.start), u32::try_from(found.end)) {
            self.metadata.store(u64::from(start) << 32 | u64::from(end), Ordering::Relaxed);
        }
        Some(found)
    }

    /// Another encoding of this version, cached once made.
    pub fn encoded<E>(
        &self,
        key: EncodingKey,
        make: impl FnOnce(&Object) -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        self.encodings.get_or_make(u32::from(key.0), || make(self))
    }

    /// This object in another version of its kind, if a webhook has converted it: JSON without resourceVersion.
    pub fn converted(&self, version: u16) -> Option<Bytes> {
        self.encodings.get(CONVERTED | u32::from(version))
    }

    /// This object without cached encodings and conversions.
    pub fn without_encodings(&self) -> Object {
        Object {
            key: self.key.clone(),
            revision: self.revision,
            created: self.created,
            value: self.value.clone(),
            read_form: self.read_form.clone(),
            selectable: self.selectable.clone(),
            uid: self.uid.clone(),
            encodings: Encodings::default(),
            metadata: AtomicU64::new(0),
        }
    }

    /// Caches this object in another version of its kind.
    pub fn cache_converted(&self, version: u16, json: Bytes) {
        self.encodings.keep_up_to(ENCODINGS_MAX + CONVERTED_MAX, CONVERTED | u32::from(version), json);
    }

    fn split_at_revision(&self, skip: usize) -> (&[u8], &[u8]) {
        let json = self.json();
        let (before, after) = json.split_at_checked(self.rv_offset()).unwrap_or((json, &[]));
        let from = if skip > 0 { skip.saturating_add(1) } else { 0 };
        match before.get(from..) {
            Some(before) => (before, after),
            None => (&[], json.get(from..).unwrap_or_default()),
        }
    }
}

fn put_version(revision: u64, out: &mut impl BufMut) {
    out.put_slice(b",\"resourceVersion\":\"");
    out.put_slice(itoa::Buffer::new().format(revision).as_bytes());
    out.put_slice(b"\"");
}

/// The bytes that a resourceVersion adds to the object, beside its digits.
const RV_FRAME_BYTES: usize = b",\"resourceVersion\":\"\"".len();
/// The most that a resourceVersion adds: its name, twenty digits and punctuation.
const RV_BYTES_MAX: usize = RV_FRAME_BYTES + 20;

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{}", self.key, self.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored_value::value_header;
    use pintle_store::Key;

    fn object(rv_offset: u32, json: &str) -> Option<Object> {
        let value = [value_header(rv_offset).as_slice(), json.as_bytes()].concat();
        let key = ObjectKey::new(&Key::from("/r/a"), "/r/").unwrap();
        Object::new(key, 7, 3, value.into(), Extracted::default())
    }

    #[test]
    fn splices_the_resource_version_in() {
        let json = r#"{"kind":"A","apiVersion":"v1","metadata":{"name":"a","uid":"u"}}"#;
        let at = json.find(",\"uid\"").unwrap() as u32;
        let skip = r#""kind":"A","apiVersion":"v1","#.len();
        let object = object(at, json).unwrap();
        let check = |revision, skip, expected: &str| {
            let mut out = Vec::new();
            object.write_json_at(revision, skip, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(
            7,
            0,
            r#"{"kind":"A","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7","uid":"u"}}"#,
        );
        check(12, skip, r#"{"metadata":{"name":"a","resourceVersion":"12","uid":"u"}}"#);
        assert!(object.to_json().len() <= object.json_len_max());
        for skip in [0, skip] {
            let mut out = Vec::new();
            object.write_json(skip, &mut out);
            assert_eq!(out.len(), object.json_len(skip));
            let mut pieces = Vec::new();
            let rest = object.write_json_head(skip, &mut pieces);
            assert_eq!([pieces, rest.to_vec()].concat(), out);
        }
        assert_eq!(object.body(), json);
        let metadata = json.find("{\"name").unwrap();
        for _ in 0..2 {
            let place = object.metadata_place(|_| Some(metadata..json.len() - 1));
            assert_eq!(place, Some(metadata..json.len() - 1));
        }
        for (part, expected) in [
            (metadata..json.len() - 1, r#"{"name":"a","resourceVersion":"9","uid":"u"}"#),
            (1..metadata, r#""kind":"A","apiVersion":"v1","metadata":"#),
            (5..json.len() + 5, ""),
        ] {
            let mut out = Vec::new();
            object.write_part(part, if expected.is_empty() { 0 } else { 9 }, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn refuses_values_without_a_valid_header() {
        for (offset, json, valid) in [(0, "{}", true), (2, "{}", true), (3, "{}", false), (0, "", false)] {
            assert_eq!(object(offset, json).is_some(), valid, "{offset} {json}");
        }
        assert!(!is_valid(b"abc"));
    }
}
