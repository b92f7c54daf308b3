//! The file of `--admission-control-config-file`, which configures plugins. Files are read once, at start.

use pintle_meta::errno::go_error_text;
use pintle_meta::field::quoted;
use pintle_meta::go_type::{GoStruct, GoType, head_type_error, missing_head, unregistered_kind};
use pintle_value::{Value, json, yaml};
use std::path::{Path, PathBuf};

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The reason why a plugin cannot be configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be used.
    #[error("failed to read plugin config: {0}")]
    File(String),
    /// The file that a plugin names cannot be read. This is a variant of its own because kube-apiserver exits with another code then.
    #[error(
        "Couldn't open admission plugin configuration {path}: &fs.PathError{{Op:\"{op}\", Path:{path:?}, Err:{errno:#x}}}"
    )]
    PluginFile {
        /// The file.
        path: String,
        /// The operation that failed.
        op: &'static str,
        /// The operating system's error number.
        errno: i32,
    },
}

/// The content of the file: the names of plugins and their configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdmissionConfiguration {
    plugins: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    name: String,
    path: Option<PathBuf>,
    configuration: Option<PluginConfig>,
}

/// The configuration of one plugin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PluginConfig {
    /// The document's text, for errors.
    pub(crate) text: String,
    /// The parsed document.
    tree: Result<Value, String>,
    /// The error of strict parsing.
    strict_error: Option<String>,
}

impl AdmissionConfiguration {
    /// Reads the file at `path`. `enabled` are the enabled plugins: a legacy file without a kind configures two of them.
    pub fn load(path: &Path, enabled: &[&str]) -> Result<Self, ConfigError> {
        let path_text = path.display().to_string();
        let text = read(path).map_err(|error| {
            let why = format!("open {path_text}: {}", go_error_text(&error));
            ConfigError::File(format!(
                "unable to read admission control configuration from {} [{why}]",
                quoted(&path_text)
            ))
        })?;
        Self::parse(&text, path, enabled).map_err(ConfigError::File)
    }

    fn parse(text: &[u8], path: &Path, enabled: &[&str]) -> Result<Self, String> {
        let config = PluginConfig::of_text(text);
        let tree = match config.decode(&SCHEME) {
            Ok(("AdmissionConfiguration", tree)) => tree,
            Ok((kind, _)) => return Err(format!("unexpected type: *apiserver.{kind}")),
            Err(DecodeError::Unknown(why)) => return read_legacy_file(&config, path, enabled).ok_or(why),
            Err(DecodeError::Invalid(why)) => return Err(why),
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        // kube-apiserver quotes an invalid JSON file unchanged.
        let is_json = config.text.trim_start().starts_with('{');
        let plugins = member(&config.text, "plugins").map(items).unwrap_or_default();
        let entry = |(index, plugin): (usize, &Value)| {
            let raw = plugins.get(index).and_then(|plugin| member(plugin, "configuration"));
            let given = plugin.get("configuration").filter(|value| !value.is_null());
            let file = Some(plugin.str_at(&["path"])).filter(|path| !path.is_empty());
            Entry {
                name: plugin.str_at(&["name"]).to_string(),
                path: file.map(|path| folder.join(path)),
                configuration: given.map(|tree| match raw.filter(|_| is_json) {
                    Some(raw) => PluginConfig::of_text(raw.as_bytes()),
                    None => PluginConfig::of_tree(tree),
                }),
            }
        };
        let plugins = tree.items_at(&["plugins"]).iter().enumerate().map(entry).collect();
        Ok(AdmissionConfiguration { plugins })
    }

    /// The configuration of a plugin; `None` if it has none.
    pub(crate) fn of_plugin(&self, name: &str) -> Result<Option<PluginConfig>, ConfigError> {
        let Some(entry) = self.plugins.iter().find(|entry| entry.name == name) else { return Ok(None) };
        if let Some(config) = &entry.configuration {
            return Ok(Some(config.clone()));
        }
        let Some(path) = &entry.path else { return Ok(None) };
        match read(path) {
            Ok(text) => Ok(Some(PluginConfig::of_text(&text))),
            Err(error) => Err(ConfigError::PluginFile {
                path: path.display().to_string(),
                op: if error.kind() == std::io::ErrorKind::IsADirectory { "read" } else { "open" },
                errno: error.raw_os_error().unwrap_or(0),
            }),
        }
    }
}

/// The text of a member of a JSON object, which was parsed successfully before.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let parts = items(object);
    let pair = |part: &'a str| {
        let end = value_end(part);
        let (key, rest) = part.split_at_checked(end)?;
        let value = rest.trim_start().strip_prefix(':')?.trim();
        (key.trim_matches('"') == name).then_some(value)
    };
    parts.into_iter().rev().find_map(pair)
}

/// The texts of the items of a JSON list or members of an object.
fn items(list: &str) -> Vec<&str> {
    let mut rest = list.trim().get(1..).unwrap_or("");
    let mut out = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ', '\t', '\r', '\n']);
        let mut end = 0;
        while let Some(byte) = rest.as_bytes().get(end).filter(|byte| !matches!(byte, b',' | b']' | b'}')) {
            let is_value = !matches!(byte, b':' | b' ' | b'\t' | b'\r' | b'\n');
            let length = if is_value { value_end(rest.get(end..).unwrap_or("")).max(1) } else { 1 };
            end = end.saturating_add(length);
        }
        match rest.split_at_checked(end) {
            Some((item, after)) if end > 0 => {
                out.push(item);
                rest = after;
            }
            _ => return out,
        }
    }
}

/// The end of the JSON value at the start of a text.
fn value_end(text: &str) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => {
                in_string = !in_string;
                if !in_string && depth == 0 {
                    return at.saturating_add(1);
                }
            }
            _ if in_string => {}
            b'{' | b'[' => depth = depth.saturating_add(1),
            b'}' | b']' if depth <= 1 => return at.saturating_add(depth),
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// Reads a legacy file without kind, which is itself the configuration of two plugins.
fn read_legacy_file(config: &PluginConfig, path: &Path, enabled: &[&str]) -> Option<AdmissionConfiguration> {
    let tree = config.tree.as_ref().ok()?;
    if tree.get("imagePolicy").is_none() && tree.get("podNodeSelectorPluginConfig").is_none() {
        return None;
    }
    let names = ["ImagePolicyWebhook", "PodNodeSelector"].into_iter().filter(|name| enabled.contains(name));
    let entry =
        |name: &str| Entry { name: name.to_string(), path: Some(path.to_path_buf()), configuration: None };
    Some(AdmissionConfiguration { plugins: names.map(entry).collect() })
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.len() <= FILE_BYTES_MAX {
        std::fs::read(path)
    } else {
        Err(std::io::Error::other("file too large"))
    }
}

/// The kinds that a configuration may have.
pub(crate) struct Scheme {
    /// Versions and kinds, each with its type.
    pub(crate) kinds: &'static [(&'static str, &'static str, &'static GoStruct)],
    /// Whether unknown fields are refused.
    pub(crate) strict: bool,
    /// kube-apiserver's name for it.
    pub(crate) place: &'static str,
}

/// The reason why a document cannot be decoded as a known kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The kind is missing or unknown.
    Unknown(String),
    /// The document does not match its kind.
    Invalid(String),
}

impl DecodeError {
    pub(crate) fn text(self) -> String {
        match self {
            DecodeError::Unknown(why) | DecodeError::Invalid(why) => why,
        }
    }
}

const PLUGIN: GoStruct = GoStruct(
    "AdmissionPluginConfiguration",
    &[("name", GoType::Text("string")), ("path", GoType::Text("string")), ("configuration", GoType::Any)],
);
const CONFIGURATION: GoStruct = GoStruct("AdmissionConfiguration", &[("plugins", GoType::Structs(&PLUGIN))]);
/// A kind of the scheme whose fields do not matter here.
const OTHER: GoStruct = GoStruct("", &[]);
const SCHEME: Scheme = Scheme {
    kinds: &[
        ("apiserver.config.k8s.io/v1", "AuthenticationConfiguration", &OTHER),
        ("apiserver.config.k8s.io/v1", "AuthorizationConfiguration", &OTHER),
        ("apiserver.config.k8s.io/v1", "EncryptionConfiguration", &OTHER),
        ("apiserver.config.k8s.io/v1", "AdmissionConfiguration", &CONFIGURATION),
        ("apiserver.k8s.io/v1alpha1", "AdmissionConfiguration", &CONFIGURATION),
    ],
    strict: true,
    place: "k8s.io/apiserver/pkg/server/options/admission.go:51",
};

impl PluginConfig {
    fn of_tree(tree: &Value) -> Self {
        let text = json::bytes(tree);
        let text = String::from_utf8_lossy(&text).into_owned();
        PluginConfig { text, tree: Ok(tree.clone()), strict_error: None }
    }

    pub(crate) fn of_text(text: &[u8]) -> Self {
        let parsed = if text.trim_ascii_start().starts_with(b"{") {
            match json::parse(text) {
                Ok(parsed) => Ok((parsed.value, None)),
                Err(error) => Err(error.to_string()),
            }
        } else {
            match yaml::parse(text) {
                Ok(parsed) => Ok((parsed.value, parsed.strict_error.map(|error| error.to_string()))),
                Err(error) => Err(error.message().to_string()),
            }
        };
        let text = String::from_utf8_lossy(text).into_owned();
        match parsed {
            Ok((tree, strict_error)) => PluginConfig { text, tree: Ok(tree), strict_error },
            Err(why) => PluginConfig { text, tree: Err(why), strict_error: None },
        }
    }

    /// The parsed document.
    pub(crate) fn tree(&self) -> Result<&Value, String> {
        self.tree.as_ref().map_err(Clone::clone)
    }

    /// An error of a decoder that converts YAML to JSON before it decodes.
    pub(crate) fn yaml_error(&self, why: &str) -> String {
        if self.text.trim_start().starts_with('{') {
            why.to_string()
        } else {
            format!("error unmarshaling JSON: while decoding JSON: {why}")
        }
    }

    /// Decodes the document as one of the scheme's kinds and returns which. The error has kube-apiserver's text.
    pub(crate) fn decode(&self, scheme: &Scheme) -> Result<(&'static str, Value), DecodeError> {
        let unread =
            |why: String| DecodeError::Invalid(format!("couldn't get version/kind; json parse error: {why}"));
        let tree = self.tree().map_err(unread)?;
        if let Some(error) = head_type_error(tree) {
            return Err(DecodeError::Invalid(error));
        }
        if let Some(error) = missing_head(self.text.as_bytes(), tree) {
            return Err(DecodeError::Unknown(error));
        }
        let (version, kind) = (tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
        let known = scheme.kinds.iter().find(|known| known.0 == version && known.1 == kind);
        let Some((_, kind, type_)) = known else {
            return Err(DecodeError::Unknown(unregistered_kind(kind, version, scheme.place)));
        };
        let package = version.rsplit('/').next().unwrap_or_default();
        let error = if scheme.strict {
            type_.strict_error(tree, package, self.strict_error.clone())
        } else {
            type_.type_error(tree, package)
        };
        error.map_or_else(|| Ok((*kind, tree.clone())), |error| Err(DecodeError::Invalid(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AdmissionConfiguration, String> {
        let path = Path::new("/etc/admission.yaml");
        AdmissionConfiguration::parse(text.as_bytes(), path, &["PodNodeSelector"])
    }

    #[test]
    fn files_name_plugins_and_their_configuration() {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
        let read =
            parse(&format!("{head}plugins: [{{name: A, configuration: {{x: 1}}}}, {{name: B, path: b}}]"));
        let read = read.unwrap();
        assert_eq!(read.of_plugin("A").unwrap().unwrap().text, r#"{"x":1}"#);
        assert_eq!(read.plugins[1].path.as_deref(), Some(Path::new("/etc/b")));
        assert_eq!(read.of_plugin("C"), Ok(None));
        let json = r#"{"kind": "AdmissionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1",
            "plugins": [{"name": "x]"}, {"name": "A", "configuration": { "x" : [1, {"y": "}"}] } }]}"#;
        let read = parse(json).unwrap();
        assert_eq!(read.of_plugin("A").unwrap().unwrap().text, r#"{ "x" : [1, {"y": "}"}] }"#);
        let legacy = parse("podNodeSelectorPluginConfig: {a: b=c}").unwrap();
        assert_eq!(legacy.plugins[0].path.as_deref(), Some(Path::new("/etc/admission.yaml")));
        for (text, want) in [
            (
                "kind: AdmissionConfiguration",
                "Object 'apiVersion' is missing in 'kind: AdmissionConfiguration'",
            ),
            ("a: b", "Object 'Kind' is missing in 'a: b'"),
            (
                "{{{",
                "couldn't get version/kind; json parse error: invalid character '{' looking for beginning of object key string",
            ),
            (
                &format!("{head}plugins: [{{name: 5}}]"),
                "json: cannot unmarshal number into Go struct field AdmissionPluginConfiguration.plugins.name of type string",
            ),
            (
                &format!("{head}plugins: [{{nam: x}}]"),
                "strict decoding error: unknown field \"plugins[0].nam\"",
            ),
        ] {
            assert_eq!(parse(text).err().as_deref(), Some(want), "{text}");
        }
    }
}
