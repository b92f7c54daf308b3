//! Custom resources whose definition has rules.

use std::time::{Duration, Instant};

use pintle_testkit::Request;
use serde_json::{Value, json};

use super::Context;
use super::write::{Subject, create_of};
use crate::error::BenchError;
use crate::row::Row;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "bench.example.com";
/// How long a definition may take until it is served.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(30);

const SHOP: Subject = Subject {
    suffix: "-rules",
    collection: |namespace| format!("/apis/{GROUP}/v1/namespaces/{namespace}/shops"),
    object: new_shop,
    patch: |n| json!({"spec": {"replicas": n % 5 + 1}}),
};

pub(super) async fn create(context: &Context) -> Result<Vec<Row>, BenchError> {
    let name = format!("{DEFINITIONS}/shops.{GROUP}");
    context.client.send(&Request::new("POST", DEFINITIONS).json(&new_definition())).await?;
    let began = Instant::now();
    let served = format!("/apis/{GROUP}/v1/shops?limit=1");
    while context.client.send(&Request::new("GET", &served)).await?.status() != 200 {
        if began.elapsed() > ESTABLISHED_WITHIN {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let rows = create_of(context, SHOP).await?;
    context.client.send(&Request::new("DELETE", &name)).await?;
    Ok(rows)
}

/// Rules of the kinds that definitions have: bounds, texts, lists, maps, patterns, optional fields.
const RULES: [&str; 10] = [
    "self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas",
    "self.name.startsWith('shop-') && self.name.size() < 40",
    "self.items.all(i, i.price >= 0 && i.count > 0)",
    "self.items.exists(i, i.kind == 'book')",
    "self.items.map(i, i.sku).all(s, s.matches('^[a-z]{3}-[0-9]+$'))",
    "!has(self.paused) || self.paused == false || self.replicas == 0",
    "self.labels.all(k, k.contains('/') || self.labels[k] != '')",
    "self.hours in ['day', 'night', 'always']",
    "duration(self.timeout) < duration('1h')",
    "self.items.filter(i, i.kind == 'food').size() <= 3",
];

fn new_definition() -> Value {
    let text = json!({"type": "string", "maxLength": 64});
    let item = json!({
        "type": "object",
        "required": ["sku", "kind", "price", "count"],
        "properties": {"sku": text, "kind": text, "price": {"type": "integer"}, "count": {"type": "integer"}},
    });
    let rules: Vec<Value> = RULES.iter().map(|rule| json!({"rule": rule})).collect();
    let spec = json!({
        "type": "object",
        "required": ["minReplicas", "maxReplicas", "replicas", "name", "items", "labels", "hours", "timeout"],
        "properties": {
            "minReplicas": {"type": "integer"}, "maxReplicas": {"type": "integer"}, "replicas": {"type": "integer"},
            "name": text, "hours": text, "timeout": text, "paused": {"type": "boolean"},
            "labels": {"type": "object", "maxProperties": 16, "additionalProperties": text},
            "items": {"type": "array", "maxItems": 16, "items": item},
        },
        "x-kubernetes-validations": rules,
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("shops.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": "shops", "kind": "Shop"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

fn new_shop(name: &str, n: u64) -> Value {
    let item =
        |sku: u64, kind: &str| json!({"sku": format!("abc-{sku}"), "kind": kind, "price": sku, "count": 1});
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "Shop",
        "metadata": {"name": name},
        "spec": {
            "minReplicas": 1, "maxReplicas": 5, "replicas": n % 5 + 1, "name": format!("shop-{n}"),
            "hours": "day", "timeout": "30s", "labels": {"app": "shop", "tier": "front"},
            "items": [item(n, "book"), item(n + 1, "food"), item(n + 2, "book"), item(n + 3, "toy")],
        },
    })
}
