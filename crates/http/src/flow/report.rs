//! Metrics of priority and fairness: counts since the last scrape are added to the families when `/metrics` is read.

use super::Fair;
use pintle_flow::{EXEMPT, FlowReport, Histogram, LevelReport, RejectReason};
use pintle_metrics::{Family, families as f};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Gauges of a flow; `None` until there is something to report.
#[derive(Default)]
struct Gauges {
    queued: Option<[i64; 2]>,
    executing: Option<[i64; 2]>,
}

impl Fair {
    /// Updates the metric families. Must be called before they are rendered.
    pub fn update_metrics(&self) {
        // kube-apiserver's own requests are exempt, so it has this series from the start.
        _ = f::FLOW_WATCH_COUNT.with(&[EXEMPT, EXEMPT]);
        self.controller.level_reports().iter().for_each(write_level);
        // Objects that were recreated continue the series of their names.
        let mut gauges: BTreeMap<(Arc<str>, Arc<str>), Gauges> = BTreeMap::new();
        for (schema, level, report) in self.controller.flow_reports() {
            write_flow(&[&schema, &level], &report);
            let sums = gauges.entry((schema, level)).or_default();
            if report.was_queued {
                add(&mut sums.queued, [report.inqueue_requests, report.inqueue_seats]);
            }
            if report.was_executed {
                add(&mut sums.executing, [report.executing_requests, report.executing_seats]);
            }
        }
        for ((schema, level), sums) in &gauges {
            let labels = [&**schema, &**level];
            set(&[&f::FLOW_INQUEUE, &f::FLOW_INQUEUE_SEATS], &labels, sums.queued);
            set(&[&f::FLOW_EXECUTING, &f::FLOW_EXECUTING_SEATS], &labels, sums.executing);
        }
        f::FLOW_FAIR_FRACTION.set(&[], self.controller.fair_fraction());
        let kinds = [
            ("executing", "readOnly"),
            ("executing", "mutating"),
            ("waiting", "readOnly"),
            ("waiting", "mutating"),
        ];
        for ((phase, kind), times) in kinds.into_iter().zip(self.controller.read_write_report()) {
            merge(&f::FLOW_READ_WRITE, &[phase, kind], &times);
        }
    }
}

fn add(sums: &mut Option<[i64; 2]>, values: [i64; 2]) {
    let sums = sums.get_or_insert([0; 2]);
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.saturating_add(value));
}

#[expect(clippy::cast_precision_loss, reason = "small numbers of requests and seats")]
fn set(families: &[&Family; 2], labels: &[&str], values: Option<[i64; 2]>) {
    for (family, value) in families.iter().zip(values.into_iter().flatten()) {
        family.set(labels, value as f64);
    }
}

fn merge(family: &Family, labels: &[&str], counted: &Histogram) {
    if !counted.is_empty() {
        family.with(labels).merge(counted.counts(), counted.count(), counted.sum());
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers of seats")]
fn write_level(level: &LevelReport) {
    let name = &*level.name;
    let seats: [(&Family, u64); 4] = [
        (&f::FLOW_NOMINAL_SEATS, level.limits.nominal),
        (&f::FLOW_LOWER_SEATS, level.limits.lower),
        (&f::FLOW_UPPER_SEATS, level.limits.upper),
        (&f::FLOW_CURRENT_SEATS, level.current),
    ];
    seats.into_iter().for_each(|(family, seats)| family.set(&[name], seats as f64));
    f::FLOW_DEMAND_WATERMARK.set(&[name], level.demand.high_watermark as f64);
    f::FLOW_DEMAND_AVERAGE.set(&[name], level.demand.average);
    f::FLOW_DEMAND_DEVIATION.set(&[name], level.demand.deviation);
    f::FLOW_DEMAND_SMOOTHED.set(&[name], level.demand.smoothed);
    f::FLOW_TARGET_SEATS.set(&[name], level.target);
    f::FLOW_CURRENT_R.set(&[name], level.r.as_f64());
    if let Some(last) = &level.last_dispatch {
        f::FLOW_DISPATCH_R.set(&[name], last.r.as_f64());
        f::FLOW_LATEST_S.set(&[name], last.s.as_f64());
        f::FLOW_NEXT_S.set(&["min", name], last.s_min.as_f64());
        f::FLOW_NEXT_S.set(&["max", name], last.s_max.as_f64());
        f::FLOW_NEXT_DISCOUNTED_S.set(&["min", name], last.discounted_min.as_f64());
        f::FLOW_NEXT_DISCOUNTED_S.set(&["max", name], last.discounted_max.as_f64());
    }
    merge(&f::FLOW_REQUEST_UTILIZATION, &["waiting", name], &level.waiting);
    merge(&f::FLOW_REQUEST_UTILIZATION, &["executing", name], &level.executing);
    merge(&f::FLOW_SEAT_UTILIZATION, &["executing", name], &level.seats);
    merge(&f::FLOW_DEMAND_SEATS, &[name], &level.demand_seats);
}

/// `labels` are schema and level.
fn write_flow(labels: &[&str; 2], report: &FlowReport) {
    let [schema, level] = *labels;
    if report.dispatched > 0 {
        f::FLOW_DISPATCHED.add(labels, report.dispatched);
    }
    for (reason, count) in RejectReason::ALL.into_iter().zip(report.rejected) {
        if count > 0 {
            f::FLOW_REJECTED.add(&[schema, level, reason.as_str()], count);
        }
    }
    if report.no_accommodation > 0 {
        f::FLOW_NO_ACCOMMODATION.add(labels, report.no_accommodation);
    }
    merge(&f::FLOW_EXECUTION_SECONDS, &[schema, level, "regular"], &report.execution_regular);
    merge(&f::FLOW_EXECUTION_SECONDS, &[schema, level, "watch"], &report.execution_watch);
    merge(&f::FLOW_WAIT_SECONDS, &["true", schema, level], &report.wait_executed);
    merge(&f::FLOW_WAIT_SECONDS, &["false", schema, level], &report.wait_rejected);
    merge(&f::FLOW_QUEUE_LENGTH, labels, &report.queue_length);
    merge(&f::FLOW_ESTIMATED_SEATS, labels, &report.estimated_seats);
    merge(&f::FLOW_WATCH_COUNT, labels, &report.watch_count);
}
