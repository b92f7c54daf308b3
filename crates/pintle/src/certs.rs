//! `pintle certs` and `pintle kubeconfig`: list the certificates of a data folder, and issue one for a user.

use crate::arguments::{self, Syntax};
use crate::data_dir::DataDir;
use crate::kubeconfig::Kubeconfig;
use crate::output::{Output, number, object};
use crate::pki::{self, Authority, KeyFolder};
use pintle_value::{Value, yaml};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};
use x509_parser::prelude::{FromDer, X509Certificate};

pub(crate) const LIST: Syntax = Syntax {
    usage: "\
Usage: pintle certs [--data-dir DIR] [-o text|json]

Lists the certificates and keys in DIR/pki with their subject, issuer and expiration. The server renews its own
certificates before they expire.

      --data-dir DIR   The server's data folder (default ./pintle-data)
  -o, --output FORMAT  text (default) or json
",
    values: &["data-dir", "output"],
    switches: &[],
    operands: 0..=0,
};

pub(crate) const KUBECONFIG: Syntax = Syntax {
    usage: "\
Usage: pintle kubeconfig --user NAME [--group GROUP]… [--days N] [--server URL] [--data-dir DIR] [-o text|json]

Issues a client certificate for a user, signed by the server's own CA, and prints a kubeconfig with it. Roles determine the
rights of the user. A certificate cannot be revoked before it expires.

      --user NAME      Name of the user
      --group GROUP    A group of the user; may be repeated
      --days N         Days until the certificate expires (default 365)
      --server URL     URL of the server (default: that of DIR/admin.kubeconfig)
      --data-dir DIR   The server's data folder (default ./pintle-data)
  -o, --output FORMAT  text (default; YAML) or json
",
    values: &["user", "group", "days", "server", "data-dir", "output"],
    switches: &[],
    operands: 0..=0,
};

const DAY_SECONDS: u64 = 24 * 3600;
/// The longest validity of an issued certificate in days.
const DAYS_MAX: u64 = 3650;

/// Runs `pintle certs`.
pub(crate) fn list(args: Vec<String>) -> Result<(), String> {
    let Some(arguments) = arguments::parse(&LIST, args)? else { return Ok(()) };
    let output = Output::parse(arguments.value("output"))?;
    let folder = arguments.data_dir().join("pki");
    let read = std::fs::read_dir(&folder)
        .map_err(|error| format!("{}: {error} (--data-dir names the data folder)", folder.display()))?;
    let mut names: Vec<String> =
        read.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let mut listed = Vec::new();
    let mut out =
        format!("{:<16} {:<44} {:<14} {:<22} {}\n", "FILE", "SUBJECT", "SIGNED BY", "UNTIL", "DAYS LEFT");
    for name in names.iter().filter(|name| name.ends_with(".crt")) {
        let path = folder.join(name);
        let pem = pki::read_file(&path).map_err(|error| error.to_string())?;
        for der in pki::certificates(&pem, &path).map_err(|error| error.to_string())? {
            let (_, certificate) =
                X509Certificate::from_der(&der).map_err(|error| format!("{}: {error}", path.display()))?;
            let now = i64::try_from(now).unwrap_or(i64::MAX);
            out.push_str(&certificate_row(name, &certificate, now));
            listed.push(in_json(name, &certificate, now));
        }
    }
    for name in names.iter().filter(|name| name.starts_with("sa") && name.ends_with(".pub")) {
        _ = writeln!(out, "{name:<16} {:<44} {:<14} does not end", "key of service-account tokens", "-");
        listed.push(object([("file", name.as_str().into()), ("use", "service-account tokens".into())]));
    }
    output.print(&out, &Value::Array(listed))
}

fn in_json(name: &str, certificate: &X509Certificate<'_>, now: i64) -> Value {
    let validity = certificate.validity();
    let text = |seconds: i64| Value::from(pintle_meta::Timestamp::from_seconds(seconds).rfc3339());
    let until = validity.not_after.timestamp();
    object([
        ("file", name.into()),
        ("subject", certificate.subject().to_string().into()),
        ("issuer", certificate.issuer().to_string().into()),
        ("notBefore", text(validity.not_before.timestamp())),
        ("notAfter", text(until)),
        ("secondsLeft", number(until.saturating_sub(now))),
    ])
}

fn certificate_row(name: &str, certificate: &X509Certificate<'_>, now: i64) -> String {
    let until = certificate.validity().not_after.timestamp();
    let left = until.saturating_sub(now).div_euclid(DAY_SECONDS.cast_signed());
    let left = if until <= now { "ENDED".to_string() } else { left.to_string() };
    let issuer = certificate.issuer().iter_common_name().next().and_then(|cn| cn.as_str().ok()).unwrap_or("");
    format!(
        "{name:<16} {:<44} {issuer:<14} {:<22} {left}\n",
        certificate.subject().to_string(),
        pintle_meta::Timestamp::from_seconds(until).rfc3339(),
    )
}

/// Runs `pintle kubeconfig`.
pub(crate) fn kubeconfig(args: Vec<String>) -> Result<(), String> {
    let Some(arguments) = arguments::parse(&KUBECONFIG, args)? else { return Ok(()) };
    let user = arguments.value("user").filter(|name| !name.is_empty()).ok_or("--user must be given")?;
    let groups: Vec<&str> = arguments.values("group").collect();
    let days = match arguments.value("days").map(str::parse) {
        None => 365,
        Some(Ok(days)) if (1..=DAYS_MAX).contains(&days) => days,
        Some(_) => return Err(format!("--days must be between 1 and {DAYS_MAX}")),
    };
    let path = arguments.data_dir();
    let (server, authority) = reach(&path.join("admin.kubeconfig"))?;
    let folder = DataDir::beside(&path).map_err(|error| error.to_string())?;
    let own = Authority::load(KeyFolder(Some(&folder)))
        .map_err(|error| error.to_string())?
        .ok_or_else(|| format!("{} has no authority of its own", path.display()))?;
    let pair = own
        .issue_client(user, &groups, Duration::from_secs(DAY_SECONDS.saturating_mul(days)))
        .map_err(|error| error.to_string())?;
    let text = Kubeconfig {
        server: arguments.value("server").unwrap_or(&server),
        user,
        authority: &authority,
        certificate: &pair.certificate,
        key: &pair.key,
    };
    let text = text.render();
    let tree = yaml::parse(text.as_bytes()).map_err(|error| error.to_string())?.value;
    Output::parse(arguments.value("output"))?.print(&text, &tree)
}

/// Address and CA of the server, from the administrator's kubeconfig.
fn reach(path: &Path) -> Result<(String, String), String> {
    let named = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let bytes = std::fs::read(path).map_err(|error| named(&error))?;
    let parsed = yaml::parse(&bytes).map_err(|error| named(&error))?;
    let clusters = parsed.value.items_at(&["clusters"]);
    let cluster = clusters.first().ok_or_else(|| named(&"it names no cluster"))?;
    let authority = cluster.str_at(&["cluster", "certificate-authority-data"]);
    let authority = crate::kubeconfig::decode(authority).ok_or_else(|| named(&"it has no authority"))?;
    Ok((cluster.str_at(&["cluster", "server"]).to_string(), authority))
}
