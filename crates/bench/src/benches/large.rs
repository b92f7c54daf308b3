//! Server-side apply of a large object: 5,000 list items, each with an owner, 700 KB in total.

use pintle_testkit::Request;
use serde_json::{Value, json};

use super::Context;
use crate::error::BenchError;
use crate::load::Until;
use crate::row::Row;

/// The number of items in the object's list.
const ITEMS: u64 = 5_000;
/// The number of bytes of an item's value, which make the object 700 KB.
const VALUE_BYTES: usize = 104;
/// The number of operations per row; each takes tens of milliseconds.
const OPERATIONS: u64 = 20;

const GROUP: &str = "bench.example";

/// An operation: the manager, whether it is an apply, and the new object.
struct Case {
    name: &'static str,
    manager: fn(n: u64) -> &'static str,
    verb: Verb,
    items: fn(n: u64) -> Vec<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Create,
    Apply,
    Update,
}

/// The operations in the order of execution, each on the result of the previous one.
const CASES: &[Case] = &[
    Case { name: "create", manager: |_| "a", verb: Verb::Create, items: |_| items(0, |_| 0) },
    Case { name: "same", manager: |_| "a", verb: Verb::Apply, items: |_| items(0, |_| 0) },
    Case {
        name: "change-one",
        manager: |_| "a",
        verb: Verb::Apply,
        items: |n| items(0, |at| u64::from(at == ITEMS / 2) * (n + 1)),
    },
    Case { name: "drop-one", manager: |_| "a", verb: Verb::Apply, items: |n| items(n + 1, |_| 0) },
    Case {
        name: "take-over",
        manager: |n| if n % 2 == 0 { "b" } else { "a" },
        verb: Verb::Apply,
        items: |n| items(0, |_| n + 100),
    },
    Case {
        name: "update-one",
        manager: |_| "c",
        verb: Verb::Update,
        items: |n| items(0, |at| if at == 7 { n + 200 } else { OPERATIONS + 99 }),
    },
    Case { name: "update-all", manager: |_| "c", verb: Verb::Update, items: |n| items(0, |_| n + 300) },
];

/// All items but the first `gone`; the value of each depends on its number and on `revision`.
fn items(gone: u64, revision: impl Fn(u64) -> u64) -> Vec<Value> {
    let item = |at| {
        let value = format!("{at}-{}-", revision(at));
        let padding = "x".repeat(VALUE_BYTES.saturating_sub(value.len()));
        json!({"name": format!("item-{at:05}"), "value": value + &padding})
    };
    (gone..ITEMS).map(item).collect()
}

pub(super) async fn measure_custom_resource(context: &Context) -> Result<Vec<Row>, BenchError> {
    define(context).await?;
    let namespace = context.namespace("large").await?;
    let path = format!("/apis/{GROUP}/v1/namespaces/{namespace}/larges");
    run(context, "large", path, |name, items| {
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Large", "metadata": {"name": name}, "items": items})
    })
    .await
}

pub(super) async fn measure_deployment(context: &Context) -> Result<Vec<Row>, BenchError> {
    let namespace = context.namespace("large-deployment").await?;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    run(context, "large-deployment", path, |name, items| {
        let labels = json!({"app": "large"});
        let container = json!({"name": "c", "image": "i", "env": items});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        })
    })
    .await
}

async fn run(
    context: &Context,
    bench: &str,
    path: String,
    object: fn(name: &str, items: Vec<Value>) -> Value,
) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for case in CASES {
        let name = format!("{bench}/{}", case.name);
        let load = context.load(&name, 1, Until::Operations(OPERATIONS));
        let to = path.clone();
        rows.push(load.run(move |n| new_request(case, &to, n, object)).await?);
        if case.verb == Verb::Create {
            for n in 1..OPERATIONS {
                context.client.delete(&format!("{path}/large-{n}")).await?;
            }
        }
    }
    context.client.delete(&format!("{path}/large-0")).await?;
    Ok(rows)
}

fn new_request(case: &Case, path: &str, n: u64, object: fn(&str, Vec<Value>) -> Value) -> Request {
    let name = format!("large-{}", if case.verb == Verb::Create { n } else { 0 });
    let body = object(&name, (case.items)(n));
    let manager = (case.manager)(n);
    match case.verb {
        Verb::Update => Request::new("PATCH", &format!("{path}/{name}?fieldManager={manager}"))
            .body("application/merge-patch+json", body.to_string()),
        Verb::Create | Verb::Apply => {
            Request::new("PATCH", &format!("{path}/{name}?fieldManager={manager}&force=true"))
                .body("application/apply-patch+yaml", body.to_string())
        }
    }
}

/// Defines the kind `Large`, and waits until it is served.
async fn define(context: &Context) -> Result<(), BenchError> {
    let item = json!({"type": "object", "required": ["name"],
                      "properties": {"name": {"type": "string"}, "value": {"type": "string"}}});
    let list = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"items": list}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("larges.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": "larges", "kind": "Large"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    context.client.send(&Request::new("POST", path).json(&definition)).await?;
    let served = format!("/apis/{GROUP}/v1/larges");
    while context.client.send(&Request::new("GET", &served)).await?.status() != 200 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Ok(())
}
