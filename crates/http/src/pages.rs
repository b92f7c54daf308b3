//! `/flagz` and `/statusz`: the server's flags and uptime, as text or as objects of `config.k8s.io`.

use crate::api::ApiResponse;
use crate::negotiate::{Accept, Encoding, Media, PageForm};
use crate::{http_date, nonresource, respond, version};
use http::HeaderValue;
use pintle_meta::{Status, Timestamp};
use pintle_value::Value;
use std::time::{SystemTime, UNIX_EPOCH};

/// The data of the pages /flagz and /statusz.
pub struct Pages {
    /// Every flag that kube-apiserver has, with its value, by name.
    pub flags: Vec<(String, String)>,
    /// The flags that only this server has.
    pub own_flags: Vec<(String, String)>,
    /// When the server was started.
    pub started: SystemTime,
    /// Whether `/flagz` is served (`ComponentFlagz`).
    pub flagz: bool,
    /// Whether `/statusz` is served (`ComponentStatusz`).
    pub statusz: bool,
}

const GROUP: &str = "config.k8s.io";
const COMPONENT: &str = "apiserver";
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";

impl Pages {
    /// Paths of the pages that are served.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &'static str> {
        [("/flagz", self.flagz), ("/statusz", self.statusz)]
            .into_iter()
            .filter(|(_, on)| *on)
            .map(|(path, _)| path)
    }

    /// Answers a request for one of the pages, for any method. `paths` are all paths of the server.
    pub(crate) fn serve(
        &self,
        path: &str,
        accept: &Accept,
        cbor: bool,
        paths: &[String],
    ) -> Option<ApiResponse> {
        if !self.paths().any(|served| served == path) {
            return None;
        }
        let kind = if path == "/flagz" { "Flagz" } else { "Statusz" };
        let form = accept.for_page(cbor, |convert| {
            convert.group == GROUP
                && convert.kind == kind
                && matches!(convert.version.as_str(), "v1alpha1" | "v1beta1")
        });
        Some(match form {
            None => not_acceptable(accept, cbor),
            Some(PageForm::Text) if kind == "Flagz" => text(self.flagz_text()),
            Some(PageForm::Text) => text(self.statusz_text(paths)),
            Some(PageForm::Object(encoding, version)) => {
                self.discovery_object(kind, &version, encoding, paths)
            }
        })
    }

    fn discovery_object(
        &self,
        kind: &str,
        version: &str,
        encoding: Encoding,
        paths: &[String],
    ) -> ApiResponse {
        let mut tree = Value::object();
        tree.set_at(&["kind"], kind.into());
        tree.set_at(&["apiVersion"], format!("{GROUP}/{version}").into());
        tree.set_at(&["metadata", "name"], COMPONENT.into());
        if kind == "Flagz" {
            for (name, value) in &self.flags {
                tree.set_at(&["flags", name], value.as_str().into());
            }
        } else {
            tree.set_at(&["startTime"], self.start().rfc3339().into());
            tree.set_at(&["uptimeSeconds"], self.uptime_seconds().into());
            // This binary contains no Go, but the field is required.
            tree.set_at(&["goVersion"], "".into());
            tree.set_at(&["binaryVersion"], version::GIT_VERSION.trim_start_matches('v').into());
            tree.set_at(&["emulationVersion"], version::emulated().into());
            let folders = nonresource::folders(paths);
            tree.set_at(&["paths"], Value::Array(folders.iter().map(|path| path.as_str().into()).collect()));
        }
        let mut answer = ApiResponse::new(200, "", respond::encode(&tree, encoding));
        let content_type = format!("{};g={GROUP};v={version};as={kind}", encoding.media().name());
        if let Ok(value) = HeaderValue::from_str(&content_type) {
            answer.headers.insert(http::header::CONTENT_TYPE, value);
        }
        if version == "v1alpha1" {
            let page = kind.to_lowercase();
            let warning =
                format!("This version of the {page} endpoint is deprecated. Please use a newer version.");
            answer.warnings.push(warning);
        }
        answer
    }

    fn flagz_text(&self) -> String {
        let mut out = format!("\n{COMPONENT} flagz\n{WARNING}\n");
        for (name, value) in &self.flags {
            out.push_str(&format!("{name}={value}\n"));
        }
        if !self.own_flags.is_empty() {
            out.push_str("\nFlags that kube-apiserver does not have:\n");
        }
        for (name, value) in &self.own_flags {
            out.push_str(&format!("  {name}={value}\n"));
        }
        out
    }

    fn statusz_text(&self, paths: &[String]) -> String {
        let up = self.uptime_seconds();
        let lines = [
            ("Started", unix_date(&self.start())),
            ("Up", format!("{} hr {:02} min {:02} sec", up / 3600, up / 60 % 60, up % 60)),
            ("Binary version", version::GIT_VERSION.trim_start_matches('v').to_string()),
            ("Emulation version", version::emulated()),
            ("Paths", nonresource::folders(paths).join(" ")),
        ];
        let lines: Vec<String> = lines.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        format!("\n{COMPONENT} statusz\n{WARNING}\n\n{}", lines.concat())
    }

    fn start(&self) -> Timestamp {
        let since = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(0), nanos: 0 }
    }

    fn uptime_seconds(&self) -> i64 {
        i64::try_from(self.started.elapsed().unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
    }
}

fn text(body: String) -> ApiResponse {
    ApiResponse::new(200, "text/plain; charset=utf-8", body)
}

fn not_acceptable(accept: &Accept, cbor: bool) -> ApiResponse {
    let mut names = vec![Media::Json.name(), Media::Yaml.name(), "text/plain"];
    let mut media = vec![Media::Json, Media::Yaml];
    if cbor {
        names.push(Media::Cbor.name());
        media.push(Media::Cbor);
    }
    // Unlike elsewhere, the error is only indented for people if the client accepts no available type.
    let encoding = accept.for_errors(&media).unwrap_or(Encoding::Json { pretty: accept.pretty });
    respond::status(&Status::not_acceptable(&names), Some(encoding))
}

/// Go's `time.UnixDate`: `Tue Nov 17 00:56:24 UTC 2026`.
fn unix_date(time: &Timestamp) -> String {
    http_date::arranged(time, |weekday, month, day, year, time| {
        format!("{weekday} {month} {:>2} {time} UTC {year}", day.trim_start_matches('0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_go_does() {
        for (seconds, want) in
            [(1_794_876_984, "Tue Nov 17 00:56:24 UTC 2026"), (0, "Thu Jan  1 00:00:00 UTC 1970")]
        {
            assert_eq!(unix_date(&Timestamp { seconds, nanos: 0 }), want);
        }
    }
}
