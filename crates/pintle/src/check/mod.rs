//! `pintle check`: what the server would say to definitions, and with them to custom resources, without a server.

mod costs;
mod documents;
mod report;

use crate::objects;
use documents::Document;
use pintle_auth::UserInfo;
use pintle_engine::decode::Media;
use pintle_engine::{Body, Change, Engine, Target, WriteRequest};
use pintle_meta::options::FieldValidation;
use pintle_meta::{GroupVersion, Status};
use pintle_value::Value;
use report::{Finding, Outcome};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

const USAGE: &str = "\
Usage: pintle check FILE… [--json] [--strict]

Checks CustomResourceDefinitions, and the custom resources of these files that they define, as the server would when
they are created: with its code and its words, but without a server. FILE may be a folder, or - for stdin. What the CEL
rules of a definition may cost is shown beside their limits.

      --json    Write a list of what was found.
      --strict  Fail also when an object was skipped, or when nothing was checked.

Ends with 0 when everything would be accepted, with 1 when something would not, with 2 when it could not be read.
";

/// The code of an invocation that could not be carried out.
const UNREADABLE: u8 = 2;

/// Runs the command with the arguments after its name.
pub(crate) fn run(args: impl Iterator<Item = String>) -> ExitCode {
    let (mut json, mut strict, mut files) = (false, false, Vec::new());
    for arg in args {
        match arg.as_str() {
            "--json" => json = true,
            "--strict" => strict = true,
            "-h" | "--help" => return print(USAGE, ExitCode::SUCCESS),
            other if other.starts_with("--") => return refuse(&format!("unknown flag {other}")),
            _ => files.push(arg),
        }
    }
    if files.is_empty() {
        return refuse("no file is named (pintle check --help shows how it is used)");
    }
    let documents = match documents::read(&files) {
        Ok(documents) => documents,
        Err(why) => return refuse(&why),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let found = match runtime {
        Ok(runtime) => runtime.block_on(async { tokio::spawn(check(documents)).await }),
        Err(error) => return refuse(&error.to_string()),
    };
    let found = match found {
        Ok(Ok(found)) => found,
        Ok(Err(why)) => return refuse(&why),
        Err(error) => return refuse(&error.to_string()),
    };
    let skipped = found.iter().filter(|finding| matches!(finding.outcome, Outcome::Skipped(_))).count();
    if skipped == found.len() {
        _ = writeln!(std::io::stderr(), "pintle check: nothing was checked");
    }
    let refused = found.iter().any(|finding| matches!(finding.outcome, Outcome::Refused(_)));
    let bad = refused || (strict && (skipped > 0 || found.is_empty()));
    let text = if json { report::json(&found) } else { report::text(&found) };
    print(&text, if bad { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn print(text: &str, code: ExitCode) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => code,
        Err(_) => ExitCode::from(UNREADABLE),
    }
}

fn refuse(why: &str) -> ExitCode {
    _ = writeln!(std::io::stderr(), "pintle check: {why}");
    ExitCode::from(UNREADABLE)
}

/// Checks the documents: definitions first, whatever their order, then what they define.
async fn check(documents: Vec<Document>) -> Result<Vec<Finding>, String> {
    let engine = objects::in_memory().map_err(|error| error.to_string())?;
    let mut found: Vec<Option<Finding>> = Vec::with_capacity(documents.len());
    for document in &documents {
        found.push(if document.is_definition() { Some(definition(&engine, document).await) } else { None });
    }
    let mut all = Vec::with_capacity(documents.len());
    for (document, finding) in documents.iter().zip(found) {
        all.push(match finding {
            Some(finding) => finding,
            None => resource(&engine, document).await,
        });
    }
    Ok(all)
}

/// Checks a definition and, where nothing is wrong with it, serves what it defines.
async fn definition(engine: &Arc<Engine>, document: &Document) -> Finding {
    let target = engine.target("apiextensions.k8s.io", "v1", "customresourcedefinitions", "", "");
    let Some(target) = target else { return Finding::skipped(document, "definitions are not served") };
    let mut finding = create(engine, &target, document).await;
    finding.costs = costs::of(&document.tree);
    if let Outcome::Accepted(Some(accepted)) = &finding.outcome {
        let mut kind = engine.compile(accepted);
        // Nobody is asked to convert: objects are checked in the version they are written in.
        kind.conversion = None;
        if let Err(why) = engine.define(Arc::new(kind), false) {
            tracing::warn!("{why}");
        }
    }
    finding
}

/// Checks a custom resource whose definition is at hand.
async fn resource(engine: &Arc<Engine>, document: &Document) -> Finding {
    let version = GroupVersion::parse(document.tree.str_at(&["apiVersion"])).unwrap_or_default();
    let kinds = engine.registry.kinds();
    let Some((kind, at)) = kinds.by_kind(&version, document.tree.str_at(&["kind"])) else {
        return Finding::skipped(document, "no definition of it was given");
    };
    if kind.storage_version().schema.is_go() {
        return Finding::skipped(document, "it is no custom resource");
    }
    if !kind.versions.get(at).is_some_and(|version| version.served) {
        return Finding::skipped(document, "its version is not served");
    }
    let namespace = match (kind.namespaced, document.tree.str_at(&["metadata", "namespace"])) {
        (false, _) => "",
        (true, "") => "default",
        (true, given) => given,
    };
    let target = Target {
        kind: kind.clone(),
        version: at,
        namespace: namespace.into(),
        name: Default::default(),
        subresource: Default::default(),
    };
    create(engine, &target, document).await
}

/// What a create would be answered with.
async fn create(engine: &Engine, target: &Target, document: &Document) -> Finding {
    let request = WriteRequest {
        target: target.clone(),
        change: Change::Create(Body { bytes: document.body.clone(), media: Media::Yaml }),
        dry_run: true,
        field_manager: "pintle-check".into(),
        user_agent: String::new(),
        validation: Some(FieldValidation::Strict),
        user: UserInfo::new("check", &[UserInfo::MASTERS]),
    };
    let (outcome, warnings) = match engine.write(&request).await {
        Ok(written) => {
            let tree: Result<Value, Status> = engine.tree_in(target, &written.object, 0);
            (Outcome::Accepted(tree.ok()), written.warnings)
        }
        Err(mut status) => {
            let warnings = std::mem::take(&mut status.warnings);
            (Outcome::Refused(Box::new(status)), warnings)
        }
    };
    let mut finding = Finding::skipped(document, "");
    finding.outcome = outcome;
    // Clients are told the same thing once.
    for warning in warnings {
        if !finding.warnings.contains(&warning) {
            finding.warnings.push(warning);
        }
    }
    finding
}
