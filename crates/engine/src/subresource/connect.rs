//! Streams to pods, services and nodes: the options that a client gives are admitted before anybody is looked for.

use crate::{Engine, Target, decode};
use pintle_admission::{Attributes, Operation, Options};
use pintle_auth::UserInfo;
use pintle_meta::Status;
use pintle_meta::options::Query;
use pintle_value::Value;

/// Options that are switches, texts, lists of texts and lists of numbers.
const SWITCHES: [&str; 4] = ["stdin", "stdout", "stderr", "tty"];
const TEXTS: [&str; 1] = ["container"];
const LISTS: [&str; 1] = ["command"];
const NUMBERS: [&str; 1] = ["ports"];

impl Engine {
    /// Why a stream cannot be had: somebody does not want it, or nobody can be reached. `path` is what comes behind
    /// `proxy`.
    pub async fn connect(&self, target: &Target, user: &UserInfo, query: Query<'_>, path: &str) -> Status {
        let mut warnings = Vec::new();
        match self.admit_connection(target, user, query, path, &mut warnings).await {
            Err(status) => status.with_warnings(warnings),
            Ok(()) => self.stream_refusal(target, query.text("container")).with_warnings(warnings),
        }
    }

    async fn admit_connection(
        &self,
        target: &Target,
        user: &UserInfo,
        query: Query<'_>,
        path: &str,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        if !self.asks_others() {
            return Ok(());
        }
        let face = self.face(target)?;
        let mut options = options(&face, query, path);
        let attributes = Attributes {
            operation: Operation::Connect,
            kind: &target.kind,
            version: target.kind_version(),
            namespace: &target.namespace,
            name: &target.name,
            subresource: &target.subresource,
            old: None,
            user,
            dry_run: false,
            options: Options::None,
        };
        self.mutate_admitted(&attributes, &face, Some(&mut options), warnings).await?;
        self.validate_admitted(&attributes, &face, Some(&options), warnings).await
    }
}

/// The options of a stream as an object.
fn options(face: &Target, query: Query<'_>, path: &str) -> Value {
    let mut out = Value::object();
    let version = face.kind_version();
    out.set_at(&["kind"], face.kind.kind.as_str().into());
    out.set_at(&["apiVersion"], decode::api_version(&version.group, &version.name).into());
    let is_of = |kinds: &[&str]| kinds.contains(&face.kind.kind.as_str());
    if is_of(&["PodExecOptions", "PodAttachOptions"]) {
        for key in SWITCHES.into_iter().filter(|key| query.switch(key) == Some(true)) {
            out.set_at(&[key], Value::Bool(true));
        }
        for key in TEXTS.into_iter().filter(|key| !query.text(key).is_empty()) {
            out.set_at(&[key], query.text(key).into());
        }
    }
    for key in LISTS.into_iter().filter(|_| is_of(&["PodExecOptions"])) {
        let texts = query.all(key).into_iter().map(Value::String).collect();
        out.set_at(&[key], Value::Array(texts));
    }
    for key in NUMBERS.into_iter().filter(|_| is_of(&["PodPortForwardOptions"])) {
        let numbers: Vec<Value> =
            query.all(key).iter().filter_map(|text| text.parse().ok()).map(Value::Int).collect();
        if !numbers.is_empty() {
            out.set_at(&[key], Value::Array(numbers));
        }
    }
    if !path.is_empty() && is_of(&["PodProxyOptions", "ServiceProxyOptions", "NodeProxyOptions"]) {
        out.set_at(&["path"], path.into());
    }
    out
}
