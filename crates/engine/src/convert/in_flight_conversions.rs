//! Conversions in flight: watches of one version receive the same object, so the webhook is called once for all of them.

use crate::{Reader, Target};
use pintle_cache::Object;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// An object's store key, its revision and the index of the wanted version.
type ConversionKey = (String, u64, usize);
type Outcome = Arc<OnceCell<Result<(), String>>>;

/// Conversions that have not finished. There are at most as many as there are watches.
#[derive(Default)]
pub(crate) struct InFlightConversions(Mutex<HashMap<ConversionKey, Outcome>>);

impl InFlightConversions {
    fn join(&self, wanted: ConversionKey) -> Waiting<'_> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = all.entry(wanted.clone()).or_default().clone();
        Waiting { in_flight_conversions: self, wanted, outcome }
    }

    /// Removes a conversion: later callers start it again, or find its result in the cache.
    fn forget(&self, wanted: &ConversionKey, outcome: &Outcome) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(wanted).is_some_and(|found| Arc::ptr_eq(found, outcome)) {
            all.remove(wanted);
        }
    }
}

/// A caller that waits for a conversion. The last one that gives up removes it.
struct Waiting<'a> {
    in_flight_conversions: &'a InFlightConversions,
    wanted: ConversionKey,
    outcome: Outcome,
}

/// References to an outcome that do not belong to a waiting caller: the one in the table.
const HOLDERS_BESIDE: usize = 1;

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if Arc::strong_count(&self.outcome) <= HOLDERS_BESIDE + 1 {
            self.in_flight_conversions.forget(&self.wanted, &self.outcome);
        }
    }
}

impl Reader {
    /// Converts one object, sharing the webhook call with all concurrent callers that want the same conversion.
    pub(crate) async fn convert_shared(&self, target: &Target, object: &Arc<Object>) -> Result<(), String> {
        if !self.needs_webhook(target, object) {
            return object.unreadable().map_or(Ok(()), |why| Err(why.to_string()));
        }
        let waiting =
            self.in_flight_conversions.join((target.key_of(object), object.revision(), target.version));
        let convert = || async {
            let faults = self.convert_all(target, std::slice::from_ref(object)).await;
            self.in_flight_conversions.forget(&waiting.wanted, &waiting.outcome);
            faults.into_first().map_or(Ok(()), |fault| Err(fault.why))
        };
        waiting.outcome.get_or_init(convert).await.clone()
    }
}
