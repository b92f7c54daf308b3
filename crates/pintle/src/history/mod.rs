//! `pintle history`: the retained versions of an object as a log: when, by whom, which verb, and what changed.

mod changes;
mod log;
mod print;
mod retention;

pub(crate) use retention::parse as retention;

use crate::owners::client::{Client, ClientError};
use crate::owners::{config, resolve};
use changes::FieldPath;
use log::{Log, Version};
use pintle_meta::time::Timestamp;
use pintle_value::{Value, json, yaml};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
Usage: pintle history TYPE/NAME [-n NAMESPACE] [--at RESOURCEVERSION|TIME] [--field PATH] [--kubeconfig FILE] [-o text|json]

Prints every retained version of an object, the newest first: when it was written, by which field manager, and what changed.
Deleted objects have a history, too. Requires the right to get the object.

      --at RESOURCEVERSION|TIME  Print the object at that time: 2026-01-02T15:04:05Z, or 10m for ten minutes ago.
      --field PATH               Follow one field: .spec.replicas, .metadata.labels[\"a.b/c\"], .spec.containers[0].image
      --limit NUMBER             Limit of printed versions (default 100).
  -n, --namespace NAMESPACE      Namespace of the object (default: that of the kubeconfig).
      --kubeconfig FILE          Kubeconfig of the server (default: $KUBECONFIG or ~/.kube/config).
  -o, --output FORMAT            text (default; with --at YAML) or json
";

/// The number of versions that are printed by default.
const DEFAULT_LIMIT: usize = 100;
/// The maximum number of versions that `--at` and `--field` examine.
const VERSIONS_MAX: usize = 10_000;

/// The error of the command, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HistoryError {
    #[error("{0} (pintle history --help explains the usage)")]
    Usage(String),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{0}")]
    Nothing(String),
    #[error("cannot write: {0}")]
    Write(std::io::Error),
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
    let mut out = std::io::stdout().lock();
    let Some(options) = parse(args)? else {
        return out.write_all(USAGE.as_bytes()).map_err(HistoryError::Write);
    };
    let config = config::load(options.kubeconfig.as_deref())?;
    let namespace = options.namespace.clone().unwrap_or_else(|| config.namespace.clone());
    let log = Client::new(config)?.block_on(|client| fetch(client, &options, &namespace))?;
    if log.versions.is_empty() {
        let what = format!("{}/{}", options.kind, options.name);
        let why = format!("{what}: no version is retained (changes since resourceVersion {} are)", log.since);
        return Err(HistoryError::Nothing(why));
    }
    let coloured = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let text = render_log(&log, &options, coloured)?;
    out.write_all(&text).map_err(HistoryError::Write)
}

fn render_log(log: &Log, options: &Options, coloured: bool) -> Result<Vec<u8>, HistoryError> {
    if let Some(moment) = options.at {
        let object = object_at(log, moment)?;
        let mut out = Vec::new();
        if options.json {
            json::print_pretty(object, &mut out);
            out.push(b'\n');
        } else {
            yaml::print(object, &mut out);
        }
        return Ok(out);
    }
    let limit = options.limit.unwrap_or(DEFAULT_LIMIT);
    if let Some(field) = &options.field
        && !print::has_field(log, field)
    {
        let why = format!("no retained version of {}/{} has this field", options.kind, options.name);
        return Err(HistoryError::Nothing(why));
    }
    let text = match (&options.field, options.json) {
        (Some(field), true) => print::field_as_json(log, field, limit),
        (Some(field), false) => print::field(log, field, limit, coloured),
        (None, true) => print::as_json(log, limit),
        (None, false) => print::text(log, limit, coloured),
    };
    Ok(text.into_bytes())
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
fn object_at(log: &Log, moment: PointInTime) -> Result<&Value, HistoryError> {
    let is_then = |version: &&Version| match moment {
        PointInTime::Revision(revision) => version.revision <= revision,
        PointInTime::Time(time) => version.time.is_some_and(|written| written <= time),
    };
    let Some(version) = log.versions.iter().rfind(is_then) else {
        let oldest = log.versions.first().map(|version| version.revision).unwrap_or(log.since);
        let why = format!("nothing is retained from then: the oldest version has resourceVersion {oldest}");
        return Err(HistoryError::Nothing(why));
    };
    version.object.as_ref().ok_or_else(|| {
        HistoryError::Nothing(format!(
            "there was no such object then: it was deleted at {}",
            version.revision
        ))
    })
}

fn parse(args: Vec<String>) -> Result<Option<Options>, HistoryError> {
    let usage = |text: String| HistoryError::Usage(text);
    let mut options = Options::default();
    let mut operands = Vec::new();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let (name, mut inline) = match arg.split_once('=') {
            Some((name, value)) if arg.starts_with("--") => (name, Some(value.to_string())),
            _ => (arg.as_str(), None),
        };
        let mut value =
            || inline.take().or_else(|| args.next()).ok_or_else(|| usage(format!("{name} needs a value")));
        match name {
            "-h" | "--help" => return Ok(None),
            "-n" | "--namespace" => options.namespace = Some(value()?),
            "--kubeconfig" => options.kubeconfig = Some(value()?.into()),
            "--at" => options.at = Some(moment(&value()?).map_err(usage)?),
            "--field" => options.field = Some(FieldPath::parse(&value()?).map_err(usage)?),
            "--limit" => {
                let number = value()?;
                let parsed = number.parse().ok().filter(|number| *number > 0);
                options.limit =
                    Some(parsed.ok_or_else(|| usage(format!("--limit {number:?} is no number")))?);
            }
            "-o" | "--output" => match value()?.as_str() {
                "text" => options.json = false,
                "json" => options.json = true,
                other => return Err(usage(format!("there is no output {other:?}: text or json"))),
            },
            flag if flag.starts_with('-') => return Err(usage(format!("unknown flag {flag}"))),
            _ => operands.push(arg),
        }
    }
    (options.kind, options.name) = resolve::type_and_name(&operands).map_err(usage)?;
    Ok(Some(options))
}

/// A resourceVersion, a time, or a duration before now.
fn moment(text: &str) -> Result<PointInTime, String> {
    if let Ok(revision) = text.parse() {
        return Ok(PointInTime::Revision(revision));
    }
    if let Ok(time) = Timestamp::parse(text) {
        return Ok(PointInTime::Time(time));
    }
    let bad = || {
        format!("--at {text:?} is no resourceVersion, no time such as 2026-01-02T15:04:05Z and no duration")
    };
    let nanos = pintle_meta::duration::GoDuration::parse(text).map_err(|_| bad())?.0;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_err(|_| bad())?;
    let seconds = i64::try_from(now.as_secs()).map_err(|_| bad())?;
    Ok(PointInTime::Time(Timestamp::from_seconds(seconds.saturating_sub(nanos / 1_000_000_000))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        let args = line.split_whitespace().map(str::to_string).collect();
        parse(args).map(Option::unwrap_or_default).map_err(|error| error.to_string())
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
        assert_eq!(moment("2026-01-02T15:04:05Z"), Ok(time("2026-01-02T15:04:05Z")));
        assert_eq!(moment("7"), Ok(PointInTime::Revision(7)));
        assert!(matches!(moment("10m"), Ok(PointInTime::Time(_))));
        assert!(moment("yesterday").is_err());
    }
}
