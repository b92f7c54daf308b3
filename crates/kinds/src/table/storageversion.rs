//! Rows of storage versions and their migrations.

use super::cell::{text, with_more};
use pintle_value::Value;

const SERVERS_MAX: usize = 3;

/// The encoding version of each API server, for the first few.
pub(super) fn encodings(object: &Value) -> Value {
    let servers = object.items_at(&["status", "storageVersions"]);
    let encoding = |s: &Value| format!("{}={}", s.str_at(&["apiServerID"]), s.str_at(&["encodingVersion"]));
    let first: Vec<String> = servers.iter().take(SERVERS_MAX).map(encoding).collect();
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    text(with_more(&first, servers.len(), SERVERS_MAX))
}

/// The migrated resource: `pods` or `deployments.apps`.
pub(super) fn migrated(object: &Value) -> Value {
    let name = |key| object.str_at(&["spec", "resource", key]);
    match name("group") {
        "" => text(name("resource")),
        group => text(format!("{}.{group}", name("resource"))),
    }
}

/// The last of the known conditions that is true.
pub(super) fn migration_state(object: &Value) -> Value {
    let conditions = object.items_at(&["status", "conditions"]).iter().rev();
    let mut reached = conditions.filter(|c| c.str_at(&["status"]) == "True").map(|c| c.str_at(&["type"]));
    text(reached.find(|kind| matches!(*kind, "Running" | "Failed" | "Succeeded")).unwrap_or("Unknown"))
}
