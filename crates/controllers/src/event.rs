//! Deletes events some time after their last write; otherwise they would fill the store.

use pintle_cache::Object;
use pintle_engine::{Engine, Target};
use pintle_meta::Timestamp;
use pintle_value::json;
use std::sync::Arc;
use std::time::Duration;

const EVENTS: &str = "/registry/events/";
/// Events are deleted within this fraction of their lifetime after expiry; the checks run at intervals between
/// `PAUSE_MIN` and `PAUSE_MAX`.
const SLACK: u32 = 20;
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(5 * 60);

/// Runs as long as the server.
pub(crate) async fn run(engine: Arc<Engine>, life: Duration) {
    loop {
        tokio::time::sleep(life.checked_div(SLACK).unwrap_or(PAUSE_MAX).clamp(PAUSE_MIN, PAUSE_MAX)).await;
        forget_old(&engine, life).await;
    }
}

async fn forget_old(engine: &Engine, life: Duration) {
    let Some(events) = engine.storage().cache().resource(EVENTS) else { return };
    let (now, _) = engine.storage().clock().now();
    let oldest = now.saturating_sub(i64::try_from(life.as_secs()).unwrap_or(i64::MAX));
    for object in events.view().iter().filter(|object| last_written(object).is_some_and(|at| at < oldest)) {
        let Some(target) = target_of(engine, object) else { return };
        if let Err(status) = engine.writer().forget(&target, object.revision()).await {
            return tracing::warn!(error = %status.message, "old events stay for now");
        }
    }
}

fn target_of(engine: &Engine, object: &Object) -> Option<Target> {
    engine.storage().target("", "v1", "events", object.namespace().unwrap_or_default(), object.name())
}

/// The time of an event's last write, from its managedFields.
fn last_written(object: &Object) -> Option<i64> {
    let event = json::parse(object.json()).ok()?.value;
    let owned = event.items_at(&["metadata", "managedFields"]).iter().map(|entry| entry.str_at(&["time"]));
    let texts = owned.chain([event.str_at(&["metadata", "creationTimestamp"])]);
    texts.filter_map(|text| Timestamp::parse(text).ok()).map(|time| time.seconds).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_cache::{Extracted, ObjectKey, ReadForm, value_header};

    #[test]
    fn the_last_write_is_the_latest_time_in_the_metadata() {
        let created = r#""creationTimestamp":"1970-01-01T00:01:00Z""#;
        for (metadata, expected) in [
            (created.to_owned(), Some(60)),
            (format!(r#"{created},"managedFields":[{{"time":"1970-01-01T00:02:00Z"}},{{}}]"#), Some(120)),
            (String::new(), None),
        ] {
            let key = ObjectKey::new(&"/r/a".into(), "/r/").unwrap();
            let json = format!(r#"{{"metadata":{{{metadata}}}}}"#);
            let value = [value_header(0).as_slice(), json.as_bytes()].concat();
            let object =
                Object::unstored(key, 7, value.into(), Extracted::default(), ReadForm::AsStored).unwrap();
            assert_eq!(last_written(&object), expected, "{json}");
        }
    }
}
