//! The part of a row that only changes with its object: all cells except ages.

use super::{Printer, Row, cell};
use pintle_meta::Timestamp;
use pintle_value::Value;

/// A cell of a row that can be cached.
#[derive(Clone, Debug, PartialEq)]
pub enum LastingCell {
    /// A value that does not change.
    Fixed(Value),
    /// The object's age.
    Age,
}

/// A row that can be cached with its object.
#[derive(Clone, Debug, PartialEq)]
pub struct LastingRow {
    /// The cells, in the order of the columns.
    pub cells: Vec<LastingCell>,
    /// The row's conditions.
    pub conditions: Vec<Value>,
    /// When the object was created.
    pub created: Timestamp,
}

/// Times after an object's creation, in seconds and nanoseconds, at which a cell is evaluated. Cells that depend on the
/// time differ between the first and the last; only the age of this very object is correct at all of them.
const MOMENTS: [(i64, u32); 3] = [(60, 0), (60, 999_999_999), (250 * 365 * 86_400, 0)];

impl Printer {
    /// The row of an object, if it only depends on the object and its age.
    pub fn lasting_row(&self, object: &Value) -> Option<LastingRow> {
        let creation = object.str_at(&["metadata", "creationTimestamp"]);
        let created = Timestamp::parse(creation).ok()?;
        let moments =
            MOMENTS.map(|(after, nanos)| Timestamp { seconds: created.seconds.saturating_add(after), nanos });
        let rows = moments.map(|now| self.row(object, now));
        let ages = moments.map(|now| cell::since(creation, now));
        let first: &Row = rows.first()?;
        if rows.iter().any(|row| row.cells.len() != first.cells.len() || row.conditions != first.conditions) {
            return None;
        }
        let lasting = |at: usize| {
            let at_moments = || rows.iter().filter_map(move |row| row.cells.get(at));
            let cell = first.cells.get(at)?;
            if at_moments().all(|other| other == cell) {
                return Some(LastingCell::Fixed(cell.clone()));
            }
            at_moments().eq(ages.iter()).then_some(LastingCell::Age)
        };
        let cells = (0..first.cells.len()).map(lasting).collect::<Option<Vec<_>>>()?;
        Some(LastingRow { cells, conditions: first.conditions.clone(), created })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    fn check(kind: &str, object: &str, expected: Option<&str>) {
        let object = json::parse(object.as_bytes()).unwrap().value;
        let cells = Printer::builtin(kind).lasting_row(&object).map(|row| {
            let cell = |cell: &LastingCell| match cell {
                LastingCell::Age => "AGE".to_string(),
                LastingCell::Fixed(value) => {
                    value.as_str().map_or_else(|| format!("{value:?}"), str::to_string)
                }
            };
            row.cells.iter().map(cell).collect::<Vec<_>>().join("|")
        });
        assert_eq!(cells.as_deref(), expected, "{kind}");
    }

    #[test]
    fn only_the_own_age_is_left_open() {
        let at = |extra: &str| {
            format!(r#"{{"metadata":{{"name":"a","creationTimestamp":"2026-01-01T00:00:00Z"}}{extra}}}"#)
        };
        check("ConfigMap", &at(""), Some("a|Int(0)|AGE"));
        check("Secret", &at(r#","type":"t""#), Some("a|t|Int(0)|AGE"));
        // Cells with other times cannot be cached: those of a running job, or of an event.
        let job = |status: &str| at(&format!(r#","spec":{{"completions":1}},"status":{{{status}}}"#));
        check("batch/Job", &job(r#""startTime":"2026-01-01T00:00:01Z""#), None);
        for last in ["2026-01-01T00:00:01Z", "2025-12-31T23:59:59Z", "2030-01-01T00:00:00Z"] {
            check("Event", &at(&format!(r#","lastTimestamp":"{last}""#)), None);
        }
        check("Event", &at(r#","series":{"lastObservedTime":"2025-12-31T23:59:59.500000Z"}"#), None);
        check("ConfigMap", r#"{"metadata":{"name":"a"}}"#, None);
    }
}
