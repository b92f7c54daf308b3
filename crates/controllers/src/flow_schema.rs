//! Maintains the condition `Dangling` of FlowSchemas: whether their priority level exists. kube-apiserver does this in
//! process as well.

use pintle_cache::{CloseReason, Item};
use pintle_engine::Engine;
use pintle_meta::Status;
use pintle_value::{Str, Value};
use std::sync::Arc;
use tokio::task::JoinSet;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const SCHEMAS: &str = "/registry/flowschemas/";
const LEVELS: &str = "/registry/prioritylevelconfigurations/";
/// The field manager of kube-apiserver's own status updates.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// Runs until the cache shuts down.
pub(crate) async fn run(engine: Arc<Engine>) {
    let mut watcher = engine.storage().cache().watch_resources(&[SCHEMAS, LEVELS]);
    update_all_statuses(&engine).await;
    while let Some(item) = watcher.next().await {
        match item {
            Item::Event(delivery) => match delivery.source().map(|event| &**event.resource()) {
                Some(SCHEMAS) => report(update_status(&engine, delivery.object().name()).await),
                Some(LEVELS) => update_all_statuses(&engine).await,
                _ => {}
            },
            Item::Closed(CloseReason::Slow) => {
                watcher = engine.storage().cache().watch_resources(&[SCHEMAS, LEVELS]);
                update_all_statuses(&engine).await;
            }
            Item::Closed(_) => return,
            Item::InitialEventsEnd(_) | Item::Bookmark(_) => {}
        }
    }
}

fn report(result: Result<(), Status>) {
    if let Err(status) = result {
        tracing::warn!(error = %status.message, "the status of a FlowSchema could not be set");
    }
}

/// Run all updates concurrently, so that the store syncs them together.
async fn update_all_statuses(engine: &Arc<Engine>) {
    let Some(resource) = engine.storage().cache().resource(SCHEMAS) else { return };
    let names: Vec<Str> = resource.view().iter().map(|schema| Str::from(schema.name())).collect();
    let mut tasks = JoinSet::new();
    for name in names {
        let engine = engine.clone();
        tasks.spawn(async move { update_status(&engine, &name).await });
    }
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok(result) => report(result),
            // The server ends.
            Err(error) if error.is_cancelled() => return,
            Err(error) => report(Err(Status::internal(&error.to_string()))),
        }
    }
}

/// Applies the condition if it differs.
async fn update_status(engine: &Engine, name: &str) -> Result<(), Status> {
    let Some(target) = engine.storage().target(GROUP, "v1", "flowschemas", "", name) else { return Ok(()) };
    let Some(schema) = engine.reader().object_tree(&target)? else { return Ok(()) };
    let level = schema.str_at(&["spec", "priorityLevelConfiguration", "name"]);
    let Some(level_target) = engine.storage().target(GROUP, "v1", "prioritylevelconfigurations", "", level)
    else {
        return Ok(());
    };
    let wanted = condition(level, engine.reader().object_tree(&level_target)?.is_some());
    let known = schema.items_at(&["status", "conditions"]).iter().find(|c| c.str_at(&["type"]) == "Dangling");
    let same = |known: &Value| wanted.iter().all(|(key, text)| known.str_at(&[key]) == text);
    if known.is_some_and(same) {
        return Ok(());
    }
    let status = new_status(&wanted, &engine.storage().now_text());
    engine.writer().apply_status(&target, MANAGER, status).await
}

/// The condition's fields, without its time.
fn condition(level: &str, found: bool) -> [(&'static str, String); 4] {
    let refers = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, message) = if found {
        ("False", "Found", format!("{refers} and it exists"))
    } else {
        ("True", "NotFound", format!("{refers} but there is no such object"))
    };
    [("type", "Dangling".into()), ("status", status.into()), ("reason", reason.into()), ("message", message)]
}

fn new_status(wanted: &[(&str, String)], now: &str) -> Value {
    let mut condition = Value::object();
    for (key, text) in wanted {
        condition.set_at(&[key], text.as_str().into());
    }
    condition.set_at(&["lastTransitionTime"], now.into());
    let mut status = Value::object();
    status.set_at(&["conditions"], Value::Array(vec![condition]));
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dangling_condition_follows_the_priority_level() {
        for (found, status, message) in [
            (true, "False", r#"object named "low" and it exists"#),
            (false, "True", r#"object named "low" but there is no such object"#),
        ] {
            let [_, (_, is), _, (_, says)] = condition("low", found);
            assert_eq!(is, status);
            assert!(says.ends_with(message), "{says}");
        }
    }
}
