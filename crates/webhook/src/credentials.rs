//! `Credentials`: the credentials of a kubeconfig for admission webhooks, by host and port.

use crate::kubeconfig::{self, Authorization};
use http::{HeaderName, HeaderValue, header};
use pintle_meta::errno::go_error_text;
use pintle_value::{Value, base64};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The users of a kubeconfig, whose names are hosts: `host:port`, `*.domain`, or `*` for all others.
#[derive(Clone, Default)]
pub struct Credentials(Option<Arc<Users>>);

struct Users {
    by_name: HashMap<String, User>,
    /// The user of the current context, for hosts that no name matches.
    current: Option<String>,
}

/// The credentials that the server sends to a webhook.
pub(crate) struct User {
    authorization: Result<Authorization, String>,
    impersonation: Vec<(HeaderName, HeaderValue)>,
    certificate: Part,
    key: Part,
}

/// PEM of a certificate and of its key.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A certificate or key: inline, or a file that is read when it is needed.
enum Part {
    Data(Vec<u8>),
    File(PathBuf),
}

impl Credentials {
    /// Reads a kubeconfig. The error is client-go's.
    pub fn load(path: &Path) -> Result<Self, String> {
        let tree = kubeconfig::read_file(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut by_name = HashMap::new();
        for entry in tree.items_at(&["users"]) {
            let user = User::read(entry.get("user").unwrap_or(&Value::Null), folder);
            by_name.insert(entry.str_at(&["name"]).to_string(), user);
        }
        let name = tree.str_at(&["current-context"]);
        let mut contexts = tree.items_at(&["contexts"]).iter();
        let context = contexts.find(|context| !name.is_empty() && context.str_at(&["name"]) == name);
        let current = context.map(|context| context.str_at(&["context", "user"]).to_string());
        Ok(Credentials(Some(Arc::new(Users { by_name, current }))))
    }

    /// The user for a host and port; `None` if the webhook gets no credentials.
    pub(crate) fn of(&self, host_port: &str) -> Option<&User> {
        let users = self.0.as_deref()?;
        let by_name = |name: &str| users.by_name.get(name);
        let without_port = host_port.strip_suffix(":443");
        let exact_or_domain = |target: &str| {
            let dots = target.match_indices('.').map(|(at, _)| at);
            let domains = dots.map(|at| format!("*{}", target.get(at..).unwrap_or("")));
            by_name(target).or_else(|| domains.into_iter().find_map(|name| users.by_name.get(&name)))
        };
        exact_or_domain(host_port)
            .or_else(|| without_port.and_then(exact_or_domain))
            .or_else(|| by_name("*"))
            .or_else(|| users.current.as_deref().and_then(by_name))
    }
}

impl User {
    fn read(user: &Value, folder: &Path) -> Self {
        let text = |key: &str| user.str_at(&[key]);
        let has_token = ["token", "tokenFile"].iter().any(|key| !text(key).is_empty());
        let both = has_token && !text("username").is_empty();
        let authorization = if user.get("auth-provider").is_some() {
            Err("auth provider not supported".to_string())
        } else if user.get("exec").is_some() {
            Err("plugins for credentials are not supported".to_string())
        } else if both {
            Err("username/password or bearer token may be set, but not both".to_string())
        } else {
            kubeconfig::read_authorization(user, folder)
        };
        User {
            authorization,
            impersonation: impersonation(user),
            certificate: Part::read(user, "client-certificate", folder),
            key: Part::read(user, "client-key", folder),
        }
    }

    /// The headers of a request.
    pub(crate) fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let mut headers = self.impersonation.clone();
        let authorization = self.authorization.as_ref().map_err(Clone::clone)?.header()?;
        headers.extend(authorization.map(|value| (header::AUTHORIZATION, value)));
        Ok(headers)
    }

    /// PEM of certificate and key, if there are any.
    pub(crate) fn certificate(&self) -> Result<Option<Pair>, String> {
        let (certificate, key) = (self.certificate.read_bytes()?, self.key.read_bytes()?);
        Ok((!certificate.is_empty() || !key.is_empty()).then_some((certificate, key)))
    }
}

/// The impersonation headers.
fn impersonation(user: &Value) -> Vec<(HeaderName, HeaderValue)> {
    let name = user.str_at(&["as"]);
    if name.is_empty() {
        return Vec::new();
    }
    let groups = user.items_at(&["as-groups"]).iter().filter_map(Value::as_str);
    let pairs = [("impersonate-user", name), ("impersonate-uid", user.str_at(&["as-uid"]))];
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let pairs = pairs.chain(groups.map(|group| ("impersonate-group", group)));
    let header = |(name, value): (&'static str, &str)| {
        Some((HeaderName::from_static(name), HeaderValue::from_str(value).ok()?))
    };
    pairs.filter_map(header).collect()
}

impl Part {
    fn read(user: &Value, key: &str, folder: &Path) -> Self {
        let data = user.str_at(&[&format!("{key}-data")]);
        match user.str_at(&[key]) {
            file if !file.is_empty() && data.is_empty() => Part::File(folder.join(file)),
            _ => Part::Data(base64::decode(data).unwrap_or_default()),
        }
    }

    fn read_bytes(&self) -> Result<Vec<u8>, String> {
        match self {
            Part::Data(bytes) => Ok(bytes.clone()),
            Part::File(path) => std::fs::read(path)
                .map_err(|error| format!("open {}: {}", path.display(), go_error_text(&error))),
        }
    }
}

/// Parses a kubeconfig for tests.
#[cfg(test)]
fn parse(text: &str) -> Credentials {
    let tree = pintle_value::yaml::parse(text.as_bytes()).unwrap().value;
    let user = |entry: &Value| {
        let read = User::read(entry.get("user").unwrap(), Path::new("/"));
        (entry.str_at(&["name"]).to_string(), read)
    };
    let by_name = tree.items_at(&["users"]).iter().map(user).collect();
    let current = Some(tree.str_at(&["current"]).to_string());
    Credentials(Some(Arc::new(Users { by_name, current })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_fits_best_counts() {
        let names = ["a.b.svc:443", "*.b.svc:443", "c.b.svc", "*.svc", "h:8443", "*", "me"];
        let users = names.map(|name| format!("{{name: '{name}', user: {{token: '{name}'}}}}"));
        let all = parse(&format!("users: [{}]", users.join(", ")));
        let few = parse("users: [{name: me, user: {token: me}}]\ncurrent: me");
        let authorization_header = |credentials: &Credentials, host: &str| {
            let headers = credentials.of(host).map(|user| user.headers().unwrap());
            headers.map_or(String::new(), |all| all[0].1.to_str().unwrap().to_string())
        };
        for (host, want) in [
            ("a.b.svc:443", "a.b.svc:443"),
            ("x.b.svc:443", "*.b.svc:443"),
            ("c.b.svc:443", "*.b.svc:443"),
            ("c.z.svc:443", "*.svc"),
            ("c.z.svc:444", "*"),
            ("h:8443", "h:8443"),
            ("h:1", "*"),
        ] {
            assert_eq!(authorization_header(&all, host), format!("Bearer {want}"), "{host}");
        }
        assert_eq!(authorization_header(&few, "h:1"), "Bearer me");
        assert_eq!(authorization_header(&Credentials::default(), "h:1"), "");
    }

    #[test]
    fn contradictions_are_refused() {
        let user = parse("users: [{name: '*', user: {token: a, username: b}}]");
        let why = user.of("h:1").unwrap().headers().unwrap_err();
        assert_eq!(why, "username/password or bearer token may be set, but not both");
    }
}
