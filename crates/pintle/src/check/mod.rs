//! `pintle check`: validates manifests as the server would, including custom resources whose definitions are among them,
//! without a server.

mod costs;
pub(crate) mod documents;
mod junit;
mod mistyped;
mod report;
mod sarif;

use crate::arguments::{self, Syntax};
use crate::{objects, terminal};
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

pub(crate) const USAGE: &str = "\
Usage: pintle check FILE… [--output text|json|sarif|junit] [--strict]

Checks objects as the server does when they are created, with its code and messages, but without a server. Supports all
built-in kinds, and custom resources whose CustomResourceDefinitions are among the files. FILE may be a folder (*.yaml,
*.yml and *.json are read), or - for stdin: kustomize build . | pintle check -, helm template . | pintle check -. Errors have
the FILE:LINE:COLUMN of the field. The estimated costs of a definition's CEL rules are printed with their limits. Rules that
depend on other objects of a cluster (namespaces and their policies, service accounts, priority classes, quotas) are not
checked.

  -o, --output FORMAT  text (default), json, sarif (2.1.0) or junit (XML).
      --json           Same as --output json.
      --strict         Also fail if an object was skipped, or if nothing was checked.

Exits with 0 if everything would be accepted, with 1 if not, with 2 if something could not be read.
";

const SYNTAX: Syntax =
    Syntax { usage: USAGE, values: &["output"], switches: &["json", "strict"], operands: 1..=usize::MAX };

/// The exit code if the manifests could not be checked.
const UNREADABLE: u8 = 2;

/// The command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    format: Format,
    strict: bool,
    files: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Format {
    #[default]
    Text,
    Json,
    Sarif,
    Junit,
}

/// Runs the command with the arguments after its name.
pub(crate) fn run(args: Vec<String>) -> ExitCode {
    let options = match parse(args) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(why) => return print_refusal(&why),
    };
    let documents = match documents::read(&options.files) {
        Ok(documents) => documents,
        Err(why) => return print_refusal(&why),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let found = match runtime {
        Ok(runtime) => runtime.block_on(async { tokio::spawn(check(documents)).await }),
        Err(error) => return print_refusal(&error.to_string()),
    };
    let found = match found {
        Ok(Ok(found)) => found,
        Ok(Err(why)) => return print_refusal(&why),
        Err(error) => return print_refusal(&error.to_string()),
    };
    let text = match options.format {
        Format::Text => report::text(&found, terminal::has_colours()),
        Format::Json => report::json(&found),
        Format::Sarif => sarif::report(&found),
        Format::Junit => junit::report(&found),
    };
    print_and_exit(&text, code(&found, options.strict))
}

/// The exit code for CI.
fn code(found: &[Finding], strict: bool) -> ExitCode {
    let count = |is: fn(&Outcome) -> bool| found.iter().filter(|finding| is(&finding.outcome)).count();
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    if skipped == found.len() {
        _ = writeln!(std::io::stderr(), "pintle check: nothing was checked");
    }
    if count(|outcome| matches!(outcome, Outcome::Unreadable(_))) > 0 {
        return ExitCode::from(UNREADABLE);
    }
    let refused = count(|outcome| matches!(outcome, Outcome::Refused(_))) > 0;
    let bad = refused || (strict && (skipped > 0 || found.is_empty()));
    if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn parse(args: Vec<String>) -> Result<Option<Options>, String> {
    let Some(arguments) = arguments::parse(&SYNTAX, args)? else { return Ok(None) };
    let format = match arguments.value("output") {
        None if arguments.has("json") => Format::Json,
        None | Some("text") => Format::Text,
        Some("json") => Format::Json,
        Some("sarif") => Format::Sarif,
        Some("junit") => Format::Junit,
        Some(other) => return Err(format!("there is no output {other:?}: text, json, sarif or junit")),
    };
    let files = arguments.operands().to_vec();
    Ok(Some(Options { format, strict: arguments.has("strict"), files }))
}

fn print_and_exit(text: &str, code: ExitCode) -> ExitCode {
    match crate::output::write(text) {
        Ok(()) => code,
        Err(why) => print_refusal(&why),
    }
}

fn print_refusal(why: &str) -> ExitCode {
    _ = writeln!(std::io::stderr(), "pintle check: {why}");
    ExitCode::from(UNREADABLE)
}

/// Checks the documents: definitions first, then the other objects.
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

/// Checks a definition and, if it is valid, registers its kind.
async fn definition(engine: &Arc<Engine>, document: &Document) -> Finding {
    let target = engine.storage().target("apiextensions.k8s.io", "v1", "customresourcedefinitions", "", "");
    let Some(target) = target else {
        return Finding::new(document, Outcome::Skipped("definitions are not served"));
    };
    let mut finding = create(engine, &target, document).await;
    finding.costs = costs::of(&document.tree);
    if let Outcome::Accepted(Some(accepted)) = &finding.outcome {
        let mut kind = engine.storage().compile(accepted);
        // No conversion webhook is called: objects are checked in the version in which they are written.
        kind.conversion = None;
        if let Err(why) = engine.storage().define(Arc::new(kind), false) {
            tracing::warn!("{why}");
        }
    }
    finding
}

/// Checks an object of a built-in kind, or of a kind whose definition is among the documents.
async fn resource(engine: &Arc<Engine>, document: &Document) -> Finding {
    let skipped = |why| Finding::new(document, Outcome::Skipped(why));
    if let Some(why) = &document.error {
        return Finding::new(document, Outcome::Unreadable(why.clone()));
    }
    if document.tree.as_object().is_none() {
        return Finding::new(document, Outcome::Unreadable("it is no object".to_string()));
    }
    let kind = document.tree.str_at(&["kind"]);
    if kind.is_empty() {
        // Charts, values and Helm's own output are in the same folders and streams.
        return skipped("it has no kind");
    }
    let kinds = engine.storage().registry().kinds();
    if document.tree.str_at(&["apiVersion"]).is_empty() {
        // kubectl refuses it, too. Other tools have files with a kind of their own.
        if kinds.all().any(|known| known.kind == kind) {
            return Finding::new(document, Outcome::Unreadable("apiVersion is not set".to_string()));
        }
        return skipped("it has no apiVersion");
    }
    let version = GroupVersion::parse(document.tree.str_at(&["apiVersion"])).unwrap_or_default();
    if version.group == "kustomize.config.k8s.io" {
        return skipped("it is input of kustomize");
    }
    let Some((kind, at)) = kinds.by_kind(&version, kind) else {
        return skipped("no definition of it was given");
    };
    if !kind.versions.get(at).is_some_and(|version| version.served) {
        return skipped("its version is not served");
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

/// The answer to a create of the object.
async fn create(engine: &Engine, target: &Target, document: &Document) -> Finding {
    let request = WriteRequest {
        target: target.clone(),
        change: Change::Create(Body { bytes: document.body.clone(), media: Media::Yaml }),
        dry_run: true,
        field_manager: "pintle-check".into(),
        user_agent: String::new(),
        validation: Some(FieldValidation::Strict),
        user: UserInfo::new("check", &[UserInfo::MASTERS]).into(),
    };
    let (outcome, warnings) = match engine.writer().write(&request).await {
        Ok(written) => {
            let tree: Result<Value, Status> = engine.reader().tree_in(target, &written.object, 0);
            (Outcome::Accepted(tree.ok()), written.warnings)
        }
        Err(mut status) => {
            let warnings = std::mem::take(&mut status.warnings);
            (Outcome::Refused(Box::new(status)), warnings)
        }
    };
    let mut finding = Finding::new(document, outcome);
    if finding.has_unknown_fields() {
        // The server would report the other errors after these are corrected: report all at once.
        let lenient = WriteRequest { validation: Some(FieldValidation::Ignore), ..request };
        finding.further = engine.writer().write(&lenient).await.err().map(Box::new);
    }
    // Each warning is reported once.
    for warning in warnings {
        if !finding.warnings.contains(&warning) {
            finding.warnings.push(warning);
        }
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let parsed = |line: &str| {
            parse(line.split_whitespace().map(str::to_string).collect()).map(Option::unwrap_or_default)
        };
        let files = |all: &[&str]| all.iter().map(|file| file.to_string()).collect::<Vec<_>>();
        for (line, format, strict, named) in [
            ("a b", Format::Text, false, files(&["a", "b"])),
            ("--json -", Format::Json, false, files(&["-"])),
            ("a --output=sarif --strict", Format::Sarif, true, files(&["a"])),
            ("-o junit a", Format::Junit, false, files(&["a"])),
        ] {
            let want = Options { format, strict, files: named };
            assert_eq!(parsed(line), Ok(want), "{line}");
        }
        for (line, why) in [
            ("a -o", "--output needs a value"),
            ("a --output yaml", "there is no output \"yaml\": text, json, sarif or junit"),
            ("a --stritc", "unknown flag --stritc: did you mean --strict?"),
        ] {
            assert_eq!(parsed(line), Err(why.to_string()), "{line}");
        }
    }
}
