//! Many definitions of custom resources: the time until one can be used, its memory, and whether the two thousandth costs
//! as much as the tenth.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pintle_testkit::{Client, Request};
use serde_json::{Map, Value, json};

use super::Context;
use crate::error::BenchError;
use crate::process::CpuTime;
use crate::row::{Latencies, Row};

/// The number of definitions, unless `--objects` is smaller, and how many belong to one group.
const DEFINITIONS: usize = 2_000;
const PER_GROUP: usize = 20;
/// The number of definitions at the start and at the end that are compared.
const COMPARED: usize = 50;
/// The number of fields of an ordinary definition.
const FIELDS: usize = 60;
/// How long to wait before memory is measured.
const SETTLE: Duration = Duration::from_secs(2);
/// How long a definition may take.
const ESTABLISHED_MAX: Duration = Duration::from_secs(60);

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The pause between two reads of another group.
const PAUSE: Duration = Duration::from_millis(5);
const JSON: &str = "application/json";
const IDENTITY: &str = "identity";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

pub(super) async fn create_many(context: &Context) -> Result<Vec<Row>, BenchError> {
    let count = context.arguments.objects.min(DEFINITIONS);
    tokio::time::sleep(SETTLE).await;
    let rss = context.server.rss_bytes();
    let waits = Waits::default();
    let others = tokio::spawn(read_other_group(context.client.clone(), waits.clone()));
    let made = install(context, count).await;
    others.abort();
    let mut made = made?;
    tokio::time::sleep(SETTLE).await;
    made.numbers.push(("kib_per_definition", kib_since(context, rss) / count as f64));
    let mut rows = vec![made, row_of_waits(&waits)];
    rows.extend(measure_publication(context, count).await?);
    rows.extend(started_with(context, rss, count).await?);
    rows.push(end(context, rss, count).await?);
    Ok(rows)
}

fn kib_since(context: &Context, rss: u64) -> f64 {
    (context.server.rss_bytes() as f64 - rss as f64) / 1024.0
}

/// Creates the definitions one after another, and compares the cost of the first ones with that of the last ones.
async fn install(context: &Context, count: usize) -> Result<Row, BenchError> {
    let (cpu, began) = (context.server.cpu(), Instant::now());
    let (mut all, mut first, mut last) = (Latencies::default(), Latencies::default(), Latencies::default());
    let compared = COMPARED.min(count / 2);
    let (mut after_first, mut before_last) = (cpu.clone(), cpu.clone());
    for at in 0..count {
        if at + compared == count {
            before_last = context.server.cpu();
        }
        let took = establish(context, at).await?;
        all.add(took);
        if at < compared {
            first.add(took);
        }
        if at + 1 == compared {
            after_first = context.server.cpu();
        }
        if at + compared >= count {
            last.add(took);
        }
    }
    let end = context.server.cpu();
    let us_each = |from: &CpuTime, to: &CpuTime, ops: usize| to.seconds_since(from) * 1e6 / ops.max(1) as f64;
    let mut row = Row { name: "crds".to_owned(), clients: 1, ops: count as u64, numbers: Vec::new() };
    row.numbers.push(("ops_per_s", count as f64 / began.elapsed().as_secs_f64()));
    row.numbers.push(("p50_ms", all.quantile_ms(0.5)));
    row.numbers.push(("p99_ms", all.quantile_ms(0.99)));
    row.numbers.push(("first_p50_ms", first.quantile_ms(0.5)));
    row.numbers.push(("last_p50_ms", last.quantile_ms(0.5)));
    row.numbers.push(("cpu_us_per_op", us_each(&cpu, &end, count)));
    row.numbers.push(("first_cpu_us", us_each(&cpu, &after_first, compared)));
    row.numbers.push(("last_cpu_us", us_each(&before_last, &end, compared)));
    Ok(row)
}

/// The latencies of reads of another group while definitions are created.
type Waits = Arc<Mutex<Latencies>>;

async fn read_other_group(client: Client, waits: Waits) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let began = Instant::now();
        if client.get("/api/v1/namespaces/default").await.is_ok() {
            waits.lock().unwrap_or_else(PoisonError::into_inner).add(began.elapsed());
        }
    }
}

fn row_of_waits(waits: &Waits) -> Row {
    let mut waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
    let mut row = Row::single("crds, get meanwhile", "p50_ms", waits.quantile_ms(0.5));
    row.numbers.push(("p99_ms", waits.quantile_ms(0.99)));
    row.ops = waits.0.len() as u64;
    row
}

/// The time until one more definition is in each document, and its cost for the server.
async fn measure_publication(context: &Context, count: usize) -> Result<Vec<Row>, BenchError> {
    let (group, plural) = (group(count), plural(count));
    let documents = [
        ("crds, old discovery", format!("/apis/{group}/v1"), JSON, IDENTITY),
        ("crds, discovery", "/apis".to_owned(), AGGREGATED, IDENTITY),
        ("crds, openapi v3", format!("/openapi/v3/apis/{group}/v1"), JSON, IDENTITY),
        ("crds, openapi v3 index", "/openapi/v3".to_owned(), JSON, IDENTITY),
        ("crds, openapi v2", "/openapi/v2".to_owned(), JSON, IDENTITY),
        ("crds, openapi v2 protobuf", "/openapi/v2".to_owned(), V2_PROTOBUF, IDENTITY),
        // The form that kubectl requests.
        ("crds, openapi v2 gzip", "/openapi/v2".to_owned(), V2_PROTOBUF, "gzip"),
    ];
    let requests = documents.map(|(title, path, accept, encoding)| {
        let request = Request::new("GET", &path).header("accept", accept);
        (title, request.header("accept-encoding", encoding))
    });
    // The first request renders everything; the interesting cost is that of one more definition.
    let mut firsts = Vec::new();
    for (_, request) in &requests {
        let began = Instant::now();
        context.client.send(request).await?;
        firsts.push(began.elapsed());
    }
    establish(context, count).await?;
    let mut rows = Vec::new();
    for ((title, request), first) in requests.iter().zip(firsts) {
        let (cpu, began) = (context.server.cpu(), Instant::now());
        let answer = context.client.send(request).await?;
        let (took, spent) = (began.elapsed(), context.server.cpu().seconds_since(&cpu));
        let shows = |text: &str| answer.body.windows(text.len()).any(|window| window == text.as_bytes());
        let packed = answer.head.get("content-encoding") == Some("gzip");
        let shown = packed || shows(&plural) || (request.path.ends_with("/v3") && shows(&group));
        if answer.status() != 200 || !shown {
            return Err(BenchError::Unexpected(format!("{} does not have {plural}", request.path)));
        }
        let mut row = Row::single(title, "ms", took.as_secs_f64() * 1e3);
        row.numbers.push(("cpu_ms", spent * 1e3));
        row.numbers.push(("first_ms", first.as_secs_f64() * 1e3));
        row.numbers.push(("kib", answer.body.len() as f64 / 1024.0));
        rows.push(row);
    }
    Ok(rows)
}

/// Restarts the server with all definitions, if this bench may start it and its data is durable.
async fn started_with(context: &Context, rss: u64, count: usize) -> Result<Option<Row>, BenchError> {
    let Some(took) = context.restart().await? else { return Ok(None) };
    let last = count.saturating_sub(1);
    if !is_served(context, last).await? {
        return Err(BenchError::Unexpected(
            "the server forgot the definitions when it was started anew".to_owned(),
        ));
    }
    tokio::time::sleep(SETTLE).await;
    let mut row = Row::single("crds, start", "ready_ms", took.as_secs_f64() * 1e3);
    let spent = context.server.cpu().seconds_since(&CpuTime::default());
    row.numbers.push(("cpu_ms", spent * 1e3));
    row.numbers.push(("kib_per_definition", kib_since(context, rss) / count as f64));
    Ok(Some(row))
}

/// Deletes all definitions with one client, like `kubectl delete --all`.
async fn end(context: &Context, rss: u64, count: usize) -> Result<Row, BenchError> {
    let (cpu, began) = (context.server.cpu(), Instant::now());
    for at in 0..=count {
        context.client.delete(&format!("{PATH}/{}", name(at))).await?;
    }
    while is_served(context, count).await? && began.elapsed() < ESTABLISHED_MAX {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let removed = (count + 1) as f64;
    let mut row = Row::single("crds, deleted", "ops_per_s", removed / began.elapsed().as_secs_f64());
    row.numbers.push(("cpu_us_per_op", context.server.cpu().seconds_since(&cpu) * 1e6 / removed));
    tokio::time::sleep(SETTLE).await;
    row.numbers.push(("kib_left_per_definition", kib_since(context, rss) / removed));
    Ok(row)
}

/// Creates a definition and waits until its objects can be listed.
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

async fn is_served(context: &Context, at: usize) -> Result<bool, BenchError> {
    let request = Request::new("GET", &format!("/apis/{}/v1/{}", group(at), plural(at)));
    Ok(context.client.send(&request).await?.status() == 200)
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
