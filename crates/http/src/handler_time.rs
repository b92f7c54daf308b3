//! How long the handler of a request may take.

use crate::api::ApiResponse;
use crate::negotiate::Encoding;
use crate::respond;
use crate::route::Action;
use std::time::Duration;

/// The longest time that a write of one object takes, as in kube-apiserver.
const WRITE_TIMEOUT: Duration = Duration::from_secs(34);

/// The time limit of a handler.
pub(crate) struct HandlerTime {
    pub(crate) limit: Duration,
    /// Whether the limit is that of writes rather than the request's own.
    is_of_writes: bool,
}

impl HandlerTime {
    /// Writes of one object have a limit of their own, unless the request's is shorter.
    pub(crate) fn of(action: Action, timeout: Duration) -> Self {
        let writes = matches!(action, Action::Create | Action::Update | Action::Patch(_) | Action::Delete);
        if writes && timeout > WRITE_TIMEOUT {
            HandlerTime { limit: WRITE_TIMEOUT, is_of_writes: true }
        } else {
            HandlerTime { limit: timeout, is_of_writes: false }
        }
    }

    /// The handler's answer when the limit of writes is reached. `None` if the request's own time is over: a filter answers
    /// then.
    pub(crate) fn expired(&self, errors: Option<Encoding>) -> Option<ApiResponse> {
        self.is_of_writes.then(|| respond::status(&respond::handler_timed_out(), errors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_have_a_limit_of_their_own() {
        for (action, timeout, limit, answer) in [
            (Action::Create, 60, 34, Some(504)),
            (Action::Delete, 35, 34, Some(504)),
            (Action::Update, 20, 20, None),
            (Action::DeleteCollection, 60, 60, None),
            (Action::List, 60, 60, None),
        ] {
            let time = HandlerTime::of(action, Duration::from_secs(timeout));
            assert_eq!(time.limit, Duration::from_secs(limit), "{action:?}");
            let expired = time.expired(Some(Encoding::Json { pretty: false }));
            assert_eq!(expired.map(|answer| answer.code), answer, "{action:?}");
        }
    }
}
