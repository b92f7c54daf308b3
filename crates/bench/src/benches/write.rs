//! Writes: create, update, patch, apply, each with one client and with many, of a ConfigMap and of a Deployment.

use pintle_testkit::Request;
use serde_json::{Value, json};

use super::{Context, config_map, config_maps};
use crate::error::BenchError;
use crate::load::Until;
use crate::row::Row;

const CLIENTS: [usize; 2] = [1, 32];
/// The number of clients that create the objects.
const FILLING_CLIENTS: usize = 32;
/// The number of objects that are updated in turn; many more than clients, so that conflicts are rare.
const UPDATED_OBJECTS: u64 = 1024;

/// The kind of object that a bench writes.
#[derive(Clone, Copy)]
pub(super) struct Subject {
    /// The suffix of the bench's name.
    pub(super) suffix: &'static str,
    pub(super) collection: fn(namespace: &str) -> String,
    /// The object with this name; another number makes another object.
    pub(super) object: fn(name: &str, n: u64) -> Value,
    /// A merge patch that changes something.
    pub(super) patch: fn(n: u64) -> Value,
}

const CONFIG_MAP: Subject = Subject {
    suffix: "",
    collection: config_maps,
    object: config_map,
    patch: |n| json!({"data": {"revision": n.to_string()}}),
};

const DEPLOYMENT: Subject = Subject {
    suffix: "-deployment",
    collection: |namespace| format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
    object: deployment,
    patch: |n| json!({"spec": {"template": {"metadata": {"annotations": {"revision": n.to_string()}}}}}),
};

/// The Deployment of an ordinary web server.
fn deployment(name: &str, n: u64) -> Value {
    let labels = json!({"app": "web", "tier": "frontend"});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": {"revision": n.to_string()}},
                "spec": {
                    "containers": [{
                        "name": "web",
                        "image": "registry.example/web:1.2.3",
                        "args": ["--port=8080", "--log-level=info"],
                        "ports": [{"name": "http", "containerPort": 8080}],
                        "env": [
                            {"name": "MODE", "value": "production"},
                            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                        ],
                        "resources": {
                            "requests": {"cpu": "100m", "memory": "128Mi"},
                            "limits": {"cpu": "1", "memory": "256Mi"},
                        },
                        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
                        "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}, "periodSeconds": 20},
                        "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}],
                    }],
                    "volumes": [{"name": "config", "configMap": {"name": "web"}}],
                },
            },
        },
    })
}

pub(super) async fn create(context: &Context) -> Result<Vec<Row>, BenchError> {
    create_of(context, CONFIG_MAP).await
}

pub(super) async fn update(context: &Context) -> Result<Vec<Row>, BenchError> {
    change(context, "update", CONFIG_MAP, replace).await
}

pub(super) async fn patch(context: &Context) -> Result<Vec<Row>, BenchError> {
    change(context, "patch", CONFIG_MAP, merge).await
}

pub(super) async fn apply(context: &Context) -> Result<Vec<Row>, BenchError> {
    change(context, "apply", CONFIG_MAP, force).await
}

pub(super) async fn create_deployment(context: &Context) -> Result<Vec<Row>, BenchError> {
    create_of(context, DEPLOYMENT).await
}

pub(super) async fn patch_deployment(context: &Context) -> Result<Vec<Row>, BenchError> {
    change(context, "patch", DEPLOYMENT, merge).await
}

pub(super) async fn apply_deployment(context: &Context) -> Result<Vec<Row>, BenchError> {
    change(context, "apply", DEPLOYMENT, force).await
}

pub(super) async fn create_of(context: &Context, subject: Subject) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for clients in CLIENTS {
        let name = format!("create{}", subject.suffix);
        let namespace = context.namespace(&format!("{name}-{clients}")).await?;
        let path = (subject.collection)(&namespace);
        let load = context.load(&name, clients, context.elapsed());
        let into = path.clone();
        let make = move |n| Request::new("POST", &into).json(&(subject.object)(&format!("o-{n}"), n));
        rows.push(load.run(make).await?);
        context.remove_namespace_of(&namespace, &path).await?;
    }
    Ok(rows)
}

type Make = fn(subject: &Subject, path: &str, name: &str, n: u64) -> Request;

fn replace(subject: &Subject, path: &str, name: &str, n: u64) -> Request {
    Request::new("PUT", path).json(&(subject.object)(name, n))
}

fn merge(subject: &Subject, path: &str, _name: &str, n: u64) -> Request {
    Request::new("PATCH", path).body("application/merge-patch+json", (subject.patch)(n).to_string())
}

fn force(subject: &Subject, path: &str, name: &str, n: u64) -> Request {
    let path = format!("{path}?fieldManager=bench&force=true");
    Request::new("PATCH", &path).body("application/apply-patch+yaml", (subject.object)(name, n).to_string())
}

/// Changes existing objects in turn; every operation writes something new.
async fn change(context: &Context, verb: &str, subject: Subject, make: Make) -> Result<Vec<Row>, BenchError> {
    let bench = format!("{verb}{}", subject.suffix);
    let namespace = context.namespace(&bench).await?;
    let path = (subject.collection)(&namespace);
    let fill = context.load("fill", FILLING_CLIENTS, Until::Operations(UPDATED_OBJECTS));
    let into = path.clone();
    fill.run(move |n| Request::new("POST", &into).json(&(subject.object)(&name(n), n))).await?;
    let mut rows = Vec::new();
    for clients in CLIENTS {
        let path = path.clone();
        let load = context.load(&bench, clients, context.elapsed());
        // Each load uses higher numbers than the previous one; otherwise its first writes would change nothing.
        let base = UPDATED_OBJECTS * (clients as u64 + 1) * 1_000_000;
        let op = move |n| make(&subject, &format!("{path}/{}", name(n)), &name(n), base + n);
        rows.push(load.run(op).await?);
    }
    context.remove_namespace_of(&namespace, &path).await?;
    Ok(rows)
}

/// The name of the object that the operation with this number writes.
fn name(n: u64) -> String {
    format!("o-{:06}", n % UPDATED_OBJECTS)
}
