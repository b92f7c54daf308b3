//! The current context of a kubeconfig, refused with client-go's errors.

use super::NO_CONFIGURATION;
use pintle_meta::errno::go_error_text;
use pintle_value::Value;
use std::path::Path;

/// Refuses the current context of a kubeconfig with client-go's errors.
pub fn validate(tree: &Value, folder: &Path) -> Result<(), String> {
    let current = Current::of(tree);
    current.validate(folder)?;
    server_url(&current.cluster, &current.user).map(drop)
}

/// The current context of a kubeconfig. Parts that are missing are null.
pub(super) struct Current<'a> {
    name: &'a str,
    is_missing: bool,
    pub(super) cluster_name: &'a str,
    pub(super) cluster: Value,
    pub(super) user_name: &'a str,
    pub(super) user: Value,
}

impl<'a> Current<'a> {
    pub(super) fn of(tree: &'a Value) -> Self {
        let named = |list: &str, name: &str, part: &str| {
            let mut all = tree.items_at(&[list]).iter();
            all.find(|entry| entry.str_at(&["name"]) == name)
                .map(|entry| entry.get(part).unwrap_or(&Value::Null))
        };
        let name = tree.str_at(&["current-context"]);
        let context = named("contexts", name, "context");
        let text = |key: &str| context.map_or("", |context| context.str_at(&[key]));
        let (cluster_name, user_name) = (text("cluster"), text("user"));
        let null_or_object = |found: Option<&Value>| match found {
            None => Value::Null,
            Some(found) => found.as_object().map_or_else(Value::object, |_| found.clone()),
        };
        Current {
            name,
            is_missing: context.is_none(),
            cluster_name,
            cluster: null_or_object(named("clusters", cluster_name, "cluster")),
            user_name,
            user: null_or_object(named("users", user_name, "user")),
        }
    }

    pub(super) fn validate(&self, folder: &Path) -> Result<(), String> {
        let mut errors = Vec::new();
        if self.is_missing && !self.name.is_empty() {
            errors.push(format!("context was not found for specified context: {}", self.name));
        }
        self.validate_user(folder, &mut errors);
        self.validate_cluster(folder, &mut errors);
        if self.cluster.is_null() && errors.len() == 1 {
            return Err(NO_CONFIGURATION.to_string());
        }
        invalid_configuration(&errors)
    }

    fn validate_cluster(&self, folder: &Path, errors: &mut Vec<String>) {
        if self.cluster.is_null() {
            return errors.push("cluster has no server defined".to_string());
        }
        let has = |key: &str| !self.cluster.str_at(&[key]).is_empty();
        if !has("server") {
            errors.push(match self.cluster_name {
                "" => "default cluster has no server defined".to_string(),
                name => format!("no server found for cluster \"{name}\""),
            });
        }
        if has("certificate-authority") && has("certificate-authority-data") {
            errors.push(format!(
                "certificate-authority-data and certificate-authority are both specified for {}. \
                 certificate-authority-data will override.",
                self.cluster_name
            ));
        }
        check_readable(
            &self.cluster,
            "certificate-authority",
            "certificate-authority",
            self.cluster_name,
            folder,
            errors,
        );
    }

    fn validate_user(&self, folder: &Path, errors: &mut Vec<String>) {
        let (name, user) = (self.user_name, &self.user);
        let has = |key: &str| !user.str_at(&[key]).is_empty();
        if has("client-certificate") || has("client-certificate-data") {
            if has("client-certificate") && has("client-certificate-data") {
                errors.push(format!(
                    "client-cert-data and client-cert are both specified for {name}. client-cert-data will override."
                ));
            }
            if has("client-key") && has("client-key-data") {
                errors.push(format!(
                    "client-key-data and client-key are both specified for {name}; client-key-data will override"
                ));
            }
            if !has("client-key") && !has("client-key-data") {
                errors.push(format!(
                    "client-key-data or client-key must be specified for {name} to use the clientCert \
                     authentication method."
                ));
            }
            check_readable(user, "client-certificate", "client-cert", name, folder, errors);
            check_readable(user, "client-key", "client-key", name, folder, errors);
        }
        if has("token") && (has("username") || has("password")) {
            errors.push(format!(
                "more than one authentication method found for {name}; found [token basicAuth], only one is allowed"
            ));
        }
        if ["as-uid", "as-groups", "as-user-extra"]
            .iter()
            .any(|key| user.get(key).is_some_and(|v| !v.is_null()))
            && !has("as")
        {
            errors.push(format!(
                "requesting uid, groups or user-extra for {name} without impersonating a user"
            ));
        }
    }
}

fn check_readable(
    tree: &Value,
    key: &str,
    called: &str,
    owner: &str,
    folder: &Path,
    errors: &mut Vec<String>,
) {
    let file = tree.str_at(&[key]);
    if file.is_empty() {
        return;
    }
    let path = folder.join(file);
    if let Err(error) = std::fs::File::open(&path) {
        let path = path.display();
        errors.push(format!(
            "unable to read {called} {path} for {owner} due to open {path}: {}",
            go_error_text(&error)
        ));
    }
}

pub(super) fn invalid_configuration(errors: &[String]) -> Result<(), String> {
    match errors {
        [] => Ok(()),
        [one] => Err(format!("invalid configuration: {one}")),
        many => Err(format!("invalid configuration: [{}]", many.join(", "))),
    }
}

/// The address of the server. As in client-go, one without a scheme is a host and a port, and the scheme is https if
/// there are certificates.
pub(super) fn server_url(cluster: &Value, user: &Value) -> Result<String, String> {
    let server = cluster.str_at(&["server"]);
    if let Some((scheme, rest)) = server.split_once("://")
        && !scheme.is_empty()
        && !rest.is_empty()
    {
        return Ok(server.to_string());
    }
    let has = |tree: &Value, key: &str| {
        !tree.str_at(&[key]).is_empty() || !tree.str_at(&[&format!("{key}-data")]).is_empty()
    };
    let is_secure = has(cluster, "certificate-authority") || has(user, "client-certificate");
    let (host, path) = server.split_once('/').unwrap_or((server, ""));
    let scheme = if is_secure { "https" } else { "http" };
    let url = format!("{scheme}://{server}");
    // What follows the last colon of a host, or the closing bracket of an IPv6 address, is the port.
    let port = match host.rfind(']') {
        Some(end) => host.get(end.saturating_add(1)..).unwrap_or(""),
        None => host.find(':').and_then(|colon| host.get(colon..)).unwrap_or(""),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("parse \"{url}\": invalid port \"{port}\" after host"));
    }
    if !path.is_empty() {
        return Err(format!("host must be a URL or a host:port pair: \"{server}\""));
    }
    Ok(url)
}
