//! Many definitions of custom resources: how long one takes until it can be used, what it takes of memory, and whether
//! the two thousandth costs what the tenth does.

use std::time::{Duration, Instant};

use pintle_testkit::Request;
use serde_json::{Map, Value, json};

use super::Context;
use crate::error::BenchError;
use crate::row::{Latencies, Row};

/// Definitions that are made unless `--objects` says fewer, and of those how many belong to one group.
const DEFINITIONS: usize = 2_000;
const PER_GROUP: usize = 20;
/// Definitions at the beginning and at the end that are compared.
const COMPARED: usize = 50;
/// Fields of an ordinary definition.
const FIELDS: usize = 60;
/// How long a server may settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(2);
/// How long a definition may take.
const ESTABLISHED_MAX: Duration = Duration::from_secs(60);

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

pub(super) async fn many(context: &Context) -> Result<Vec<Row>, BenchError> {
    let count = context.arguments.objects.min(DEFINITIONS);
    tokio::time::sleep(SETTLE).await;
    let (rss, cpu, began) = (context.server.rss_bytes(), context.server.cpu(), Instant::now());
    let (mut all, mut first, mut last) = (Latencies::default(), Latencies::default(), Latencies::default());
    for at in 0..count {
        let took = establish(context, at).await?;
        all.add(took);
        if at < COMPARED {
            first.add(took);
        }
        if at + COMPARED >= count {
            last.add(took);
        }
    }
    let mut made = Row { name: "crds".to_owned(), clients: 1, ops: count as u64, numbers: Vec::new() };
    made.numbers.push(("ops_per_s", count as f64 / began.elapsed().as_secs_f64()));
    made.numbers.push(("p50_ms", all.quantile_ms(0.5)));
    made.numbers.push(("p99_ms", all.quantile_ms(0.99)));
    made.numbers.push(("first_p50_ms", first.quantile_ms(0.5)));
    made.numbers.push(("last_p50_ms", last.quantile_ms(0.5)));
    made.numbers.push(("cpu_us_per_op", context.server.cpu().seconds_since(&cpu) * 1e6 / count as f64));
    tokio::time::sleep(SETTLE).await;
    let grown = context.server.rss_bytes() as f64 - rss as f64;
    made.numbers.push(("kib_per_definition", grown / 1024.0 / count as f64));
    let mut rows = vec![made];
    rows.extend(publication(context, count).await?);
    for at in 0..=count {
        context.client.delete(&format!("{PATH}/{}", name(at))).await?;
    }
    Ok(rows)
}

/// How long one more definition takes until each document has it.
async fn publication(context: &Context, count: usize) -> Result<Vec<Row>, BenchError> {
    let (group, plural) = (group(count), plural(count));
    let documents = [
        ("crds, old discovery", format!("/apis/{group}/v1"), "application/json"),
        ("crds, discovery", "/apis".to_owned(), AGGREGATED),
        ("crds, openapi v3", format!("/openapi/v3/apis/{group}/v1"), "application/json"),
        ("crds, openapi v3 index", "/openapi/v3".to_owned(), "application/json"),
        ("crds, openapi v2", "/openapi/v2".to_owned(), "application/json"),
    ];
    // The first time everything is rendered; what counts is what one more definition costs.
    let mut rows = Vec::new();
    let mut firsts = Vec::new();
    for (_, path, accept) in &documents {
        let began = Instant::now();
        context.client.send(&Request::new("GET", path).header("accept", accept)).await?;
        firsts.push(began.elapsed());
    }
    establish(context, count).await?;
    for ((title, path, accept), first) in documents.iter().zip(firsts) {
        let began = Instant::now();
        let answer = context.client.send(&Request::new("GET", path).header("accept", accept)).await?;
        let took = began.elapsed();
        let text = answer.text();
        let shown = text.contains(&plural) || (path.ends_with("/v3") && text.contains(&group));
        if answer.status() != 200 || !shown {
            return Err(BenchError::Unexpected(format!("{path} does not have {plural}")));
        }
        let mut row = Row::single(title, "ms", took.as_secs_f64() * 1e3);
        row.numbers.push(("first_ms", first.as_secs_f64() * 1e3));
        row.numbers.push(("kib", text.len() as f64 / 1024.0));
        rows.push(row);
    }
    Ok(rows)
}

/// Makes a definition and waits until its objects can be listed.
async fn establish(context: &Context, at: usize) -> Result<Duration, BenchError> {
    let began = Instant::now();
    let (status, answer) = context.client.post(PATH, &definition(at)).await?;
    if status != 201 {
        return Err(BenchError::Unexpected(format!("a definition was answered with {status}: {answer}")));
    }
    let path = format!("{PATH}/{}", name(at));
    while began.elapsed() < ESTABLISHED_MAX {
        let (_, live) = context.client.get(&path).await?;
        let conditions = live.pointer("/status/conditions").and_then(Value::as_array);
        let is_up = |c: &Value| {
            c.get("type").and_then(Value::as_str) == Some("Established")
                && c.get("status").and_then(Value::as_str) == Some("True")
        };
        if conditions.is_some_and(|all| all.iter().any(is_up)) {
            let listed = context.client.get(&format!("/apis/{}/v1/{}", group(at), plural(at))).await?;
            if listed.0 == 200 {
                return Ok(began.elapsed());
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err(BenchError::Unexpected(format!("{path} is not established")))
}

fn group(at: usize) -> String {
    format!("g{}.bench.example.com", at / PER_GROUP)
}

fn plural(at: usize) -> String {
    format!("things{at}")
}

fn name(at: usize) -> String {
    format!("{}.{}", plural(at), group(at))
}

/// A definition of ordinary size: some sixty described fields, a status, columns.
fn definition(at: usize) -> Value {
    let field = |n: usize| {
        let described =
            format!("field {n} says how many of its kind the controller keeps, and why it does so.");
        let schema = match n % 4 {
            0 => json!({"type": "string", "description": described, "maxLength": 253}),
            1 => json!({"type": "integer", "format": "int32", "description": described, "minimum": 0}),
            2 => {
                json!({"type": "array", "description": described, "items": {"type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}})
            }
            _ => {
                json!({"type": "object", "description": described, "additionalProperties": {"type": "string"}})
            }
        };
        (format!("field{n}"), schema)
    };
    let fields: Map<String, Value> = (0..FIELDS).map(field).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name(at)},
        "spec": {
            "group": group(at), "scope": "Namespaced",
            "names": {"plural": plural(at), "kind": format!("Thing{at}")},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Field", "type": "string", "jsonPath": ".spec.field0"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": fields},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}],
        },
    })
}
