//! Writes rows, Tables and metadata as compact JSON, copying stored bytes if possible.

use super::row::RowOptions;
use super::{Form, INITIAL_EVENTS_END, Source, Transformer, api_version};
use crate::negotiate::MetaVersion;
use crate::resources::encode::metadata_key;
use pintle_cache::Object;
use pintle_engine::Listed;
use pintle_kinds::Column;
use pintle_kinds::table::{self, Printer};
use pintle_meta::Status;
use pintle_meta::options::IncludeObject;
use pintle_schema::typed;
use pintle_value::{Value, json};
use std::borrow::Cow;

/// The beginning of a PartialObjectMetadata.
const PARTIAL_V1: &[u8] = br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;
const PARTIAL_V1BETA1: &[u8] =
    br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","metadata":"#;

impl Transformer {
    /// Appends one object in the requested form.
    pub(super) fn write(
        &self,
        source: Source<'_>,
        with_columns: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let Form::Table { printer, include } = &self.form else {
            return self.write_partial(source, out);
        };
        self.write_kind("Table", out);
        out.extend_from_slice(b",\"metadata\":{");
        let revision = match source {
            Source::Stored(_, 0) => String::new(),
            Source::Stored(_, revision) => revision.to_string(),
            Source::Tree(tree) => tree.str_at(&["metadata", "resourceVersion"]).to_string(),
        };
        if !revision.is_empty() {
            write_member("resourceVersion", &revision, out);
        }
        out.extend_from_slice(b"},\"columnDefinitions\":");
        if with_columns {
            write_columns(printer.columns(), out)
        } else {
            out.extend_from_slice(b"null")
        }
        out.extend_from_slice(b",\"rows\":[");
        let options = RowOptions { printer, include: *include, now: self.now() };
        self.write_rows(source, options, &mut true, out)?;
        out.extend_from_slice(b"]}");
        Ok(())
    }

    /// Appends an object's metadata as a PartialObjectMetadata.
    pub(super) fn write_partial(&self, source: Source<'_>, out: &mut Vec<u8>) -> Result<(), Status> {
        out.extend_from_slice(match self.version {
            MetaVersion::V1 => PARTIAL_V1,
            MetaVersion::V1beta1 => PARTIAL_V1BETA1,
        });
        self.write_metadata(source, out)?;
        out.push(b'}');
        Ok(())
    }

    /// Appends the beginning of an object of a kind of `meta.k8s.io`.
    pub(super) fn write_kind(&self, kind: &str, out: &mut Vec<u8>) {
        out.push(b'{');
        write_member("kind", kind, out);
        out.push(b',');
        write_member("apiVersion", api_version(self.version), out);
    }

    fn write_metadata(&self, source: Source<'_>, out: &mut Vec<u8>) -> Result<(), Status> {
        let (object, revision) = match source {
            Source::Tree(tree) => {
                self.write_metadata_tree(tree, out);
                return Ok(());
            }
            Source::Stored(object, revision) => (object, revision),
        };
        if !self.writes_storage_version() || !self.target.kind.hooks.field_annotations().is_empty() {
            self.write_metadata_tree(&self.engine.reader().tree_in(&self.target, object, revision)?, out);
            return Ok(());
        }
        let Some(place) = object.metadata_place(|json| table::member(json, "metadata")) else {
            out.extend_from_slice(b"{}");
            return Ok(());
        };
        if self.target.kind_version().schema.has_field_order() {
            object.write_part(place, revision, out);
            return Ok(());
        }
        // Custom resources are stored with sorted members, but PartialObjectMetadata has its type's order.
        let make = |object: &Object| -> Result<_, Status> {
            let mut part = Vec::new();
            object.write_part(place.clone(), revision, &mut part);
            let mut ordered = Vec::with_capacity(part.len());
            typed::encode_json(self.engine.storage().metadata_schema(), &super::read(&part)?, &mut ordered);
            Ok(ordered.into())
        };
        let ordered =
            if revision == object.revision() { object.encoded(metadata_key(), make)? } else { make(object)? };
        out.extend_from_slice(&ordered);
        Ok(())
    }

    fn write_metadata_tree(&self, tree: &Value, out: &mut Vec<u8>) {
        let mut metadata = Cow::Owned(Value::object());
        if let Some(own) = tree.get("metadata") {
            metadata = Cow::Borrowed(own);
        }
        let of_fields = self.target.kind.hooks.field_annotations();
        let has = |name: &&str| metadata.at(&["annotations", name]).is_some();
        if of_fields.iter().any(has) {
            let metadata = metadata.to_mut();
            of_fields.iter().for_each(|name| _ = metadata.remove_at(&["annotations", name]));
            if metadata.at(&["annotations"]).and_then(Value::as_object).is_some_and(|rest| rest.is_empty()) {
                metadata.remove_at(&["annotations"]);
            }
        }
        typed::encode_json(self.engine.storage().metadata_schema(), &metadata, out);
    }

    /// Appends the object of a row.
    pub(super) fn write_row_object(
        &self,
        source: Source<'_>,
        include: IncludeObject,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        match include {
            IncludeObject::Object => self.write_whole(source, out),
            IncludeObject::None if !ends_initial_events(source) => {
                out.extend_from_slice(b"null");
                Ok(())
            }
            IncludeObject::None | IncludeObject::Metadata => self.write_partial(source, out),
        }
    }

    /// The tree of an object with the fields that its printer reads.
    pub(super) fn printed<'a>(
        &self,
        source: Source<'a>,
        printer: &Printer,
    ) -> Result<Cow<'a, Value>, Status> {
        match source {
            Source::Tree(tree) => Ok(Cow::Borrowed(tree)),
            Source::Stored(object, revision) if printer.is_versioned() && !self.writes_storage_version() => {
                self.engine.reader().tree_in(&self.target, object, revision).map(Cow::Owned)
            }
            Source::Stored(object, revision) => {
                let read = printer.read(object.json(), revision).map(Cow::Owned);
                read.ok_or_else(|| Status::internal("a kept object cannot be read"))
            }
        }
    }

    /// Appends a whole object.
    fn write_whole(&self, source: Source<'_>, out: &mut Vec<u8>) -> Result<(), Status> {
        let schema = &self.target.kind_version().schema;
        match source {
            Source::Tree(tree) => json::print(tree, out),
            Source::Stored(object, revision) if self.writes_storage_version() => {
                object.write_json_at(revision, 0, out)
            }
            Source::Stored(object, revision) => {
                typed::encode_json(
                    schema,
                    &self.engine.reader().tree_in(&self.target, object, revision)?,
                    out,
                );
            }
        }
        Ok(())
    }
}

fn ends_initial_events(source: Source<'_>) -> bool {
    match source {
        Source::Stored(..) => false,
        Source::Tree(tree) => tree.str_at(&["metadata", "annotations", INITIAL_EVENTS_END]) == "true",
    }
}

/// Appends the columns of a Table.
pub(super) fn write_columns(columns: &[Column], out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, column) in columns.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b",{" } else { b"{" });
        let texts = [
            ("name", &column.name),
            ("type", &column.type_),
            ("format", &column.format),
            ("description", &column.description),
        ];
        for (key, value) in texts {
            write_member(key, value, out);
            out.push(b',');
        }
        out.extend_from_slice(b"\"priority\":");
        json::write_int(column.priority, out);
        out.push(b'}');
    }
    out.push(b']');
}

/// Appends the metadata of a list.
pub(super) fn write_list_metadata(listed: &Listed, out: &mut Vec<u8>) {
    out.push(b'{');
    if listed.revision > 0 {
        write_member("resourceVersion", &listed.revision.to_string(), out);
    }
    if !listed.continue_token.is_empty() {
        out.push(b',');
        write_member("continue", &listed.continue_token, out);
    }
    if let Some(remaining) = listed.remaining {
        out.extend_from_slice(b",\"remainingItemCount\":");
        json::write_int(remaining, out);
    }
    out.push(b'}');
}

/// Appends a member with a string value.
pub(super) fn write_member(key: &str, value: &str, out: &mut Vec<u8>) {
    json::write_string(key, out);
    out.push(b':');
    json::write_string(value, out);
}
