//! A dry run has the same answer as the real request that follows it, and changes nothing: random sequences of creates,
//! replaces, patches and applies by several managers.

use pintle_testkit::{Client, Request, Server};
use serde_json::{Value, json};

const MANAGERS: [&str; 3] = ["red", "green", "blue"];
const STORIES: u64 = 6;
const STEPS: usize = 60;
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A small seeded random generator, so that a sequence can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }

    fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// An object with some fields set, some of them invalid.
fn deployment(dice: &mut Dice, name: &str) -> Value {
    let mut containers = Vec::new();
    for container in ["a", "b", "c"] {
        if dice.below(3) == 0 {
            continue;
        }
        let mut one = json!({"name": container, "image": format!("image:{}", dice.below(3))});
        if dice.below(2) == 0 {
            one["env"] = json!([{"name": "E", "value": dice.below(3).to_string()}]);
        }
        if dice.below(3) == 0 {
            one["ports"] = json!([{"containerPort": 80 + dice.below(2)}]);
        }
        containers.push(one);
    }
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}},
    });
    if dice.below(2) == 0 {
        spec["replicas"] = json!(i64::try_from(dice.below(4)).unwrap() - i64::from(dice.below(9) == 0));
    }
    let mut labels = json!({});
    for label in ["l", "m"] {
        if dice.below(2) == 0 {
            labels[label] = json!(dice.below(3).to_string());
        }
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    })
}

/// Method, query, media type and body of a random write.
fn write(dice: &mut Dice, name: &str) -> (&'static str, String, &'static str, Value) {
    let query = format!("fieldManager={}", dice.of(&MANAGERS));
    let object = deployment(dice, name);
    match dice.below(8) {
        0 => ("POST", query, "application/json", object),
        1 => ("PUT", query, "application/json", object),
        2 => ("PATCH", query, MERGE, json!({"spec": {"replicas": dice.below(3)}})),
        3 => ("PATCH", query, STRATEGIC, json!({"spec": {"template": object["spec"]["template"]}})),
        4 => ("PATCH", format!("{query}&force=true"), APPLY, object),
        _ => ("PATCH", query, APPLY, object),
    }
}

/// Removes what may differ between two answers: times (and with them the order of managed fields, if a second passes
/// between both), and values that are generated for each object.
fn comparable(mut answer: Value, is_new: bool) -> Value {
    if let Some(metadata) = answer["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        if is_new {
            metadata.remove("uid");
            metadata.remove("creationTimestamp");
        }
    }
    if let Some(entries) = answer["metadata"]["managedFields"].as_array_mut() {
        entries.iter_mut().for_each(|entry| entry["time"] = Value::Null);
        entries.sort_by_key(|entry| (entry["manager"].to_string(), entry["operation"].to_string()));
    }
    answer
}

async fn send(client: &Client, write: &(&str, String, &str, Value), name: &str, dry: bool) -> (u16, Value) {
    let (method, query, media, body) = write;
    let base = "/apis/apps/v1/namespaces/default/deployments";
    let path = if *method == "POST" { base.to_owned() } else { format!("{base}/{name}") };
    let dry = if dry { "&dryRun=All" } else { "" };
    let request = Request::new(method, &format!("{path}?{query}{dry}"));
    client.send_json(&request.body(media, body.to_string())).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dry_runs_say_what_happens() {
    let server = Server::start_ephemeral().await.unwrap();
    let client = server.admin().unwrap();
    let mut outcomes = std::collections::BTreeMap::new();
    for story in 0..STORIES {
        let (mut dice, name) = (Dice(story + 1), format!("story-{story}"));
        let path = format!("/apis/apps/v1/namespaces/default/deployments/{name}");
        for step in 0..STEPS {
            let write = write(&mut dice, &name);
            let before = client.get(&path).await.unwrap();
            let tried = send(&client, &write, &name, true).await;
            assert_eq!(client.get(&path).await.unwrap(), before, "story {story}, step {step}: {write:?}");
            let done = send(&client, &write, &name, false).await;
            let is_new = done.0 == 201;
            *outcomes.entry((write.0, done.0)).or_insert(0) += 1;
            assert_eq!(
                (tried.0, comparable(tried.1, is_new)),
                (done.0, comparable(done.1, is_new)),
                "story {story}, step {step}: {write:?}"
            );
            if dice.below(15) == 0 {
                client.delete(&path).await.unwrap();
            }
        }
    }
    // All outcomes must have occurred.
    for outcome in [
        ("POST", 201),
        ("POST", 409),
        ("PUT", 200),
        ("PATCH", 200),
        ("PATCH", 201),
        ("PATCH", 409),
        ("PATCH", 422),
    ] {
        assert!(outcomes.contains_key(&outcome), "{outcome:?} is not among {outcomes:?}");
    }
}
