//! Rows of Tables. The part of a row that only changes with its object is cached beside the object as JSON; a zero
//! byte, which JSON never contains, marks where the age goes.

use super::{Source, Transformer};
use crate::negotiate::Encoding;
use crate::resources::encode::{ROW, exact, form_key};
use bytes::Bytes;
use pintle_cache::Object;
use pintle_kinds::table::{LastingCell, LastingRow, Printer};
use pintle_meta::duration::{GoDuration, human};
use pintle_meta::options::IncludeObject;
use pintle_meta::{Status, Timestamp};
use pintle_value::{Value, json};
use std::borrow::Cow;
use std::convert::Infallible;

/// Marks the age in a cached row.
const AGE: u8 = 0;
/// A cached row starts with the creation time in seconds.
const CREATED_BYTES: usize = size_of::<i64>();

/// How deep lists called `items` may be nested; deeper objects with one are rows themselves.
const ITEMS_DEPTH_MAX: usize = 64;

/// The place of a row in its Table.
#[derive(Clone, Copy)]
pub(super) struct RowOptions<'a> {
    pub(super) printer: &'a Printer,
    pub(super) include: IncludeObject,
    pub(super) now: Timestamp,
}

impl Transformer {
    /// Appends the rows of an object, with commas before all but the first row of the Table. kube-apiserver takes a custom
    /// resource with a list called `items` for a list, and makes a row of each item.
    pub(super) fn write_rows(
        &self,
        source: Source<'_>,
        options: RowOptions<'_>,
        is_first: &mut bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        if self.may_be_list() {
            let tree = match source {
                Source::Tree(tree) => Cow::Borrowed(tree),
                Source::Stored(object, revision) => {
                    Cow::Owned(self.engine.reader().tree_in(&self.target, object, revision)?)
                }
            };
            if let Some(Value::Array(items)) = tree.get("items") {
                return self.write_item_rows(items, options, is_first, 1, out);
            }
        }
        if !std::mem::take(is_first) {
            out.push(b',');
        }
        self.write_row(source, options.printer, options.include, options.now, out)
    }

    fn write_item_rows(
        &self,
        items: &[Value],
        options: RowOptions<'_>,
        is_first: &mut bool,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        for item in items {
            if !matches!(item, Value::Object(_)) {
                let why = "items member is not an object: map[string]interface {}";
                return Err(Status::unclassified(why));
            }
            match item.get("items") {
                Some(Value::Array(below)) if depth < ITEMS_DEPTH_MAX => {
                    self.write_item_rows(below, options, is_first, depth.saturating_add(1), out)?;
                }
                _ => {
                    if options.include == IncludeObject::Object {
                        self.check_convertible(item)?;
                    }
                    if !std::mem::take(is_first) {
                        out.push(b',');
                    }
                    self.write_row(Source::Tree(item), options.printer, options.include, options.now, out)?;
                }
            }
        }
        Ok(())
    }

    /// Refuses to include an item of another group or kind: no conversion exists for it.
    fn check_convertible(&self, item: &Value) -> Result<(), Status> {
        let kind = &self.target.kind;
        let own = self.target.kind_version().gvk(kind).group_version();
        let (version, name) = (item.str_at(&["apiVersion"]), item.str_at(&["kind"]));
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        if group == kind.group.as_str() && name == kind.kind.as_str() {
            return Ok(());
        }
        Err(Status::unclassified(format!(
            "{group}/{version}, Kind={name} is unstructured and is not suitable for converting to \"{own}\""
        )))
    }

    /// Appends a row of a Table.
    fn write_row(
        &self,
        source: Source<'_>,
        printer: &Printer,
        include: IncludeObject,
        now: Timestamp,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let cached_row = match source {
            Source::Stored(object, revision) if revision == object.revision() => cached_row(object, printer),
            Source::Stored(..) | Source::Tree(_) => None,
        };
        match cached_row {
            Some(cached_row) => write_cached_row(&cached_row, now, out),
            None => {
                let row = printer.row(&*self.printed(source, printer)?, now);
                let cells: Vec<LastingCell> = row.cells.into_iter().map(LastingCell::Fixed).collect();
                write_cells(&cells, &row.conditions, out);
            }
        }
        self.write_row_object(source, include, out)?;
        out.push(b'}');
        Ok(())
    }
}

/// The cached row of an object, for kinds and objects that can have one.
fn cached_row(object: &Object, printer: &Printer) -> Option<Bytes> {
    // A definition's columns can change without its objects.
    if printer.is_versioned() {
        return None;
    }
    let make = |object: &Object| -> Result<Bytes, Infallible> {
        let tree = printer.read(object.json(), object.revision());
        let row = tree.and_then(|tree| printer.lasting_row(&tree));
        // Rows that cannot be cached are recorded as empty.
        Ok(row.map_or_else(Bytes::new, |row| exact(&row_template(&row))))
    };
    let Ok(cached_row) = object.encoded(form_key(0, ROW, Encoding::JSON), make);
    (!cached_row.is_empty()).then_some(cached_row)
}

fn row_template(row: &LastingRow) -> Vec<u8> {
    let mut out = row.created.seconds.to_le_bytes().to_vec();
    write_cells(&row.cells, &row.conditions, &mut out);
    out
}

fn write_cached_row(cached_row: &[u8], now: Timestamp, out: &mut Vec<u8>) {
    let Some((created, text)) = cached_row.split_first_chunk::<CREATED_BYTES>() else { return };
    let created = Timestamp::from_seconds(i64::from_le_bytes(*created));
    for (at, part) in text.split(|byte| *byte == AGE).enumerate() {
        if at > 0 {
            // An age contains nothing that JSON escapes except the brackets of `<invalid>`.
            json::write_string(&human(GoDuration(now.nanos_since(&created))), out);
        }
        out.extend_from_slice(part);
    }
}

/// Appends the part of a row before its object.
fn write_cells(cells: &[LastingCell], conditions: &[Value], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"cells\":[");
    for (at, cell) in cells.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match cell {
            LastingCell::Fixed(value) => json::print(value, out),
            LastingCell::Age => out.push(AGE),
        }
    }
    out.push(b']');
    if !conditions.is_empty() {
        out.extend_from_slice(b",\"conditions\":[");
        for (at, condition) in conditions.iter().enumerate() {
            write_members(&["type", "status", "reason", "message"], condition, at, out);
        }
        out.push(b']');
    }
    out.extend_from_slice(b",\"object\":");
}

fn write_members(keys: &[&str], object: &Value, at: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(if at > 0 { b",{" } else { b"{" });
    for (at, key) in keys.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        super::json::write_member(key, object.str_at(&[key]), out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_rows_show_the_age_of_the_moment() {
        let row = LastingRow {
            cells: vec![
                LastingCell::Fixed("a\0\"".into()),
                LastingCell::Age,
                LastingCell::Fixed(Value::Int(2)),
            ],
            conditions: Vec::new(),
            created: Timestamp::from_seconds(1000),
        };
        let cached_row = row_template(&row);
        for (now, age) in [(1000, "0s"), (1090, "90s"), (990, "\\u003cinvalid\\u003e")] {
            let mut out = Vec::new();
            write_cached_row(&cached_row, Timestamp::from_seconds(now), &mut out);
            let expected = format!(r#"{{"cells":["a\u0000\"","{age}",2],"object":"#);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
