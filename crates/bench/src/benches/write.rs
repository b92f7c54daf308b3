//! Writes: create, update, patch, apply, each with one client and with many.

use pintle_testkit::Request;
use serde_json::json;

use super::{Context, config_map, config_maps};
use crate::error::BenchError;
use crate::row::Row;

const CLIENTS: [usize; 2] = [1, 32];
/// Objects that updates take turns on; many more than clients, so that conflicts are rare.
const UPDATED_OBJECTS: u64 = 1024;

pub(super) async fn create(context: &Context) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for clients in CLIENTS {
        let namespace = context.namespace(&format!("create-{clients}")).await?;
        let path = config_maps(&namespace);
        let load = context.load("create", clients, context.elapsed());
        let make = move |n| Request::new("POST", &path).json(&config_map(&format!("cm-{n}"), n));
        rows.push(load.run(make).await?);
        context.remove_namespace(&namespace).await?;
    }
    Ok(rows)
}

pub(super) async fn update(context: &Context) -> Result<Vec<Row>, BenchError> {
    change(context, "update", |path, name, n| {
        Request::new("PUT", &format!("{path}/{name}")).json(&config_map(name, n))
    })
    .await
}

pub(super) async fn patch(context: &Context) -> Result<Vec<Row>, BenchError> {
    change(context, "patch", |path, name, n| {
        let body = json!({"data": {"revision": n.to_string()}});
        Request::new("PATCH", &format!("{path}/{name}"))
            .body("application/merge-patch+json", body.to_string())
    })
    .await
}

pub(super) async fn apply(context: &Context) -> Result<Vec<Row>, BenchError> {
    change(context, "apply", |path, name, n| {
        let path = format!("{path}/{name}?fieldManager=bench&force=true");
        Request::new("PATCH", &path).body("application/apply-patch+yaml", config_map(name, n).to_string())
    })
    .await
}

/// Changes existing objects in turn; every operation writes something new.
async fn change(
    context: &Context,
    name: &str,
    make: fn(path: &str, name: &str, n: u64) -> Request,
) -> Result<Vec<Row>, BenchError> {
    let namespace = context.namespace(name).await?;
    context.fill(&namespace, UPDATED_OBJECTS).await?;
    let mut rows = Vec::new();
    for clients in CLIENTS {
        let path = config_maps(&namespace);
        let load = context.load(name, clients, context.elapsed());
        // Each load starts numbers above those of the one before, or its first writes would change nothing.
        let base = UPDATED_OBJECTS * (clients as u64 + 1) * 1_000_000;
        let op = move |n| make(&path, &format!("cm-{:06}", n % UPDATED_OBJECTS), base + n);
        rows.push(load.run(op).await?);
    }
    context.remove_namespace(&namespace).await?;
    Ok(rows)
}
