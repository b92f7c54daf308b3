//! Cells of custom resources: a JSONPath for each column.

use super::cell::{name, text};
use super::columns::{self, described, make_column};
use super::jsonpath::{Budget, JsonPath};
use super::pick::Need;
use crate::{Column, ScalePaths};
use pintle_meta::{Timestamp, duration};
use pintle_value::quote::go_general;
use pintle_value::{Str, Value, json};

/// The limit of all texts of one row in bytes. Each column may print the whole object.
const ROW_BYTES_MAX: usize = 8 << 20;

/// The columns after the name.
pub(super) struct CustomColumns {
    columns: Vec<(Column, JsonPath)>,
}

impl CustomColumns {
    /// The columns of a definition, or the age if it has none. Columns from the first invalid path on are dropped.
    pub(super) fn new(columns: &[Column]) -> Self {
        let default = [age()];
        let columns = if columns.is_empty() { &default } else { columns };
        let parsed =
            columns.iter().map_while(|column| Some((column.clone(), JsonPath::parse(&column.path)?)));
        CustomColumns { columns: parsed.collect() }
    }

    /// All columns, as returned to the client.
    pub(super) fn headers(&self) -> Vec<Column> {
        let described = |column: &Column| {
            let mut column = column.clone();
            if column.description.is_empty() {
                let path = &column.path;
                column.description =
                    Str::from(format!("Custom resource definition column (in JSONPath format): {path}"));
            }
            column
        };
        std::iter::once(columns::name())
            .chain(self.columns.iter().map(|(column, _)| described(column)))
            .collect()
    }

    /// Adds what the paths lead to.
    pub(super) fn add_needs(&self, need: &mut Need) {
        self.columns.iter().for_each(|(_, path)| need.add_members(path.leading_members()));
    }

    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let budget = Budget::for_row();
        let mut bytes_left = ROW_BYTES_MAX;
        let cells = self.columns.iter().map(|(column, path)| {
            let cell = path.first(object, &budget).map(|found| cell(&column.type_, found, now));
            let bytes = cell.as_ref().and_then(Value::as_str).map_or(0, str::len);
            match bytes_left.checked_sub(bytes) {
                Some(left) => {
                    bytes_left = left;
                    cell.unwrap_or_default()
                }
                None => Value::Null,
            }
        });
        std::iter::once(name(object)).chain(cells).collect()
    }
}

/// The columns of the `scale` subresource.
pub(super) fn scale_columns(paths: &ScalePaths) -> Vec<Column> {
    let replicas = |name: &str, path: &str, description: &str, is_there: bool| {
        is_there.then(|| Column { path: path.into(), ..make_column(name, "integer", description.into()) })
    };
    let desired =
        replicas("Desired", ".spec.replicas", "Number of desired replicas", !paths.spec_replicas.is_empty());
    let available = replicas(
        "Available",
        ".status.replicas",
        "Number of actual replicas",
        !paths.status_replicas.is_empty(),
    );
    desired.into_iter().chain(available).chain([age()]).collect()
}

fn age() -> Column {
    Column { path: ".metadata.creationTimestamp".into(), ..make_column("Age", "date", described("@age")) }
}

/// A value in a column of this type; `null` if it does not fit.
fn cell(type_: &str, value: &Value, now: Timestamp) -> Value {
    match (type_, value) {
        ("string", value) => text(value_text(value)),
        ("integer", Value::Int(int)) => Value::Int(*int),
        // A fraction is truncated, as Go's conversion does.
        ("integer", Value::Float(float)) => Value::Int(go_int(*float)),
        ("number", Value::Int(int)) => Value::Float(*int as f64),
        ("number", Value::Float(float)) => Value::Float(*float),
        ("boolean", Value::Bool(truth)) => Value::Bool(*truth),
        ("date", Value::String(time)) => age_cell(time, now),
        _ => Value::Null,
    }
}

fn age_cell(time: &str, now: Timestamp) -> Value {
    match Timestamp::parse(time) {
        Err(_) if !matches!(time, "" | "null") => text("<invalid>"),
        _ => Value::String(duration::age(time, &now)),
    }
}

/// Any value as text.
fn value_text(value: &Value) -> Str {
    match value {
        Value::String(text) => text.clone(),
        Value::Int(int) => int.to_string().into(),
        Value::Float(float) => go_general(*float).into(),
        Value::Bool(truth) => truth.to_string().into(),
        Value::Null => "<no value>".into(),
        Value::Array(_) | Value::Object(_) | Value::Raw(_) => Str::from(json::text(value)),
    }
}

/// A number without its fraction; out of range, the result of Go's conversion on amd64.
fn go_int(float: f64) -> i64 {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if float >= BEYOND { i64::MIN } else { float as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fit_their_columns_or_are_null() {
        let now = Timestamp::from_seconds(100);
        for (type_, value, expected) in [
            ("string", r#""a""#, r#""a""#),
            ("string", "7", r#""7""#),
            ("string", "0.5", r#""0.5""#),
            ("string", "1234567.5", r#""1.2345675e+06""#),
            ("string", "null", r#""\u003cno value\u003e""#),
            ("string", r#"{"b":[1,null],"a":true}"#, r#""{\"a\":true,\"b\":[1,null]}""#),
            ("integer", "5.9", "5"),
            ("integer", r#""5""#, "null"),
            ("number", "3", "3"),
            ("boolean", "true", "true"),
            ("boolean", r#""true""#, "null"),
            ("date", r#""1970-01-01T00:00:10Z""#, r#""90s""#),
            ("date", r#""""#, r#""\u003cunknown\u003e""#),
            ("date", r#""yesterday""#, r#""\u003cinvalid\u003e""#),
            ("date", "5", "null"),
        ] {
            let value = json::parse(value.as_bytes()).unwrap().value;
            assert_eq!(json::text(&cell(type_, &value, now)), expected, "{type_} {value:?}");
        }
    }

    #[test]
    fn large_and_small_numbers_have_exponents() {
        for (float, expected) in [
            (0.5, "0.5"),
            (100000.0, "100000"),
            (1e6, "1e+06"),
            (123456789.0, "1.23456789e+08"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5e-7, "-2.5e-07"),
        ] {
            assert_eq!(go_general(float), expected);
        }
    }
}
