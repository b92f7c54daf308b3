//! Options of a request for a container's log.

use super::Query;
use crate::field::Named;
use crate::{FieldErrors, GroupKind, Status, Timestamp};
use pintle_value::{Path, Str};

const ALL_STREAMS: &str = "All";
/// The outputs of a container. kube-apiserver names them in random order.
const STREAMS: [&str; 3] = [ALL_STREAMS, "Stdout", "Stderr"];

/// Options of a request for a container's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The container; "" is the only one of the pod.
    pub container: Str,
    /// Whether the kubelet's certificate is not verified.
    pub skips_verification: bool,
    /// The parameters for the kubelet.
    parameters: Vec<(&'static str, String)>,
}

impl LogOptions {
    /// Reads and checks the options for the pod `name`. `splits_streams` is the feature gate PodLogsQuerySplitStreams.
    pub fn from_query(query: Query<'_>, name: &str, splits_streams: bool) -> Result<Self, Status> {
        let since_seconds = query.int("sinceSeconds")?;
        let since_time = query.first("sinceTime");
        let since = match since_time.filter(|text| !text.is_empty() && *text != "null") {
            Some(text) => {
                Some(Timestamp::parse(text).map_err(|error| Status::bad_request(error.to_string()))?)
            }
            None => None,
        };
        let tail_lines = query.int("tailLines")?;
        let limit_bytes = query.int("limitBytes")?;
        let mut errors = FieldErrors::new();
        if let Some(lines) = tail_lines.filter(|lines| *lines < 0) {
            errors.invalid(&Path::of("tailLines"), lines, "must be greater than or equal to 0");
        }
        if let Some(bytes) = limit_bytes.filter(|bytes| *bytes < 1) {
            errors.invalid(&Path::of("limitBytes"), bytes, "must be greater than 0");
        }
        match (since_seconds, since_time) {
            // Go prints the empty path like this.
            (Some(_), Some(_)) => errors
                .forbidden(&Path::of("[]"), "at most one of `sinceTime` or `sinceSeconds` may be specified"),
            (Some(seconds), None) if seconds < 1 => {
                errors.invalid(&Path::of("sinceSeconds"), seconds, "must be greater than 0");
            }
            _ => {}
        }
        let stream = query.first("stream");
        if !splits_streams && stream.is_some() {
            errors.forbidden(&Path::of("stream"), "may not be specified");
        }
        let stream = splits_streams.then(|| stream.unwrap_or(ALL_STREAMS));
        if let Some(stream) = stream {
            if !STREAMS.contains(&stream) {
                errors.not_supported(&Path::of("stream"), Named(stream), &STREAMS);
            }
            if stream != ALL_STREAMS && tail_lines.is_some() {
                let detail = "`tailLines` and specific `stream` are mutually exclusive for now";
                errors.forbidden(&Path::of("[]"), detail);
            }
        }
        if !errors.is_empty() {
            return Err(Status::invalid(&GroupKind::new("", "PodLogOptions"), name, &errors));
        }
        let switches = ["follow", "previous", "timestamps"]
            .map(|key| (key, (query.switch(key) == Some(true)).then(|| "true".to_string())));
        let numbers =
            [("sinceSeconds", since_seconds), ("tailLines", tail_lines), ("limitBytes", limit_bytes)]
                .map(|(key, number)| (key, number.map(|number| number.to_string())));
        let since = ("sinceTime", since.map(|since| since.rfc3339().to_string()));
        let stream = ("stream", stream.map(str::to_string));
        let given = switches.into_iter().chain(numbers).chain([since, stream]);
        Ok(LogOptions {
            container: query.text("container").into(),
            skips_verification: query.switch("insecureSkipTLSVerifyBackend") == Some(true),
            parameters: given.filter_map(|(key, text)| Some((key, text?))).collect(),
        })
    }

    /// The kubelet's parameters.
    pub fn to_kubelet(&self) -> Vec<(&'static str, String)> {
        self.parameters.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::pairs;

    #[test]
    fn invalid_options_are_refused() {
        let invalid = |errors: &str| format!(r#"422 PodLogOptions "p" is invalid: {errors}"#);
        for (query, expected) in [
            ("container=c&follow=maybe&tailLines=0&sinceTime=", "fine".to_string()),
            ("tailLines=x", r#"400 strconv.ParseInt: parsing "x": invalid syntax"#.into()),
            (
                "tailLines=-1&limitBytes=0",
                invalid(
                    "[tailLines: Invalid value: -1: must be greater than or equal to 0, limitBytes: Invalid value: 0: must be greater than 0]",
                ),
            ),
            ("sinceSeconds=0", invalid("sinceSeconds: Invalid value: 0: must be greater than 0")),
            ("stream=Stdout", invalid("stream: Forbidden: may not be specified")),
            (
                "sinceSeconds=1&sinceTime=2024-01-01T00:00:00Z",
                invalid("[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"),
            ),
        ] {
            let said = LogOptions::from_query(Query(&pairs(query)), "p", false)
                .map_or_else(|s| format!("{} {}", s.code, s.message), |_| "fine".to_string());
            assert_eq!(said, expected, "{query}");
        }
    }
}
