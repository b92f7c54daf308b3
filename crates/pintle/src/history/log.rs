//! The versions of an object as the server returns them, and the writers of each.

use super::PointInTime;
use pintle_meta::time::Timestamp;
use pintle_value::Value;

/// The versions that were fetched.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The versions, oldest first.
    pub(super) versions: Vec<Version>,
    /// The resourceVersion after which every change is retained.
    pub(super) since: u64,
    /// Whether the server has older versions.
    pub(super) has_older: bool,
}

/// One version.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) revision: u64,
    pub(super) time: Option<Timestamp>,
    /// `ADDED`, `MODIFIED`, `DELETED` or `OLDEST`.
    pub(super) change: String,
    /// `None` after the object was deleted.
    pub(super) object: Option<Value>,
}

/// The writer of a version, according to the object's managed fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Writer {
    pub(super) manager: String,
    /// `Apply` or `Update`.
    pub(super) operation: String,
    pub(super) subresource: String,
}

impl Log {
    /// Adds a page of older versions in front; returns how many there were.
    pub(super) fn add_older(&mut self, page: &Value) -> usize {
        let mut older: Vec<Version> = page.items_at(&["items"]).iter().map(read_version).collect();
        let count = older.len();
        older.append(&mut self.versions);
        self.versions = older;
        self.since = page.str_at(&["since"]).parse().unwrap_or(0);
        count
    }

    /// Whether the versions include the object at this moment.
    pub(super) fn reaches(&self, moment: Option<PointInTime>) -> bool {
        let oldest = self.versions.first();
        oldest.zip(moment).is_some_and(|(oldest, moment)| moment.includes(oldest))
    }

    /// The versions, each with the one before it, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (&Version, Option<&Version>)> {
        let before = |index: usize| index.checked_sub(1).and_then(|index| self.versions.get(index));
        self.versions.iter().enumerate().rev().map(move |(index, version)| (version, before(index)))
    }
}

fn read_version(item: &Value) -> Version {
    Version {
        revision: item.str_at(&["resourceVersion"]).parse().unwrap_or(0),
        time: Timestamp::parse(item.str_at(&["time"])).ok(),
        change: item.str_at(&["type"]).to_string(),
        object: item.get("object").cloned(),
    }
}

impl Version {
    /// The verb of the write.
    pub(super) fn verb(&self, before: Option<&Version>) -> &'static str {
        let is_ending = |version: Option<&Version>| {
            let object = version.and_then(|version| version.object.as_ref());
            object.is_some_and(|object| !object.str_at(&["metadata", "deletionTimestamp"]).is_empty())
        };
        match self.change.as_str() {
            "ADDED" => "create",
            "DELETED" => "delete",
            "OLDEST" => "oldest",
            _ if is_ending(Some(self)) && !is_ending(before) => "mark for deletion",
            _ if self.writers(before).iter().any(|writer| writer.operation == "Apply") => "apply",
            _ => "update",
        }
    }

    /// The managers that wrote this version, as far as the object shows: those whose entries are new, newer or have more
    /// fields than before. An entry that only lost fields lost them to another writer.
    pub(super) fn writers(&self, before: Option<&Version>) -> Vec<Writer> {
        let new = managed_entries(Some(self));
        let old = managed_entries(before);
        let wrote = |entry: &&Value| {
            let Some(previous) = old.iter().find(|other| read_writer(other) == read_writer(entry)) else {
                return true;
            };
            let fields = |entry: &Value| entry.get("fieldsV1").cloned().unwrap_or_default();
            entry.str_at(&["time"]) > previous.str_at(&["time"])
                || has_more(&fields(entry), &fields(previous))
        };
        let mut writers: Vec<Writer> = new.iter().filter(wrote).map(read_writer).collect();
        if writers.is_empty() {
            // Another write of the same manager within the same second leaves its entry unchanged.
            let second = self.time.map(|time| time.rfc3339());
            let is_of_now = |entry: &&Value| second.as_deref() == Some(entry.str_at(&["time"]));
            writers = new.iter().filter(is_of_now).map(read_writer).collect();
        }
        writers.sort();
        writers.dedup();
        writers
    }
}

fn managed_entries(version: Option<&Version>) -> &[Value] {
    let object = version.and_then(|version| version.object.as_ref());
    object.map(|object| object.items_at(&["metadata", "managedFields"])).unwrap_or_default()
}

fn read_writer(entry: &Value) -> Writer {
    Writer {
        manager: entry.str_at(&["manager"]).to_string(),
        operation: entry.str_at(&["operation"]).to_string(),
        subresource: entry.str_at(&["subresource"]).to_string(),
    }
}

/// Whether a set of fields has one that the other does not have.
fn has_more(fields: &Value, than: &Value) -> bool {
    let Some(fields) = fields.as_object() else { return false };
    fields.iter().any(|(key, inner)| than.get(key).is_none_or(|other| has_more(inner, other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    fn check(old: &str, new: &str, want: &[&str]) {
        let version = |revision: u64, managed: &str| Version {
            revision,
            time: Timestamp::parse("2026-01-02T15:04:05.5Z").ok(),
            change: "MODIFIED".to_string(),
            object: Some(
                json::parse(format!(r#"{{"metadata":{{"managedFields":{managed}}}}}"#).as_bytes())
                    .unwrap()
                    .value,
            ),
        };
        let (old, new) = (version(1, old), version(2, new));
        let writers = new.writers(Some(&old));
        let names: Vec<&str> = writers.iter().map(|writer| writer.manager.as_str()).collect();
        assert_eq!(names, want);
    }

    #[test]
    fn writers_are_those_whose_entries_are_new_or_grew() {
        let a = r#"{"manager":"a","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:x":{},"f:y":{}}}"#;
        let a_less = r#"{"manager":"a","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:x":{}}}"#;
        let a_later = r#"{"manager":"a","time":"2026-01-02T15:04:05Z","fieldsV1":{"f:x":{},"f:y":{}}}"#;
        let scale = r#"{"manager":"b","subresource":"scale","fieldsV1":{"f:y":{}}}"#;
        check(&format!("[{a}]"), &format!("[{a_less},{scale}]"), &["b"]);
        check(&format!("[{a_less}]"), &format!("[{a}]"), &["a"]);
        check(&format!("[{a}]"), &format!("[{a_later}]"), &["a"]);
        check(&format!("[{a_later}]"), &format!("[{a_later}]"), &["a"]);
        check(&format!("[{a}]"), &format!("[{a}]"), &[]);
    }
}
