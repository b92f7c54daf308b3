//! `pintle owners`: the owners of each field of an object, since when and by which operation, and the conflicts that an
//! apply would have.

pub(crate) mod client;
pub(crate) mod config;
mod conflicts;
mod print;
pub(crate) mod resolve;
mod tree;

use crate::arguments::{self, Syntax};
use crate::check::documents;
use crate::output::{self, Output};
use crate::terminal;
use client::{Client, ClientError};
use conflicts::Applier;
use pintle_value::{Value, yaml};
use std::io::{Read, Write};
use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
Usage: pintle owners FILE|TYPE/NAME [-n NAMESPACE] [--kubeconfig FILE] [--tree] [--output text|wide|json]
       pintle owners -f FILE… [--field-manager NAME] [-n NAMESPACE] [--kubeconfig FILE] [--output text|json]

Prints an object with the manager of each field, like git blame: who set it last, by which operation (Apply or Update,
with the subresource) and when. The object comes from a manifest (FILE, or - for stdin) or from a server.

With -f, prints the conflicts that a server-side apply of FILE would have, determined with a dry run. FILE may be a folder,
or - for stdin. Exits with 1 if there are conflicts.

  -n, --namespace NAMESPACE  Namespace of the object (default: that of the kubeconfig)
      --kubeconfig FILE      Kubeconfig of the server (default: $KUBECONFIG or ~/.kube/config)
  -f, --filename FILE        Manifest to apply; may be repeated
      --field-manager NAME   Field manager of the apply (default kubectl)
      --tree                 Print a tree of fields for each manager
  -o, --output FORMAT        text (default), wide (all owners of a field, with version and subresource) or json
      --json                 Same as --output json
";

const SYNTAX: Syntax = Syntax {
    usage: USAGE,
    values: &["field-manager", "filename", "kubeconfig", "namespace", "output"],
    switches: &["json", "tree"],
    operands: 0..=2,
};

/// The largest manifest that is read, in bytes.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// Why there is no result, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnersError {
    #[error("cannot read {0}: {1}")]
    Read(String, std::io::Error),
    #[error("{0} is not a manifest: {1}")]
    Manifest(String, String),
    #[error("{0}")]
    Text(String),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("expected conflicts or rejections: {0}")]
    Conflicts(usize),
}

/// The command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// A file, `TYPE/NAME`, or `TYPE` and `NAME`.
    what: Vec<String>,
    files: Vec<String>,
    field_manager: Option<String>,
    namespace: Option<String>,
    kubeconfig: Option<PathBuf>,
    tree: bool,
    json: bool,
    wide: bool,
}

/// Runs the command with the arguments after its name.
pub(crate) fn run(args: Vec<String>) -> Result<(), OwnersError> {
    let Some(options) = parse(args).map_err(OwnersError::Text)? else { return Ok(()) };
    if !options.files.is_empty() {
        return expect_conflicts(&options);
    }
    let objects = objects(load(&options)?);
    if objects.iter().any(|object| object.items_at(&["metadata", "managedFields"]).is_empty()) {
        // kubectl omits them by default.
        let hint = "an object has no managedFields, so nobody is shown as an owner (kubectl get hides them: use --show-managed-fields)";
        _ = writeln!(std::io::stderr(), "pintle owners: {hint}");
    }
    if options.json {
        return write(&print::json(&objects));
    }
    let coloured = terminal::has_colours();
    let one = |object: &Value| {
        if options.tree { tree::text(object) } else { print::text(object, options.wide, coloured) }
    };
    write(&objects.iter().map(one).collect::<Vec<_>>().join("---\n"))
}

fn write(text: &str) -> Result<(), OwnersError> {
    output::write(text).map_err(OwnersError::Text)
}

/// Determines the expected conflicts of each document of the files by dry runs on the server.
fn expect_conflicts(options: &Options) -> Result<(), OwnersError> {
    let documents = documents::read(&options.files).map_err(OwnersError::Text)?;
    let config = config::load(options.kubeconfig.as_deref())?;
    let namespace = options.namespace.clone().unwrap_or_else(|| config.namespace.clone());
    let manager = options.field_manager.as_deref().unwrap_or("kubectl");
    let applier = Applier { manager, namespace: &namespace };
    let ask = async |connection: Client| {
        let mut all = Vec::with_capacity(documents.len());
        for document in &documents {
            all.push(conflicts::expect(&connection, document, &applier).await?);
        }
        Ok(all)
    };
    let all = Client::new(config)?.block_on(ask)?;
    let output = if options.json { Output::Json } else { Output::Text };
    output.print(&conflicts::text(&all), &conflicts::tree(&all)).map_err(OwnersError::Text)?;
    match all.iter().map(conflicts::Expected::problems).sum() {
        0 => Ok(()),
        count => Err(OwnersError::Conflicts(count)),
    }
}

fn parse(args: Vec<String>) -> Result<Option<Options>, String> {
    let Some(arguments) = arguments::parse(&SYNTAX, args)? else { return Ok(None) };
    let (json, wide) = match arguments.value("output") {
        None | Some("text") => (false, false),
        Some("wide") => (false, true),
        Some("json") => (true, false),
        Some(other) => return Err(format!("there is no output {other:?}: text, wide or json")),
    };
    let options = Options {
        what: arguments.operands().to_vec(),
        files: arguments.values("filename").map(str::to_string).collect(),
        field_manager: arguments.value("field-manager").map(str::to_string),
        namespace: arguments.value("namespace").map(str::to_string),
        kubeconfig: arguments.value("kubeconfig").map(PathBuf::from),
        tree: arguments.has("tree"),
        json: json || arguments.has("json"),
        wide,
    };
    match (options.what.is_empty(), options.files.is_empty()) {
        (true, true) => Err("say which object: FILE or TYPE/NAME, or a file to apply: -f FILE".to_string()),
        (false, false) => Err("either an object or -f FILE".to_string()),
        _ => Ok(Some(options)),
    }
}

/// Reads a manifest if there is such a file, otherwise an object of a server.
fn load(options: &Options) -> Result<Value, OwnersError> {
    if let [what] = options.what.as_slice() {
        if what == "-" {
            return read_manifest("stdin", std::io::stdin().lock());
        }
        if names_file(what) {
            let file = std::fs::File::open(what).map_err(|e| OwnersError::Read(what.to_string(), e))?;
            return read_manifest(what, file);
        }
    }
    let (kind, name) = resolve::type_and_name(&options.what).map_err(OwnersError::Text)?;
    let config = config::load(options.kubeconfig.as_deref())?;
    let namespace = options.namespace.clone().unwrap_or_else(|| config.namespace.clone());
    Ok(Client::new(config)?.block_on(|client| resolve::get(client, &kind, &name, &namespace))?)
}

/// Returns whether an operand is a file, or can be nothing else, so that the error says that it does not exist.
fn names_file(what: &str) -> bool {
    let ends = [".yaml", ".yml", ".json"];
    what.starts_with(['/', '.'])
        || !what.contains('/')
        || ends.iter().any(|end| what.ends_with(end))
        || std::path::Path::new(what).is_file()
}

fn read_manifest(name: &str, from: impl Read) -> Result<Value, OwnersError> {
    let mut bytes = Vec::new();
    from.take(MANIFEST_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|e| OwnersError::Read(name.to_string(), e))?;
    let parsed = yaml::parse(&bytes).map_err(|e| OwnersError::Manifest(name.to_string(), e.to_string()))?;
    if parsed.value.as_object().is_none() {
        return Err(OwnersError::Manifest(name.to_string(), "it holds no object".to_string()));
    }
    Ok(parsed.value)
}

/// The objects of a list, or the object itself.
fn objects(tree: Value) -> Vec<Value> {
    match tree.get("items") {
        Some(Value::Array(items)) if tree.str_at(&["kind"]).ends_with("List") => items.clone(),
        _ => vec![tree],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(str::to_string).collect()).map(Option::unwrap_or_default)
    }

    #[test]
    fn flags_may_stand_anywhere() {
        let options = parsed("deploy/web -n shop --kubeconfig=/k -o wide --json").unwrap();
        assert_eq!(
            options,
            Options {
                what: vec!["deploy/web".into()],
                namespace: Some("shop".into()),
                kubeconfig: Some("/k".into()),
                json: true,
                wide: true,
                ..Options::default()
            }
        );
        assert!(parsed("").unwrap_err().starts_with("say which object"));
        assert!(parsed("a -n").unwrap_err().starts_with("--namespace needs a value"));
        assert!(parsed("a --nope").unwrap_err().starts_with("unknown flag --nope"));
        assert_eq!(parsed("deploy web").unwrap().what, ["deploy", "web"]);
        assert!(parsed("a -f b").unwrap_err().starts_with("either an object or -f FILE"));
        assert_eq!(parsed("-f a --filename=b --tree").unwrap().files, ["a", "b"]);
    }

    #[test]
    fn what_cannot_be_an_object_is_a_file() {
        for (what, is_file) in
            [("deploy/web", false), ("/a", true), ("./a/b", true), ("a/b.yaml", true), ("web", true)]
        {
            assert_eq!(names_file(what), is_file, "{what}");
        }
        let error = load(&parsed("/nonexistent/object.yaml").unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /nonexistent/object.yaml: "), "{error}");
        let error = load(&parsed("a/b c").unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("one object at a time: \"a/b\", not also \"c\""), "{error}");
    }

    #[test]
    fn a_list_is_many_objects() {
        let list = yaml::parse(b"kind: List\nitems: [{kind: A}, {kind: B}]").unwrap().value;
        assert_eq!(objects(list).len(), 2);
        assert!(read_manifest("x", &b"[]"[..]).is_err());
        assert!(read_manifest("x", &b"a: [b"[..]).is_err());
    }
}
