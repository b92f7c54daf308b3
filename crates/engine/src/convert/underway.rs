//! Conversions that many wait for: the watches of one version are told the same, and the webhook is asked once.

use crate::{Engine, Target};
use pintle_cache::Object;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// The key in the store, the revision and the wanted version of an object.
type Wanted = (String, u64, usize);
type Outcome = Arc<OnceCell<Result<(), String>>>;

/// Conversions that somebody waits for. There are no more of them than there are watches.
#[derive(Default)]
pub struct Underway(Mutex<HashMap<Wanted, Outcome>>);

impl Underway {
    fn join(&self, wanted: Wanted) -> Waiting<'_> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = all.entry(wanted.clone()).or_default().clone();
        Waiting { underway: self, wanted, outcome }
    }

    /// Forgets a conversion: who comes from here on asks anew, or finds it done.
    fn forget(&self, wanted: &Wanted, outcome: &Outcome) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(wanted).is_some_and(|found| Arc::ptr_eq(found, outcome)) {
            all.remove(wanted);
        }
    }
}

/// One who waits. The last to give up takes the conversion with it.
struct Waiting<'a> {
    underway: &'a Underway,
    wanted: Wanted,
    outcome: Outcome,
}

/// Those who hold an outcome beside the ones who wait: the table.
const HOLDERS_BESIDE: usize = 1;

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if Arc::strong_count(&self.outcome) <= HOLDERS_BESIDE + 1 {
            self.underway.forget(&self.wanted, &self.outcome);
        }
    }
}

impl Engine {
    /// Has one object converted, together with all others who want the same now; why not, where that fails.
    pub(crate) async fn convert_shared(&self, target: &Target, object: &Arc<Object>) -> Result<(), String> {
        if !self.needs_webhook(target, object) {
            return object.unreadable().map_or(Ok(()), |why| Err(why.to_string()));
        }
        let waiting = self.underway.join((target.key_of(object), object.revision(), target.version));
        let convert = || async {
            let faults = self.convert_all(target, std::slice::from_ref(object)).await;
            self.underway.forget(&waiting.wanted, &waiting.outcome);
            faults.into_first().map_or(Ok(()), |fault| Err(fault.why))
        };
        waiting.outcome.get_or_init(convert).await.clone()
    }
}
