//! The benches, one entry each. A new bench is a function and a line of the table.

mod cluster;
mod custom;
mod definitions;
mod large;
mod overload;
mod proxied;
mod read;
mod resources;
mod watch;
mod write;

use std::pin::Pin;
use std::time::Duration;

use pintle_testkit::{Client, Request};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};

use crate::args::Arguments;
use crate::error::BenchError;
use crate::load::{Load, Until};
use crate::process::Processes;
use crate::row::Row;
use crate::start::{Started, start_once};

/// The number of clients that fill a namespace.
const FILLING_CLIENTS: usize = 32;
/// The number of objects in the lists.
pub(crate) const LISTED_OBJECTS: u64 = 10_000;

type Running<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, BenchError>> + Send + 'a>>;

/// A bench: its name on the command line, a description, and the function that measures.
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) run: for<'a> fn(&'a Context) -> Running<'a>,
}

macro_rules! bench {
    ($name:literal, $what:literal, $run:path) => {
        Bench { name: $name, what: $what, run: |context| Box::pin($run(context)) }
    };
}

/// All benches, in the order they run: those that need an empty server first, the one that fills it last.
pub(crate) const BENCHES: &[Bench] = &[
    bench!("idle", "memory and CPU of a server nobody asks", resources::measure_idle),
    bench!("get", "GET of a 1 KB ConfigMap, 1 and 32 clients", read::measure_get),
    bench!("create", "durable POST of a 1 KB ConfigMap, 1 and 32 clients", write::create),
    bench!("update", "durable PUT of a 1 KB ConfigMap, 1 and 32 clients", write::update),
    bench!("patch", "durable merge PATCH of a 1 KB ConfigMap, 1 and 32 clients", write::patch),
    bench!("apply", "durable server-side apply of a 1 KB ConfigMap, 1 and 32 clients", write::apply),
    bench!("create-deployment", "durable POST of a Deployment, 1 and 32 clients", write::create_deployment),
    bench!(
        "patch-deployment",
        "durable merge PATCH of a Deployment, 1 and 32 clients",
        write::patch_deployment
    ),
    bench!(
        "apply-deployment",
        "durable server-side apply of a Deployment, 1 and 32 clients",
        write::apply_deployment
    ),
    bench!(
        "large",
        "apply and update of a custom resource of 700 KB with 5,000 owned list items",
        large::measure_custom_resource
    ),
    bench!("large-deployment", "the same of a Deployment", large::measure_deployment),
    bench!(
        "create-rules",
        "durable POST of a custom resource with ten CEL rules, 1 and 32 clients",
        custom::create
    ),
    bench!("list", "list of 10,000 ConfigMaps in one answer", read::list),
    bench!("list-chunks", "the same in pages of 500", read::list_chunks),
    bench!("list-table", "the same as a Table", read::list_table),
    bench!("list-metadata", "the same, metadata only", read::list_metadata),
    bench!("list-protobuf", "the same in protobuf", read::list_protobuf),
    bench!("watch", "updates, one at a time, seen by 1,000 watchers", watch::fan_out),
    bench!("watch-one", "updates of one client, as fast as it can, seen by 1,000 watchers", watch::one),
    bench!("watch-busy", "updates of 8 clients seen by 1,000 watchers", watch::busy),
    bench!(
        "crds",
        "2,000 definitions: until established, memory, discovery, OpenAPI, a start with them, their end",
        definitions::create_many
    ),
    bench!(
        "cluster",
        "kubelets, controllers and a scheduler of --nodes nodes; latency from when it was due",
        cluster::run
    ),
    bench!(
        "overload-get",
        "a quiet tenant, health checks and exempt traffic beside 2,000 connections of a tenant that gets",
        overload::get
    ),
    bench!("overload-create", "the same beside a tenant that creates ConfigMaps", overload::create),
    bench!("overload-list", "the same beside a tenant that lists 10,000 ConfigMaps", overload::list),
    bench!("overload-mixed", "the same beside a tenant that does all of that", overload::mixed),
    bench!(
        "aggregated",
        "GET of a 1 KB object of an extension server, 1 and 32 clients",
        proxied::aggregated
    ),
    bench!(
        "proxied",
        "GET of 1 KB through nodes/proxy, and with --pod-address pods/proxy and services/proxy, 1 and 32 clients",
        proxied::small
    ),
    bench!("log", "a log of 1 GiB from a kubelet", proxied::log),
    bench!("idle-streams", "memory of 1,000 idle exec and portforward streams", proxied::idle_streams),
    bench!("idle-watches", "memory of connections with idle watches", resources::idle_watches),
    bench!("memory", "memory per object at --objects ConfigMaps of 1 KB", resources::measure_memory),
];

/// The state that benches share: the server, its processes, and their namespaces.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) server: Processes,
    pub(crate) arguments: Arguments,
    /// The server, if the bench started it.
    started: Mutex<Option<Started>>,
    prefix: String,
    listed: OnceCell<String>,
}

impl Context {
    pub(crate) fn new(
        client: Client,
        server: Processes,
        arguments: Arguments,
        started: Option<Started>,
    ) -> Context {
        let prefix = format!("bench-{}", std::process::id());
        let started = Mutex::new(started);
        Context { client, server, arguments, started, prefix, listed: OnceCell::new() }
    }

    /// Restarts the server with all its data and returns how long that took; `None` if this program did not start it.
    pub(crate) async fn restart(&self) -> Result<Option<Duration>, BenchError> {
        let mut started = self.started.lock().await;
        let (Some(command), Some(mut old)) = (&self.arguments.start, started.take()) else { return Ok(None) };
        old.stop().map_err(|e| BenchError::File(command.clone(), e))?;
        let (new, took) = start_once(command, &self.client).await?;
        self.server.replace(old.pid(), new.pid());
        *started = Some(new);
        Ok(Some(took))
    }

    /// Makes a namespace for a bench.
    pub(crate) async fn namespace(&self, purpose: &str) -> Result<String, BenchError> {
        let name = format!("{}-{purpose}", self.prefix);
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let request = Request::new("POST", "/api/v1/namespaces").json(&body);
        let answer = self.client.send(&request).await?;
        match answer.status() {
            201 | 409 => Ok(name),
            status => Err(BenchError::Status {
                method: request.method,
                path: request.path,
                status,
                body: answer.text(),
            }),
        }
    }

    /// Creates an object and returns it.
    pub(crate) async fn make(&self, path: &str, body: Value) -> Result<Value, BenchError> {
        let (status, answer) = self.client.post(path, &body).await?;
        if status == 201 {
            return Ok(answer);
        }
        let (method, path) = ("POST".to_owned(), path.to_owned());
        Err(BenchError::Status { method, path, status, body: answer.to_string() })
    }

    /// Removes a namespace with ConfigMaps.
    pub(crate) async fn remove_namespace(&self, name: &str) -> Result<(), BenchError> {
        self.remove_namespace_of(name, &config_maps(name)).await
    }

    /// Removes a namespace after the objects of its collection. A server that removes the content of namespaces itself would
    /// otherwise do that during the next bench, whose numbers would contain it.
    pub(crate) async fn remove_namespace_of(&self, name: &str, collection: &str) -> Result<(), BenchError> {
        self.client.delete(collection).await?;
        self.client.delete(&format!("/api/v1/namespaces/{name}")).await?;
        Ok(())
    }

    /// The namespace with the objects to list, created on first use.
    pub(crate) async fn listed_namespace(&self) -> Result<&str, BenchError> {
        let make = || async {
            let namespace = self.namespace("list").await?;
            self.fill(&namespace, LISTED_OBJECTS).await?;
            Ok::<_, BenchError>(namespace)
        };
        Ok(self.listed.get_or_try_init(make).await?)
    }

    /// Removes the objects that the benches shared.
    pub(crate) async fn clean_up(&self) -> Result<(), BenchError> {
        match self.listed.get() {
            Some(namespace) => self.remove_namespace(namespace).await,
            None => Ok(()),
        }
    }

    /// Creates that many ConfigMaps of 1 KB.
    pub(crate) async fn fill(&self, namespace: &str, objects: u64) -> Result<Row, BenchError> {
        let path = config_maps(namespace);
        let load = self.load("fill", FILLING_CLIENTS, Until::Operations(objects));
        load.run(move |n| Request::new("POST", &path).json(&config_map(&format!("cm-{n:06}"), n))).await
    }

    /// A load on this server.
    pub(crate) fn load<'a>(&'a self, name: &'a str, clients: usize, until: Until) -> Load<'a> {
        Load { name, client: &self.client, clients, until, server: &self.server }
    }

    /// How long a load lasts.
    pub(crate) fn elapsed(&self) -> Until {
        Until::Elapsed(self.arguments.duration)
    }
}

/// The path of a namespace's ConfigMaps.
pub(crate) fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// A ConfigMap of about 1 KB.
pub(crate) fn config_map(name: &str, revision: u64) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "data": {"revision": revision.to_string(), "payload": "0123456789abcdef".repeat(53)},
    })
}
