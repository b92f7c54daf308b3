//! `GET …/NAME?history=true`: the retained versions of an object. It is authorized as the get that it is; kube-apiserver
//! ignores the parameter.

use super::Resources;
use crate::api::{ApiRequest, ApiResponse};
use crate::negotiate::Encoding;
use pintle_engine::{ObjectHistory, ObjectVersion, Target};
use pintle_meta::Status;
use pintle_meta::options::Query;
use pintle_meta::time::Timestamp;
use std::fmt::Write;

/// The default and the maximum number of versions in an answer.
const DEFAULT_LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// Whether a request asks for the history of an object.
pub(super) fn is_asked_for(request: &ApiRequest, target: &Target) -> bool {
    target.subresource.is_empty() && Query(&request.query).switch("history") == Some(true)
}

impl Resources {
    /// The versions as a JSON document, regardless of the `Accept` header: there is no other encoding of it.
    pub(super) async fn history(&self, request: &ApiRequest, target: &Target) -> Result<ApiResponse, Status> {
        let query = Query(&request.query);
        let before = query.int("before")?.and_then(|number| u64::try_from(number).ok());
        let limit = match query.int("limit")?.and_then(|number| usize::try_from(number).ok()) {
            None | Some(0) => DEFAULT_LIMIT,
            Some(number) => number.min(LIMIT_MAX),
        };
        let history = self.engine.reader().history(target, before, limit).await?;
        let body = self.write_history(target, &history)?;
        Ok(ApiResponse::new(200, "application/json", body))
    }

    fn write_history(&self, target: &Target, history: &ObjectHistory) -> Result<Vec<u8>, Status> {
        let mut head = String::from(r#"{"kind":"ObjectHistory","apiVersion":"pintle.dev/v1","metadata":{},"#);
        _ = write!(head, r#""since":"{}","hasOlder":{},"items":["#, history.since, history.has_older);
        let mut out = head.into_bytes();
        for (index, version) in history.versions.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            let mut item =
                format!(r#"{{"type":"{}","resourceVersion":"{}""#, change_type(version), version.revision);
            if let Some(time) = version.time_ms.and_then(timestamp_text) {
                _ = write!(item, r#","time":"{time}""#);
            }
            out.extend_from_slice(item.as_bytes());
            if let Some(object) = &version.object {
                out.extend_from_slice(br#","object":"#);
                out.extend_from_slice(self.object_bytes(target, object, Encoding::JSON)?.trim_ascii_end());
            }
            out.push(b'}');
        }
        out.extend_from_slice(b"]}\n");
        Ok(out)
    }
}

/// The type of the change in watches; `OLDEST` if the version before it is not known.
fn change_type(version: &ObjectVersion) -> &'static str {
    match (&version.object, version.is_new) {
        (None, _) => "DELETED",
        (Some(_), Some(true)) => "ADDED",
        (Some(_), Some(false)) => "MODIFIED",
        (Some(_), None) => "OLDEST",
    }
}

fn timestamp_text(time_ms: u64) -> Option<String> {
    let seconds = i64::try_from(time_ms / 1000).ok()?;
    let nanos = u32::try_from(time_ms % 1000).ok()?.saturating_mul(1_000_000);
    Some(Timestamp { seconds, nanos }.rfc3339_micro().to_string())
}
