//! Managed fields at the end of a write: after admission, and when only times would change.

use super::entries::{Managed, entries_of};
use pintle_value::Value;

/// Checks that managed fields can be decoded. The error continues admission's warning `.metadata.managedFields was in
/// an invalid state after admission; …`.
pub fn check_managed_fields(object: &Value) -> Result<(), String> {
    Managed::decode(entries_of(object)).map(|_| ())
}

/// How an update compares with the stored object, in the terms of kube-apiserver's metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// No time of managed fields changed, or more than times changed in them.
    UnequalFast,
    /// Only times of managed fields changed, and something outside of them.
    UnequalSlow,
    /// Only times of managed fields changed.
    Equal,
}

/// If `new` differs from `old` only in the times of managed fields, restores the old times, so that a write without
/// changes is recognized as such.
pub fn keep_times(new: &mut Value, old: &Value) -> Comparison {
    let before = entries_of(old);
    let after = entries_of(new);
    if before.len() != after.len() || before.is_empty() {
        return Comparison::UnequalFast;
    }
    // Most writes change something else, and that is found sooner than that their sets are equal.
    let is_same = equal_but_entries(new, old);
    let same_but_time = |(a, b): (&Value, &Value)| equal_but(a, b, "time");
    if (is_same && before == after) || !before.iter().zip(after).all(same_but_time) {
        return Comparison::UnequalFast;
    }
    if !is_same {
        return Comparison::UnequalSlow;
    }
    let entries = before.to_vec();
    new.set_at(&["metadata", "managedFields"], Value::Array(entries));
    Comparison::Equal
}

/// Returns whether two objects are equal except for one member.
fn equal_but(a: &Value, b: &Value, key: &str) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else { return a == b };
    let rest = |(name, _): &(&pintle_value::Str, &Value)| *name != key;
    a.iter().filter(rest).eq(b.iter().filter(rest))
}

fn equal_but_entries(a: &Value, b: &Value) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else { return false };
    a.len() == b.len()
        && a.iter().zip(b.iter()).all(|((a_key, a), (b_key, b))| {
            a_key == b_key
                && match (a_key.as_str(), a, b) {
                    ("metadata", a, b) => equal_but(a, b, "managedFields"),
                    _ => a == b,
                }
        })
}
