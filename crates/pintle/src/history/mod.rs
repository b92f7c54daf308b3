//! `pintle history`: the retained versions of an object as a log: when, by whom, which verb, and what changed.

mod changes;
mod log;
mod print;
mod retention;

pub(crate) use retention::parse as retention;

use crate::arguments::{self, Syntax};
use crate::output::{self, Output};
use crate::owners::client::{Client, ClientError};
use crate::owners::{config, resolve};
use crate::terminal;
use changes::FieldPath;
use log::{Log, Version};
use pintle_meta::time::Timestamp;
use pintle_value::{Value, yaml};
use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
Usage: pintle history TYPE/NAME [-n NAMESPACE] [--at RESOURCEVERSION|TIME] [--field PATH] [--limit NUMBER] [-o text|json]

Prints every retained version of an object, the newest first: when it was written, by which field manager, and what changed.
Deleted objects have a history, too. Requires the right to get the object. The text form does not print the data of Secrets;
--at, --field and -o json do.

      --at RESOURCEVERSION|TIME  Print the object at that time, or its --field: 2026-01-02T15:04:05Z, or 10m for ten minutes
                                 ago
      --field PATH               Follow one field: .spec.replicas, .metadata.labels[\"a.b/c\"], .spec.containers[0].image
      --limit NUMBER             Limit of printed versions (default 100)
  -n, --namespace NAMESPACE      Namespace of the object (default: that of the kubeconfig)
      --kubeconfig FILE          Kubeconfig of the server (default: $KUBECONFIG or ~/.kube/config)
  -o, --output FORMAT            text (default; with --at YAML) or json
";

const SYNTAX: Syntax = Syntax {
    usage: USAGE,
    values: &["at", "field", "kubeconfig", "limit", "namespace", "output"],
    switches: &[],
    operands: 1..=2,
};

/// The number of versions that are printed by default.
const DEFAULT_LIMIT: usize = 100;
/// The maximum number of versions that `--at` and `--field` examine.
const VERSIONS_MAX: usize = 10_000;

/// The error of the command, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HistoryError {
    #[error("{0}")]
    Text(String),
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The parsed command line.
#[derive(Debug, Default, PartialEq)]
struct Options {
    kind: String,
    name: String,
    namespace: Option<String>,
    kubeconfig: Option<PathBuf>,
    at: Option<PointInTime>,
    field: Option<FieldPath>,
    limit: Option<usize>,
    json: bool,
}

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PointInTime {
    Revision(u64),
    Time(Timestamp),
}

/// Runs the command with the arguments after its name.
pub(crate) fn run(args: Vec<String>) -> Result<(), HistoryError> {
    let Some(options) = parse(args).map_err(HistoryError::Text)? else { return Ok(()) };
    let config = config::load(options.kubeconfig.as_deref())?;
    let namespace = options.namespace.clone().unwrap_or_else(|| config.namespace.clone());
    let log = Client::new(config)?.block_on(|client| fetch(client, &options, &namespace))?;
    if log.versions.is_empty() {
        let what = format!("{}/{}", options.kind, options.name);
        let why = format!("{what}: no version is retained (changes since resourceVersion {} are)", log.since);
        return Err(HistoryError::Text(why));
    }
    let text = render_log(&log, &options, terminal::has_colours()).map_err(HistoryError::Text)?;
    output::write(&text).map_err(HistoryError::Text)
}

fn render_log(log: &Log, options: &Options, coloured: bool) -> Result<String, String> {
    let without_field = || format!("no retained version of {}/{} has this field", options.kind, options.name);
    if let Some(moment) = options.at {
        let object = object_at(log, moment)?;
        let value = match &options.field {
            Some(field) => field.find(object).ok_or("the object did not have this field then")?,
            None => object,
        };
        if options.json {
            return Ok(output::pretty_json(value));
        }
        let mut out = Vec::new();
        yaml::print(value, &mut out);
        return Ok(String::from_utf8_lossy(&out).into_owned());
    }
    let limit = options.limit.unwrap_or(DEFAULT_LIMIT);
    if let Some(field) = &options.field
        && !print::has_field(log, field)
    {
        return Err(without_field());
    }
    Ok(match (&options.field, options.json) {
        (Some(field), true) => print::field_as_json(log, field, limit),
        (Some(field), false) => print::field(log, field, limit, coloured),
        (None, true) => print::as_json(log, limit),
        (None, false) => print::text(log, limit, coloured),
    })
}

/// Fetches as many versions as the command needs, the newest first.
async fn fetch(client: Client, options: &Options, namespace: &str) -> Result<Log, ClientError> {
    let collection = resolve::collection(&client, &options.kind, namespace).await?;
    let path = format!("{collection}/{}", resolve::escaped(&options.name));
    let wanted = match (options.at, &options.field) {
        (None, None) => options.limit.unwrap_or(DEFAULT_LIMIT).saturating_add(1),
        _ => VERSIONS_MAX,
    };
    let mut log = Log::default();
    let mut before = String::new();
    loop {
        let page = client.get(&format!("{path}?history=true&limit=1000{before}"), "application/json").await?;
        if page.str_at(&["kind"]) != "ObjectHistory" {
            return Err(ClientError::Answer("the server has no history: it is not Pintle".to_string()));
        }
        let has_older = page.get("hasOlder").and_then(Value::as_bool).unwrap_or(false);
        let added = log.add_older(&page);
        if added == 0 || !has_older || log.versions.len() >= wanted || log.reaches(options.at) {
            log.has_older = has_older;
            return Ok(log);
        }
        let oldest = log.versions.first().map_or(0, |version| version.revision);
        before = format!("&before={oldest}");
    }
}

/// The object at a moment.
fn object_at(log: &Log, moment: PointInTime) -> Result<&Value, String> {
    let Some(version) = log.versions.iter().rfind(|version| moment.includes(version)) else {
        return Err(match log.versions.first() {
            // Every change since then is retained, so the creation is the first version there was.
            Some(oldest) if oldest.change == "ADDED" && moment.is_after_revision(log.since) => {
                format!("there was no such object then: it was created with {}", print::moment_of(oldest))
            }
            Some(oldest) => {
                format!("nothing is retained from then: the oldest version has {}", print::moment_of(oldest))
            }
            None => "nothing is retained".to_string(),
        });
    };
    let deleted =
        || format!("there was no such object then: it was deleted with {}", print::moment_of(version));
    version.object.as_ref().ok_or_else(deleted)
}

fn parse(args: Vec<String>) -> Result<Option<Options>, String> {
    let Some(arguments) = arguments::parse(&SYNTAX, args)? else { return Ok(None) };
    let (kind, name) = resolve::type_and_name(arguments.operands())?;
    let limit = |text: &str| {
        let number = text.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("--limit {text:?} is not a number above 0"))
    };
    Ok(Some(Options {
        kind,
        name,
        namespace: arguments.value("namespace").map(str::to_string),
        kubeconfig: arguments.value("kubeconfig").map(PathBuf::from),
        at: arguments.value("at").map(moment).transpose()?,
        field: arguments.value("field").map(FieldPath::parse).transpose()?,
        limit: arguments.value("limit").map(limit).transpose()?,
        json: Output::parse(arguments.value("output"))? == Output::Json,
    }))
}

impl PointInTime {
    /// Whether a version was written by then.
    fn includes(self, version: &Version) -> bool {
        match self {
            PointInTime::Revision(revision) => version.revision <= revision,
            PointInTime::Time(time) => version.time.is_some_and(|written| written <= time),
        }
    }

    /// Whether this is known to be after a change.
    fn is_after_revision(self, revision: u64) -> bool {
        matches!(self, PointInTime::Revision(then) if then >= revision)
    }
}

/// A resourceVersion, a time, or a duration before now. A time in whole seconds is the end of its second, because the log
/// prints whole seconds.
fn moment(text: &str) -> Result<PointInTime, String> {
    const END_OF_SECOND: u32 = 999_999_999;
    if let Ok(revision) = text.parse() {
        return Ok(PointInTime::Revision(revision));
    }
    if let Ok(Timestamp { seconds, nanos }) = Timestamp::parse(text) {
        let nanos = if nanos == 0 { END_OF_SECOND } else { nanos };
        return Ok(PointInTime::Time(Timestamp { seconds, nanos }));
    }
    let bad = || {
        format!("--at {text:?} is no resourceVersion, no time such as 2026-01-02T15:04:05Z and no duration")
    };
    let ago = pintle_meta::duration::GoDuration::parse(text).map_err(|_| bad())?.0;
    if ago < 0 {
        return Err(format!("--at {text:?} is in the future: a duration is counted back from now"));
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_err(|_| bad())?;
    let seconds = i64::try_from(now.as_secs()).map_err(|_| bad())?;
    let seconds = seconds.saturating_sub(ago / 1_000_000_000);
    Ok(PointInTime::Time(Timestamp { seconds, nanos: END_OF_SECOND }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        let args = line.split_whitespace().map(str::to_string).collect();
        parse(args).map(Option::unwrap_or_default)
    }

    #[test]
    fn command_lines() {
        let options = parsed("deploy/web -n prod --at=12 --field .spec.replicas -o json").unwrap();
        assert_eq!((options.kind.as_str(), options.name.as_str()), ("deploy", "web"));
        assert_eq!(options.namespace.as_deref(), Some("prod"));
        assert_eq!(options.at, Some(PointInTime::Revision(12)));
        assert!(options.json && options.field.is_some());
        for line in ["deploy web", "deploy web -o text", "-n default deploy web"] {
            let options = parsed(line).unwrap();
            assert_eq!(
                (options.kind.as_str(), options.name.as_str(), options.json),
                ("deploy", "web", false),
                "{line}"
            );
        }
        for wrong in [
            "",
            "web",
            "a/",
            "a b c",
            "a/b c",
            "a/b c/d",
            "a/b --at soon",
            "a/b --limit 0",
            "a/b -o xml",
            "a/b --nope",
            "a/b --at",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments() {
        let time = |text: &str| PointInTime::Time(Timestamp::parse(text).unwrap());
        assert_eq!(moment("2026-01-02T15:04:05.5Z"), Ok(time("2026-01-02T15:04:05.5Z")));
        assert_eq!(moment("2026-01-02T15:04:05Z"), Ok(time("2026-01-02T15:04:05.999999999Z")));
        assert_eq!(moment("7"), Ok(PointInTime::Revision(7)));
        assert!(matches!(moment("10m"), Ok(PointInTime::Time(_))));
        for wrong in ["yesterday", "-10m", ""] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    /// The log of an object that was created, scaled and deleted; `since` is the revision from which all changes are known.
    fn log_since(since: u64) -> Log {
        let version = |revision: u64, time: &str, change: &str, object: &str| Version {
            revision,
            time: Timestamp::parse(time).ok(),
            change: change.to_string(),
            object: pintle_value::json::parse(object.as_bytes()).ok().map(|parsed| parsed.value),
        };
        let versions = vec![
            version(5, "2026-01-02T15:04:05.5Z", "ADDED", r#"{"spec":{"replicas":1}}"#),
            version(7, "2026-01-02T15:04:07.5Z", "MODIFIED", r#"{"spec":{"replicas":2}}"#),
            version(9, "2026-01-02T15:04:09.5Z", "DELETED", ""),
        ];
        Log { versions, since, has_older: false }
    }

    #[test]
    fn the_object_at_a_moment() {
        let created =
            "there was no such object then: it was created with resourceVersion 5, 2026-01-02T15:04:05Z";
        let deleted =
            "there was no such object then: it was deleted with resourceVersion 9, 2026-01-02T15:04:09Z";
        let unknown =
            "nothing is retained from then: the oldest version has resourceVersion 5, 2026-01-02T15:04:05Z";
        for (since, at, want) in [
            (1, "5", Ok("1")),
            (1, "6", Ok("1")),
            (1, "7", Ok("2")),
            (1, "2026-01-02T15:04:05Z", Ok("1")),
            (1, "2026-01-02T15:04:07.4Z", Ok("1")),
            (1, "2026-01-02T15:04:07Z", Ok("2")),
            (1, "4", Err(created)),
            (5, "4", Err(unknown)),
            (1, "2026-01-02T15:04:04Z", Err(unknown)),
            (1, "9", Err(deleted)),
        ] {
            let line = format!("deploy/web --at {at} --field .spec.replicas");
            let found = render_log(&log_since(since), &parsed(&line).unwrap(), false);
            let found = found.as_ref().map(|text| text.trim_end()).map_err(String::as_str);
            assert_eq!(found, want, "{at}");
        }
    }
}
