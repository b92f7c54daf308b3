//! Flow control: `--enable-priority-and-fairness` and the limits on requests in flight.

use crate::config::Config;
use crate::flags::{FlagError, Flags};
use pintle_engine::Engine;
use pintle_http::health::{Health, Scope};
use pintle_http::{FlowControl, Metrics};
use std::sync::Arc;

/// The values of the flags about flow control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowFlags {
    pub(crate) fair: bool,
    reads: u64,
    writes: u64,
}

impl FlowFlags {
    pub(crate) fn new(flags: &Flags) -> Result<Self, FlagError> {
        // `flag_checks` refuses negative ones.
        let names = ["max-requests-inflight", "max-mutating-requests-inflight"];
        let [reads, writes] = names.map(|name| u64::try_from(flags.int(name)).unwrap_or(0));
        let fair = flags.bool("enable-priority-and-fairness");
        if fair && reads == 0 && writes == 0 {
            let why = format!(
                "invalid configuration: MaxRequestsInFlight={reads} and MaxMutatingRequestsInFlight={writes}; they must add up to something positive"
            );
            return Err(FlagError::new(&why));
        }
        Ok(FlowFlags { fair, reads, writes })
    }
}

/// Starts priority and fairness, or the plain limits. The tasks end when the cache shuts down.
pub(crate) fn start(
    config: &Config,
    engine: &Arc<Engine>,
    metrics: &Metrics,
    health: &Health,
) -> FlowControl {
    let FlowFlags { fair, reads, writes } = config.flow;
    if !fair {
        let filter = "poststarthook/priority-and-fairness-filter";
        health.set_check("poststarthook/max-in-flight-filter", Scope::Everywhere, filter, || Ok(()));
        health.remove_check(filter);
        health.remove_check("poststarthook/priority-and-fairness-config-consumer");
        return FlowControl::in_flight(reads, writes);
    }
    let flow = FlowControl::fair(reads.saturating_add(writes));
    if let FlowControl::Fair(fair) = &flow {
        fair.configure(engine.storage());
        engine.writer().set_follower(fair.follower());
        tokio::spawn(fair.clone().follow(engine.clone()));
        let counted = fair.clone();
        metrics.add_source(move || counted.update_metrics());
    }
    flow
}
