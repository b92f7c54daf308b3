//! `/debug/api_priority_and_fairness/`: dumps levels, queues and requests as tables, in the layout of Go's tabwriter.

use super::{Detail, Fair, FlowControl};
use crate::api::ApiResponse;
use crate::query;
use pintle_flow::RequestRow;
use pintle_meta::duration::GoDuration;
use pintle_meta::time::Timestamp;
use std::time::{Duration, UNIX_EPOCH};

const FOLDER: &str = "/debug/api_priority_and_fairness/";
/// The minimum width of a column.
const WIDTH_MIN: usize = 8;

const LEVELS: [&str; 10] = [
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
];
const QUEUES: [&str; 9] = [
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
    "InitialSeatsSum",
    "MaxSeatsSum",
    "TotalWorkSum",
];
/// Misspelt as in kube-apiserver.
const REQUESTS: [&str; 10] = [
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    "FlowDistingsher",
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
    "StartTime",
];
const DETAILS: [&str; 8] =
    ["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"];

/// Answers a request for a dump; `None` for other paths.
pub(crate) fn serve(flow: &FlowControl, path: &str, query: &[(String, String)]) -> Option<ApiResponse> {
    let FlowControl::Fair(fair) = flow else { return None };
    let rows = match path.strip_prefix(FOLDER)? {
        "dump_priority_levels" => level_rows(fair),
        "dump_queues" => queue_rows(fair),
        "dump_requests" => {
            let details = query::first(query, "includeRequestDetails").is_some_and(|text| !text.is_empty());
            request_rows(fair, details)
        }
        _ => return None,
    };
    Some(ApiResponse::new(200, "text/plain; charset=utf-8", layout(&rows)))
}

type Row = Vec<String>;

fn heads(names: &[&str]) -> Row {
    names.iter().map(ToString::to_string).collect()
}

fn level_rows(fair: &Fair) -> Vec<Row> {
    let mut rows = vec![heads(&LEVELS)];
    rows.extend(fair.controller.level_rows().into_iter().map(|level| {
        vec![
            level.name.to_string(),
            level.active_queues.to_string(),
            level.is_idle.to_string(),
            level.is_quiescing.to_string(),
            level.waiting.to_string(),
            level.executing.to_string(),
            level.totals.dispatched.to_string(),
            level.totals.rejected.to_string(),
            level.totals.timed_out.to_string(),
            level.totals.cancelled.to_string(),
        ]
    }));
    rows
}

fn queue_rows(fair: &Fair) -> Vec<Row> {
    let mut rows = vec![heads(&QUEUES)];
    rows.extend(fair.controller.queue_rows().into_iter().map(|row| {
        let queue = row.state;
        vec![
            row.level.to_string(),
            row.index.to_string(),
            queue.waiting.to_string(),
            queue.executing.to_string(),
            queue.seats_in_use.to_string(),
            queue.next_dispatch_r.to_string(),
            queue.initial_seats_sum.to_string(),
            queue.max_seats_sum.to_string(),
            queue.total_work_sum.to_string(),
        ]
    }));
    rows
}

fn request_rows(fair: &Fair, details: bool) -> Vec<Row> {
    let mut head = heads(&REQUESTS);
    if details {
        head.extend(heads(&DETAILS));
    }
    let mut rows = vec![head];
    rows.extend(fair.controller.request_rows().into_iter().map(|request| {
        let mut row = request_row(fair, &request);
        if details {
            row.extend(detail_row(&request.detail));
        }
        row
    }));
    rows
}

fn request_row(fair: &Fair, request: &RequestRow<Detail>) -> Row {
    // The tables print -1 for an absent index.
    let index = |index: Option<usize>| index.map_or_else(|| "-1".to_string(), |index| index.to_string());
    let info = &request.detail.info;
    let distinguisher = match (request.by_user, request.by_namespace) {
        (true, _) => request.detail.user.to_string(),
        (_, true) => info.namespace.to_string(),
        _ => String::new(),
    };
    let latency = i64::try_from(request.work.additional_latency.as_nanos()).unwrap_or(i64::MAX);
    vec![
        request.level.to_string(),
        request.schema.to_string(),
        index(request.queue),
        index(request.position),
        distinguisher,
        time_text(fair, Some(request.arrived)),
        request.work.initial_seats.to_string(),
        request.work.final_seats.to_string(),
        GoDuration(latency).to_string(),
        time_text(fair, request.began),
    ]
}

fn detail_row(detail: &Detail) -> Row {
    let info = &detail.info;
    let version = match (info.group.as_str(), info.version.as_str()) {
        ("", version) => version.to_string(),
        (group, version) => format!("{group}/{version}"),
    };
    vec![
        detail.user.to_string(),
        info.verb.to_string(),
        info.path.clone(),
        info.namespace.to_string(),
        info.name.to_string(),
        version,
        info.resource.to_string(),
        info.subresource.to_string(),
    ]
}

/// An instant of the controller's clock in Go's `RFC3339Nano`; `None` is Go's zero time.
fn time_text(fair: &Fair, at: Option<Duration>) -> String {
    let Some(at) = at else { return "0001-01-01T00:00:00Z".into() };
    let since =
        fair.began.checked_add(at).and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let seconds = Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(0), nanos: 0 }.rfc3339();
    let fraction = format!("{:09}", since.subsec_nanos());
    let fraction = fraction.trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{}{dot}{fraction}Z", seconds.trim_end_matches('Z'))
}

/// Lays out a table: cells are followed by commas, and all but the last of a row are padded to their column's width
/// plus a space. Line breaks and tabs within a cell become spaces, because they would end it.
fn layout(rows: &[Row]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let mut widths = vec![0; columns];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().saturating_add(2).max(*width).max(WIDTH_MIN);
        }
    }
    let mut text = String::new();
    for row in rows {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = cell.replace(['\n', '\t', '\r', '\u{b}', '\u{c}'], " ");
            text.push_str(&cell);
            if at.saturating_add(1) < columns {
                text.push(',');
                let used = cell.chars().count().saturating_add(1);
                text.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [heads(&["Name", "A", "Last"]), heads(&["a-long-name", "1\n2", ""])];
        assert_eq!(layout(&rows), "Name,        A,      Last\na-long-name, 1 2,    \n");
    }
}
