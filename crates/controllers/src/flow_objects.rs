//! Maintains kube-apiserver's default FlowSchemas and PriorityLevelConfigurations. Mandatory ones are always restored;
//! suggested ones unless an annotation or an edit prevents it.

use pintle_engine::decode::Media;
use pintle_engine::{Body, Change, Engine, Target, WriteRequest};
use pintle_meta::options::{DeleteOptions, FieldValidation};
use pintle_meta::{Status, strconv};
use pintle_value::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const PLURALS: [(&str, &str); 2] =
    [("FlowSchema", "flowschemas"), ("PriorityLevelConfiguration", "prioritylevelconfigurations")];
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];
/// The annotation that controls whether the server may update the spec: `true` or `false`.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
const MANAGER: &str = "api-priority-and-fairness-config-producer-v1";
/// How often the objects are reconciled; kube-apiserver's interval.
const EVERY: Duration = Duration::from_secs(60);

/// Reconciles the objects now and every minute, until the cache shuts down. `objects` are the defaults.
pub(crate) async fn run(engine: Arc<Engine>, objects: Vec<Value>) {
    loop {
        if let Err(status) = ensure(&engine, &objects).await {
            tracing::warn!(error = %status.message, "the objects of priority and fairness could not be restored");
        }
        if engine.storage().cache().closed_within(EVERY).await {
            return;
        }
    }
}

/// Creates missing objects, restores changed ones, and removes defaults of older servers that no longer exist.
async fn ensure(engine: &Engine, objects: &[Value]) -> Result<(), Status> {
    for object in objects {
        let kind = object.str_at(&["kind"]);
        let name = object.str_at(&["metadata", "name"]);
        let Some((_, plural)) = PLURALS.iter().find(|(known, _)| *known == kind) else { continue };
        let Some(target) = engine.storage().target(GROUP, "v1", plural, "", name) else { continue };
        match engine.reader().object_tree(&target)? {
            None => engine.writer().ensure(&target, MANAGER, object.clone()).await?,
            Some(live) => {
                if let Some(revised) = revised(&target, object, &live) {
                    update(engine, &target, &revised).await?;
                }
            }
        }
    }
    for (kind, plural) in PLURALS {
        remove_unwanted(engine, objects, kind, plural).await?;
    }
    Ok(())
}

/// Returns the live object in its desired state; `None` if it is in that state.
fn revised(target: &Target, wanted: &Value, live: &Value) -> Option<Value> {
    let is_mandatory = MANDATORY.contains(&wanted.str_at(&["metadata", "name"]));
    let annotation = auto_update(live);
    let generation = live.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
    // Without the annotation, the spec is updated if it was never changed by a user.
    let updates = is_mandatory || annotation.unwrap_or(generation == 1);
    let spec = wanted_spec(target, wanted, live);
    let changes = updates && live.get("spec") != Some(&spec);
    if annotation == Some(updates) && !changes {
        return None;
    }
    let mut revised = live.clone();
    if changes {
        revised.set_at(&["spec"], spec);
    }
    revised.set_at(&["metadata", "annotations", AUTO_UPDATE], if updates { "true" } else { "false" }.into());
    Some(revised)
}

/// The desired spec. How many seats the exempt level lends is up to the administrator.
fn wanted_spec(target: &Target, wanted: &Value, live: &Value) -> Value {
    let mut wanted = wanted.clone();
    target.kind_version().apply_defaults(&mut wanted);
    if let Some(exempt) = live.at(&["spec", "exempt"])
        && wanted.at(&["spec", "exempt"]).is_some()
    {
        wanted.set_at(&["spec", "exempt"], exempt.clone());
    }
    wanted.get("spec").cloned().unwrap_or_default()
}

fn auto_update(object: &Value) -> Option<bool> {
    strconv::parse_bool(object.str_at(&["metadata", "annotations", AUTO_UPDATE]))
}

async fn update(engine: &Engine, target: &Target, revised: &Value) -> Result<(), Status> {
    let bytes = json::bytes(revised);
    let request = WriteRequest {
        target: target.clone(),
        change: Change::Replace(Body { bytes: bytes.into(), media: Media::Json }),
        dry_run: false,
        field_manager: MANAGER.into(),
        user_agent: String::new(),
        validation: Some(FieldValidation::Ignore),
        user: engine.storage().system_user(),
    };
    match engine.writer().write(&request).await {
        // Another server was faster; the next reconciliation checks again.
        Err(status) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}

async fn remove_unwanted(engine: &Engine, objects: &[Value], kind: &str, plural: &str) -> Result<(), Status> {
    let Some(target) = engine.storage().target(GROUP, "v1", plural, "", "") else { return Ok(()) };
    let Some(resource) = engine.storage().cache().resource(&target.kind.store_prefix) else { return Ok(()) };
    let is_wanted = |name: &str| {
        objects.iter().any(|o| o.str_at(&["kind"]) == kind && o.str_at(&["metadata", "name"]) == name)
    };
    for object in resource.view().iter().filter(|object| !is_wanted(object.name())) {
        let target = target.named(object.name());
        if engine.reader().object_tree(&target)?.is_some_and(|live| auto_update(&live) == Some(true)) {
            let user = engine.storage().system_user();
            match engine.writer().delete(&target, &DeleteOptions::default(), &user, &mut Vec::new()).await {
                Err(status) if status.code != 404 => return Err(status),
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(annotation: &str, generation: i64, precedence: i64) -> Value {
        let mut object = Value::object();
        object.set_at(&["metadata", "name"], "probes".into());
        object.set_at(&["metadata", "generation"], Value::Int(generation));
        if !annotation.is_empty() {
            object.set_at(&["metadata", "annotations", AUTO_UPDATE], annotation.into());
        }
        object.set_at(&["spec", "matchingPrecedence"], Value::Int(precedence));
        object
    }

    #[test]
    fn flow_objects_are_restored_if_the_server_manages_them() {
        let kinds = pintle_kinds::builtin().kinds;
        let kind = kinds.into_iter().find(|kind| kind.plural == "flowschemas").unwrap();
        let target = Target {
            kind: Arc::new(kind),
            version: 0,
            namespace: "".into(),
            name: "probes".into(),
            subresource: Default::default(),
        };
        let wanted = object("true", 1, 2);
        for (annotation, generation, precedence, want) in [
            ("true", 1, 2, None),
            ("true", 2, 3, Some((2, "true"))),
            ("false", 2, 3, None),
            ("", 1, 2, Some((2, "true"))),
            ("", 1, 3, Some((2, "true"))),
            ("", 2, 3, Some((3, "false"))),
            ("perhaps", 2, 3, Some((3, "false"))),
            ("0", 2, 3, None),
        ] {
            let revised = revised(&target, &wanted, &object(annotation, generation, precedence));
            let got = revised.as_ref().map(|revised| {
                let precedence = revised.at(&["spec", "matchingPrecedence"]).and_then(Value::as_int).unwrap();
                (precedence, revised.str_at(&["metadata", "annotations", AUTO_UPDATE]))
            });
            assert_eq!(got, want, "{annotation} {generation} {precedence}");
        }
    }
}
