//! One line of the log: the fields of an event, and their text in both formats of klog.

use pintle_value::json;
use std::fmt::{self, Write};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata};

/// The longest text of one field; the rest is truncated.
const FIELD_BYTES_MAX: usize = 16 * 1024;

/// A value of a field.
pub(crate) enum Logged {
    Text(String),
    /// A number or boolean, as JSON writes it.
    Bare(String),
}

/// The fields of an event.
#[derive(Default)]
pub(crate) struct Fields {
    pub(crate) message: String,
    pub(crate) verbosity: Option<u32>,
    pub(crate) rest: Vec<(&'static str, Logged)>,
}

impl Fields {
    fn add_text(&mut self, field: &Field, mut text: String) {
        if text.len() > FIELD_BYTES_MAX {
            let end = (0..=FIELD_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
        }
        match field.name() {
            "message" => self.message = text,
            name => self.rest.push((name, Logged::Text(text))),
        }
    }

    fn bare(&mut self, field: &Field, value: impl fmt::Display) {
        self.rest.push((field.name(), Logged::Bare(value.to_string())));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        match field.name() {
            "v" => self.verbosity = u32::try_from(value).ok(),
            _ => self.bare(field, value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "v" => self.verbosity = u32::try_from(value).ok(),
            _ => self.bare(field, value),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.bare(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.bare(field, value);
    }
}

/// An event with its time and position.
pub(crate) struct Line<'a> {
    pub(crate) metadata: &'a Metadata<'a>,
    pub(crate) fields: &'a Fields,
    pub(crate) verbosity: u32,
    /// Since 1970.
    pub(crate) now: Duration,
}

impl Line<'_> {
    /// `I1117 00:56:28.488883    4219 serve.rs:134] "message" key="value"`. A message without fields is not quoted, like
    /// those of klog's formatting functions.
    pub(crate) fn add_text(&self) -> String {
        let severity = match *self.metadata.level() {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        };
        let seconds = i64::try_from(self.now.as_secs()).unwrap_or(i64::MAX);
        let time =
            pintle_meta::Timestamp { seconds, nanos: self.now.subsec_nanos() }.rfc3339_micro().to_string();
        // 2026-11-17T00:56:28.488883Z
        let part = |from: usize, to: usize| time.get(from..to).unwrap_or("");
        let file = self.metadata.file().unwrap_or("?");
        let file = file.rsplit_once('/').map_or(file, |(_, name)| name);
        let line = self.metadata.line().unwrap_or(0);
        let mut out = format!(
            "{severity}{}{} {} {:>7} {file}:{line}] ",
            part(5, 7),
            part(8, 10),
            part(11, 26),
            std::process::id()
        );
        let Fields { message, rest, .. } = self.fields;
        if rest.is_empty() {
            // One event is one line.
            out.push_str(&message.replace('\n', "\\n"));
        } else {
            out.push_str(&quote(message));
        }
        for (key, value) in rest {
            _ = match value {
                Logged::Text(text) => write!(out, " {key}={}", quote(text)),
                Logged::Bare(text) => write!(out, " {key}={text}"),
            };
        }
        out.push('\n');
        out
    }

    /// `{"ts":…,"caller":"http/chain.rs:134","msg":"…","v":0,"key":"value"}`. Errors have no `v`.
    pub(crate) fn json(&self) -> String {
        let micros = self.now.as_micros();
        let caller = caller(self.metadata.file().unwrap_or("?"));
        let line = self.metadata.line().unwrap_or(0);
        let mut out = format!("{{\"ts\":{}.{:03},\"caller\":", micros / 1000, micros % 1000);
        out.push_str(&quote(&format!("{caller}:{line}")));
        out.push_str(",\"msg\":");
        out.push_str(&quote(&self.fields.message));
        if *self.metadata.level() != Level::ERROR {
            _ = write!(out, ",\"v\":{}", self.verbosity);
        }
        for (key, value) in &self.fields.rest {
            // klog's key for errors.
            let key = if *key == "error" { "err" } else { key };
            _ = match value {
                Logged::Text(text) => write!(out, ",{}:{}", quote(key), quote(text)),
                Logged::Bare(text) => write!(out, ",{}:{text}", quote(key)),
            };
        }
        out.push_str("}\n");
        out
    }
}

/// The folder and the name of a file: `crates/http/src/chain.rs` is `http/chain.rs`.
fn caller(file: &str) -> String {
    let mut parts = file.split('/').rev().filter(|part| *part != "src");
    let name = parts.next().unwrap_or(file);
    match parts.next() {
        Some(folder) => format!("{folder}/{name}"),
        None => name.to_string(),
    }
}

fn quote(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    json::write_string(text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_a_folder_and_a_file() {
        for (file, want) in [
            ("crates/http/src/chain.rs", "http/chain.rs"),
            ("crates/http/src/streams/translate.rs", "streams/translate.rs"),
            ("main.rs", "main.rs"),
        ] {
            assert_eq!(caller(file), want);
        }
    }
}
