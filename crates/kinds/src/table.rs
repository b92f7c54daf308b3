//! Tables: columns and cells of every kind. The cells of built-in kinds are in `data/cells.txt`; custom
//! resources have columns in their definitions. The `http` crate encodes Tables.

mod admissionregistration;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
mod cell;
mod cells;
mod certificates;
mod columns;
mod core;
mod core_storage;
mod custom;
mod discovery;
mod flowcontrol;
mod jsonpath;
mod jsonpath_parse;
mod lasting;
mod networking;
mod pick;
mod pod;
mod rbac;
mod resource;
mod scheduling;
mod service;
mod storage;
mod storageversion;

use crate::{Column, Kind, KindVersion};
use cell::{name, text};
use cells::Cell;
use custom::CustomColumns;
pub use lasting::{LastingCell, LastingRow};
use pick::Need;
pub use pick::member;
use pintle_meta::Timestamp;
use pintle_value::{Value, json};

/// One row of a Table, without its object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The cells, in the order of the columns.
    pub cells: Vec<Value>,
    /// The row's conditions: that the object is completed.
    pub conditions: Vec<Value>,
}

/// Writes the rows of one kind.
pub struct Printer {
    columns: Vec<Column>,
    form: Form,
    need: Need,
    order: Option<fn(&Value) -> i64>,
}

enum Form {
    /// Name and Created At.
    Plain,
    /// The cells of a built-in kind.
    Builtin { cells: Vec<Cell>, conditions: fn(&Value) -> Vec<Value> },
    /// The columns of a definition.
    Custom(CustomColumns),
}

impl Printer {
    /// The printer of a kind's version.
    pub fn of(kind: &Kind, version: &KindVersion) -> Self {
        if !version.schema.is_built_in() {
            return Printer::custom(&version.columns);
        }
        let group = if kind.group.is_empty() { String::new() } else { format!("{}/", kind.group) };
        Printer::builtin(&format!("{group}{}", kind.kind))
    }

    /// The printer of the `scale` subresource of a version.
    pub fn scale(version: &KindVersion) -> Self {
        if version.schema.is_built_in() {
            return Printer::builtin("autoscaling/Scale");
        }
        let scale = version.subresource("scale").and_then(|sub| sub.scale.clone()).unwrap_or_default();
        Printer::custom(&custom::scale_columns(&scale))
    }

    fn builtin(name: &str) -> Self {
        let Some((cells, need)) = cells::of(name) else {
            let mut need = Need::default();
            need.add("metadata.creationTimestamp");
            need.add("metadata.name");
            return Printer { columns: columns::plain(), form: Form::Plain, need, order: None };
        };
        let conditions = if name == "Pod" { pod::conditions } else { |_: &Value| Vec::new() };
        // Only flow schemas are sorted differently than by name.
        let order = (name == flowcontrol::ORDERED).then_some(flowcontrol::order as fn(&Value) -> i64);
        let form = Form::Builtin { cells, conditions };
        Printer { columns: columns::of(name), form, need, order }
    }

    fn custom(columns: &[Column]) -> Self {
        let custom = CustomColumns::new(columns);
        let mut need = Need::default();
        need.add("metadata.name");
        custom.add_needs(&mut need);
        Printer { columns: custom.headers(), form: Form::Custom(custom), need, order: None }
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns whether an empty list has `null` rows, as kinds without columns of their own have.
    pub fn is_plain(&self) -> bool {
        matches!(self.form, Form::Plain)
    }

    /// Returns whether rows are made from the request's version; others use the storage version.
    pub fn is_versioned(&self) -> bool {
        matches!(self.form, Form::Custom(_))
    }

    /// The sort key of rows, if they are not only sorted by name.
    pub fn order(&self) -> Option<fn(&Value) -> i64> {
        self.order
    }

    /// Extracts what [`Printer::row`] needs from an object's stored JSON (compact, without resourceVersion).
    pub fn read(&self, stored: &[u8], revision: u64) -> Option<Value> {
        let mut tree = match self.need.pick(stored) {
            Some(tree) => tree,
            None => json::parse(stored).ok()?.value,
        };
        if revision > 0 && self.need.has("metadata", "resourceVersion") {
            tree.set_at(&["metadata", "resourceVersion"], revision.to_string().into());
        }
        Some(tree)
    }

    /// The row of an object; it is in the storage version unless rows are versioned.
    pub fn row(&self, object: &Value, now: Timestamp) -> Row {
        match &self.form {
            Form::Plain => Row { cells: vec![name(object), created(object)], conditions: Vec::new() },
            Form::Builtin { cells, conditions } => {
                let mut row = Row { cells: Vec::with_capacity(cells.len()), conditions: conditions(object) };
                cells.iter().for_each(|cell| cell.write(object, now, &mut row.cells));
                row
            }
            Form::Custom(columns) => Row { cells: columns.cells(object, now), conditions: Vec::new() },
        }
    }
}

/// The creation time of an object, in RFC 3339.
fn created(object: &Value) -> Value {
    match object.str_at(&["metadata", "creationTimestamp"]) {
        "" => text("0001-01-01T00:00:00Z"),
        time => text(time),
    }
}

#[cfg(test)]
mod tests;
