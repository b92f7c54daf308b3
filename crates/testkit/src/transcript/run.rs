//! Replays one transcript against a server.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::body::{self, BodyError};
use super::compare::{Comparison, compare};
use super::file::{Step, Transcript, parse};
use super::normal::Normal;
use super::pointer::{lookup, plain};
use super::stream::{Next, Stream};
use crate::client::{Client, Request};
use crate::server::{ADMIN_TOKEN, ALICE_TOKEN};
use crate::wire::{Head, WireError};

const KEPT_HEADERS: [(&str, &str); 7] = [
    ("content-type", "Content-Type"),
    ("warning", "Warning"),
    ("retry-after", "Retry-After"),
    ("content-encoding", "Content-Encoding"),
    ("allow", "Allow"),
    ("location", "Location"),
    ("www-authenticate", "Www-Authenticate"),
];
const UNTIL_TIMEOUT: Duration = Duration::from_secs(30);
const UNTIL_PAUSE: Duration = Duration::from_millis(100);
const EVENTS_TIMEOUT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_millis(700);

/// Why a step has no response.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("the step cannot be read: {0}")]
    Step(&'static str),
}

/// A step whose response differs from the recorded one.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The step's title.
    pub title: String,
    /// The recorded response.
    pub want: Vec<String>,
    /// The server's response.
    pub got: Vec<String>,
    /// Whether only messages differ.
    pub wording_only: bool,
}

/// The result of replaying a transcript.
#[derive(Debug, Clone)]
pub struct FileReport {
    /// The transcript.
    pub path: PathBuf,
    /// The number of steps that are equal.
    pub passed: usize,
    /// The steps that differ.
    pub failures: Vec<Failure>,
}

impl FileReport {
    /// The number of steps that differ at most in messages.
    pub fn alike(&self) -> usize {
        self.passed + self.failures.iter().filter(|failure| failure.wording_only).count()
    }
}

/// Replays the transcript at `path` against the server of `client` and compares every response with the recorded one.
pub async fn check(client: &Client, path: &Path) -> io::Result<FileReport> {
    let (transcript, answers) = replay(client, path).await?;
    let mut report = FileReport { path: path.to_owned(), passed: 0, failures: Vec::new() };
    for (step, got) in transcript.steps.into_iter().zip(answers) {
        let ignored: Vec<&str> = step.notes_of("ignore").collect();
        match compare(&step.expect, &got, &ignored) {
            Comparison::Same => report.passed += 1,
            comparison => {
                let wording_only = comparison == Comparison::Wording;
                report.failures.push(Failure { title: step.title, want: step.expect, got, wording_only });
            }
        }
    }
    Ok(report)
}

/// Replays the transcript at `path` and replaces its responses with those of the server of `client`.
pub async fn record(client: &Client, path: &Path) -> io::Result<()> {
    let (mut transcript, answers) = replay(client, path).await?;
    for (step, got) in transcript.steps.iter_mut().zip(answers) {
        step.expect = got;
    }
    std::fs::write(path, transcript.render())
}

/// Sends every step of the transcript at `path`; returns it with the server's responses, one for each step.
async fn replay(client: &Client, path: &Path) -> io::Result<(Transcript, Vec<Vec<String>>)> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let transcript = parse(&std::fs::read_to_string(path).map_err(named)?);
    let mut run = Run::new(client);
    run.make_namespace().await;
    let mut answers = Vec::with_capacity(transcript.steps.len());
    for step in &transcript.steps {
        answers.push(run.run_step(step).await.unwrap_or_else(|error| vec![format!("< error {error}")]));
    }
    run.streams.clear();
    run.remove_namespace().await;
    Ok((transcript, answers))
}

struct Run {
    admin: Client,
    alice: Client,
    nobody: Client,
    vars: HashMap<String, String>,
    normal: Normal,
    streams: HashMap<String, Stream>,
}

/// The text of a response, and the document that `until` checks.
struct Rendered {
    status: u16,
    lines: Vec<String>,
    document: Value,
}

impl Run {
    fn new(client: &Client) -> Run {
        let id = six_letters();
        let vars = [("NS", format!("ns-{id}")), ("G", format!("g{id}.example.com")), ("ID", id)];
        let names = vars.iter().map(|(name, value)| (value.clone(), format!("${name}"))).collect();
        Run {
            admin: client.as_token(Some(ADMIN_TOKEN)),
            alice: client.as_token(Some(ALICE_TOKEN)),
            nobody: client.as_token(None),
            vars: vars.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            normal: Normal::new(names),
            streams: HashMap::new(),
        }
    }

    fn namespace(&self) -> &str {
        self.vars.get("NS").map_or("", String::as_str)
    }

    // Errors of this request become visible in the steps.
    async fn make_namespace(&self) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace()}});
        let _ = self.admin.post("/api/v1/namespaces", &body).await;
    }

    async fn remove_namespace(&self) {
        let _ = self.admin.delete(&format!("/api/v1/namespaces/{}", self.namespace())).await;
    }

    async fn run_step(&mut self, step: &Step) -> Result<Vec<String>, StepError> {
        if let Some(events) = step.note("events") {
            return self.read_events(events).await;
        }
        if let Some(seconds) = step.note("wait") {
            let seconds = seconds.parse().map_err(|_| StepError::Step("wait"))?;
            let pause = Duration::try_from_secs_f64(seconds).map_err(|_| StepError::Step("wait"))?;
            sleep(pause).await;
            return Ok(vec!["<".to_owned()]);
        }
        let end = Instant::now() + UNTIL_TIMEOUT;
        loop {
            let response = self.read_answer(step).await?;
            let mut met = true;
            for condition in step.notes_of("until") {
                met &= holds(&substitute(condition, &self.vars), &response)?;
            }
            if met || Instant::now() > end {
                return Ok(response.lines);
            }
            sleep(UNTIL_PAUSE).await;
        }
    }

    async fn read_events(&mut self, arguments: &str) -> Result<Vec<String>, StepError> {
        let mut words = arguments.split_whitespace();
        let (Some(name), Some(count)) = (words.next(), words.next()) else {
            return Err(StepError::Step("events"));
        };
        let (most, patience) = match count {
            "none" => (1, SILENCE),
            count => (count.parse().map_err(|_| StepError::Step("events"))?, EVENTS_TIMEOUT),
        };
        let end = Instant::now() + patience;
        let mut lines = vec!["<".to_owned()];
        for _ in 0..most {
            let next = match self.streams.get_mut(name) {
                Some(stream) => stream.next(end).await,
                None => Next::Closed,
            };
            match next {
                Next::Event(event) => lines.extend(body::pretty(&self.normal.tree(&event))),
                Next::Closed => {
                    lines.push("\"<closed>\"".to_owned());
                    break;
                }
                Next::Silence => break,
            }
        }
        Ok(lines)
    }

    async fn read_answer(&mut self, step: &Step) -> Result<Rendered, StepError> {
        let request = request_of(step, &self.vars)?;
        let client = match step.note("as").unwrap_or("admin") {
            "admin" => &self.admin,
            "alice" => &self.alice,
            _ => &self.nobody,
        };
        let mut streaming = client.open(&request).await?;
        let head = streaming.head.clone();
        let status = head.status;
        let content_type = head.all("content-type").collect::<Vec<_>>().join(", ");
        let mut lines = self.head_lines(&head);
        if let (Some(name), 200) = (step.note("stream"), status) {
            self.streams.insert(name.to_owned(), Stream::new(streaming, &content_type));
            return Ok(Rendered { status, lines, document: Value::Null });
        }
        if status == 101 {
            // The rest is another protocol, which transcripts do not record.
            return Ok(Rendered { status, lines, document: Value::Null });
        }
        let mut bytes = streaming.read_body().await?;
        self.nobody.give_back(streaming).await;
        if head.get("content-encoding") == Some("gzip") {
            bytes = body::gunzip(&bytes)?;
        }
        let Some(documents) = body::documents(&bytes, &content_type)? else {
            lines.extend(self.other_lines(&bytes, &content_type));
            return Ok(Rendered { status, lines, document: Value::Null });
        };
        let document = documents.first().cloned().unwrap_or(Value::Null);
        self.capture_values(step, &document)?;
        for response in &documents {
            let part = match step.note("only") {
                Some(pointer) => lookup(response, pointer).unwrap_or(&Value::Null),
                None => response,
            };
            lines.extend(body::pretty(&self.normal.tree(part)));
        }
        Ok(Rendered { status, lines, document })
    }

    fn head_lines(&mut self, head: &Head) -> Vec<String> {
        let mut lines = vec![format!("< {}", head.status)];
        for (name, title) in KEPT_HEADERS {
            let mut values: Vec<&str> = head.all(name).collect();
            values.sort_unstable();
            lines.extend(values.into_iter().map(|value| format!("< {title}: {}", self.normal.text(value))));
        }
        lines
    }

    fn other_lines(&mut self, bytes: &[u8], content_type: &str) -> Vec<String> {
        if content_type.contains("protobuf") {
            return vec![format!("protobuf {}", body::envelope(bytes))];
        }
        let text = self.normal.plain_text(&String::from_utf8_lossy(bytes));
        text.trim_end_matches('\n').split('\n').map(str::to_owned).collect()
    }

    fn capture_values(&mut self, step: &Step, document: &Value) -> Result<(), StepError> {
        for arguments in step.notes_of("capture") {
            let (name, pointer) =
                arguments.split_once(char::is_whitespace).ok_or(StepError::Step("capture"))?;
            let found = lookup(document, pointer.trim_start()).filter(|value| !is_empty(value));
            self.vars.insert(name.to_owned(), found.map(plain).unwrap_or_default());
        }
        Ok(())
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn request_of(step: &Step, vars: &HashMap<String, String>) -> Result<Request, StepError> {
    let (method, path) = step.request.as_ref().ok_or(StepError::Step("there is no request"))?;
    let mut request = Request::new(method, &substitute(path, vars));
    for line in &step.headers {
        let (name, value) = line.split_once(':').ok_or(StepError::Step("a header has no colon"))?;
        let (name, value) = (name.trim(), substitute(value.trim(), vars));
        match request.headers.iter_mut().find(|(n, _)| n == name) {
            Some(earlier) => earlier.1 = value,
            None => request.headers.push((name.to_owned(), value)),
        }
    }
    if !request.headers.iter().any(|(name, _)| name == "User-Agent") {
        request = request.header("User-Agent", "transcript/1");
    }
    if !step.body.is_empty() {
        request.body = Some(body::request_body(&substitute(&step.body.join("\n"), vars))?);
    }
    Ok(request)
}

/// Returns whether a condition of `until` holds: `status=200`, `/a/b=value`, `/a=<absent>`.
fn holds(condition: &str, response: &Rendered) -> Result<bool, StepError> {
    let (key, want) = condition.rsplit_once('=').ok_or(StepError::Step("until"))?;
    if key == "status" {
        return Ok(response.status.to_string() == want);
    }
    Ok(match lookup(&response.document, key) {
        None => want == "<absent>",
        Some(value) => value.to_string().trim_matches('"') == want,
    })
}

/// Replaces variables, `$NAME` and `${NAME}`; unknown ones are left unchanged.
fn substitute(text: &str, vars: &HashMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (name, taken) = variable_at(rest);
        match name.and_then(|name| vars.get(name)) {
            Some(value) => out.push_str(value),
            None => out.push_str(&rest[..taken]),
        }
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out
}

/// The name after a `$`, and its length including `$` and braces.
fn variable_at(text: &str) -> (Option<&str>, usize) {
    let word_length =
        |text: &str| text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let after = &text[1..];
    if let Some(inside) = after.strip_prefix('{') {
        let length = word_length(inside);
        if length > 0 && inside[length..].starts_with('}') {
            return (Some(&inside[..length]), length + 3);
        }
        return (None, 1);
    }
    match word_length(after) {
        0 => (None, 1),
        length => (Some(&after[..length]), length + 1),
    }
}

fn six_letters() -> String {
    let mut random = RandomState::new().hash_one(std::process::id());
    let letter = || {
        let letter = char::from(b'a' + (random % 26) as u8);
        random /= 26;
        letter
    };
    std::iter::repeat_with(letter).take(6).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables() {
        let vars = HashMap::from([("NS".to_owned(), "ns-x".to_owned()), ("A_1".to_owned(), String::new())]);
        let cases = [
            ("/n/$NS/c", "/n/ns-x/c"),
            ("${NS}y $NSy", "ns-xy $NSy"),
            ("$A_1|${A_1}|$", "||$"),
            ("${NS $-a ${} $${NS}", "${NS $-a ${} $ns-x"),
        ];
        for (text, want) in cases {
            assert_eq!(substitute(text, &vars), want);
        }
    }

    #[test]
    fn conditions() {
        let document =
            json!({"a": "b", "n": 0, "t": true, "q": "x \"y\" z", "c": [{"type": "R", "s": "T=U"}]});
        let response = Rendered { status: 200, lines: vec![], document };
        let cases = [
            ("status=200", true),
            ("status=201", false),
            ("/a=b", true),
            ("/n=0", true),
            ("/t=true", true),
            ("/q=x \\\"y\\\" z", true),
            ("/x=<absent>", true),
            ("/a=<absent>", false),
            ("/c[type=R]/type=R", true),
            ("/c[type=S]/type=<absent>", true),
        ];
        for (condition, want) in cases {
            assert_eq!(holds(condition, &response).unwrap(), want, "{condition}");
        }
    }
}
