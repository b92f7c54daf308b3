//! Reads kubeconfigs: the address of the server, and certificates or a token.

use super::client::ClientError;
use pintle_value::{Value, base64, yaml};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The address of a server and the credentials of a user.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) server: String,
    pub(crate) namespace: String,
    /// PEM of the authorities that are trusted.
    pub(crate) authority: Option<Vec<u8>>,
    /// Whether the server's certificate is not verified.
    pub(crate) insecure: bool,
    /// The name that the server's certificate must have, if it is not the host of the URL.
    pub(crate) server_name: String,
    /// PEM of the client's certificate and of its key.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) token: String,
}

/// Reads the given file, or the one that kubectl would read.
pub(crate) fn load(path: Option<&Path>) -> Result<Config, ClientError> {
    let path = match path {
        Some(path) => path.to_path_buf(),
        None => default_path().ok_or_else(|| ClientError::Config("there is no kubeconfig".to_string()))?,
    };
    let path_text = path.display();
    let bytes =
        std::fs::read(&path).map_err(|e| ClientError::Config(format!("cannot read {path_text}: {e}")))?;
    let parsed = yaml::parse(&bytes).map_err(|e| ClientError::Config(format!("{path_text}: {e}")))?;
    read(&parsed.value, path.parent().unwrap_or(Path::new("")))
        .map_err(|why| ClientError::Config(format!("{path_text}: {why}")))
}

fn default_path() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    choose_path(variable("KUBECONFIG"), variable("HOME"))
}

/// As in kubectl, the file in the home folder is not read if `KUBECONFIG` lists others, even if none of them exists: it may be
/// of another cluster.
fn choose_path(listed: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let Some(listed) = listed else { return Some(Path::new(&home?).join(".kube/config")) };
    let paths: Vec<PathBuf> = std::env::split_paths(&listed).filter(|p| !p.as_os_str().is_empty()).collect();
    paths.iter().find(|path| path.is_file()).or(paths.first()).cloned()
}

/// Reads the current context. Paths are relative to `dir`.
fn read(tree: &Value, dir: &Path) -> Result<Config, String> {
    let context = entry_named(tree, "contexts", "context", tree.str_at(&["current-context"]))?;
    let cluster = entry_named(tree, "clusters", "cluster", context.str_at(&["cluster"]))?;
    let user = match context.str_at(&["user"]) {
        "" => &Value::Null,
        name => entry_named(tree, "users", "user", name)?,
    };
    for unread in ["exec", "auth-provider", "username"] {
        if user.get(unread).is_some_and(|v| !v.is_null()) {
            return Err(format!("users with {unread} are not understood, only certificates and tokens"));
        }
    }
    let certificate = pem(user, "client-certificate", dir)?;
    let key = pem(user, "client-key", dir)?;
    let mut token = user.str_at(&["token"]).to_string();
    let file = user.str_at(&["tokenFile"]);
    if token.is_empty() && !file.is_empty() {
        token =
            std::fs::read_to_string(dir.join(file)).map_err(|e| format!("{file}: {e}"))?.trim().to_string();
    }
    let namespace = context.str_at(&["namespace"]);
    Ok(Config {
        server: cluster.str_at(&["server"]).trim_end_matches('/').to_string(),
        namespace: if namespace.is_empty() { "default".to_string() } else { namespace.to_string() },
        authority: pem(cluster, "certificate-authority", dir)?,
        insecure: cluster.get("insecure-skip-tls-verify").and_then(Value::as_bool).unwrap_or(false),
        server_name: cluster.str_at(&["tls-server-name"]).to_string(),
        identity: certificate.zip(key),
        token,
    })
}

fn entry_named<'v>(tree: &'v Value, list: &str, what: &str, name: &str) -> Result<&'v Value, String> {
    let items = tree.items_at(&[list]);
    let found = items.iter().find(|item| item.str_at(&["name"]) == name).and_then(|item| item.get(what));
    found.ok_or_else(|| format!("there is no {what} {name:?}"))
}

/// The content of `key-data`, or of the file that `key` names.
fn pem(tree: &Value, key: &str, dir: &Path) -> Result<Option<Vec<u8>>, String> {
    let data = tree.str_at(&[&format!("{key}-data")]);
    if !data.is_empty() {
        return base64::decode(data).map(Some).map_err(|e| format!("{key}-data: {e}"));
    }
    match tree.str_at(&[key]) {
        "" => Ok(None),
        file => std::fs::read(dir.join(file)).map(Some).map_err(|e| format!("{file}: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, String> {
        read(&yaml::parse(text.as_bytes()).unwrap().value, Path::new("/nowhere"))
    }

    #[test]
    fn the_home_folder_counts_only_without_a_list() {
        let home = Some(OsString::from("/home/a"));
        let here = std::env::current_dir().unwrap().join("Cargo.toml").display().to_string();
        for (listed, expected) in [
            (None, "/home/a/.kube/config"),
            (Some("/nowhere/a"), "/nowhere/a"),
            (Some(":/nowhere/a:/nowhere/b"), "/nowhere/a"),
            (Some(format!("/nowhere/a:{here}").as_str()), here.as_str()),
        ] {
            let chosen = choose_path(listed.map(OsString::from), home.clone());
            assert_eq!(chosen, Some(PathBuf::from(expected)), "{listed:?}");
        }
        assert_eq!(choose_path(None, None), None);
    }

    #[test]
    fn the_current_context_counts() {
        let text = "current-context: b
contexts: [{name: a, context: {}}, {name: b, context: {cluster: c, user: u, namespace: ns}}]
clusters: [{name: c, cluster: {server: 'https://h:1/', certificate-authority-data: aGk=}}]
users: [{name: u, user: {token: t}}]";
        let config = config(text).unwrap();
        assert_eq!((config.server.as_str(), config.namespace.as_str()), ("https://h:1", "ns"));
        assert_eq!((config.authority.as_deref(), config.token.as_str()), (Some(&b"hi"[..]), "t"));
        assert!(!config.insecure && config.identity.is_none());
    }

    #[test]
    fn what_is_missing_or_not_understood_is_named() {
        assert_eq!(config("{}").unwrap_err(), "there is no context \"\"");
        let user = |user: &str| {
            format!(
                "current-context: b\ncontexts: [{{name: b, context: {{cluster: c, user: u}}}}]\n\
                 clusters: [{{name: c, cluster: {{server: 'https://h'}}}}]\nusers: [{{name: u, user: {user}}}]"
            )
        };
        assert!(config(&user("{exec: {command: x}}")).unwrap_err().starts_with("users with exec"));
        assert!(config(&user("{client-key: gone.pem}")).unwrap_err().starts_with("gone.pem: "));
        assert_eq!(config(&user("{}")).unwrap().namespace, "default");
    }
}
