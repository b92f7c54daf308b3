//! The flags about operation: logs, TLS, CORS, shutdown.

use crate::config::Config;
use crate::flag_checks;
use crate::flags::{FlagError, FlagValues, Flags};
use pintle_http::tls::TlsSettings;
use pintle_http::{Cors, Pages};
use pintle_log::{Format, VModule};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// The values of the flags about TLS, connections, shutdown, profiling and tracing.
pub(crate) struct Operation {
    pub(crate) tls: TlsSettings,
    /// Certificates by server name (SNI).
    pub(crate) named_certificates: Vec<NamedFiles>,
    pub(crate) cors: Option<Cors>,
    pub(crate) goaway_chance: f64,
    pub(crate) sends_retry_after: bool,
    /// Whether watches end before requests in flight are answered.
    pub(crate) ends_watches_first: bool,
    pub(crate) profiling: bool,
    /// Whether `/logs` is served.
    pub(crate) serves_logs: bool,
    /// The unix socket for profiles, if there is one.
    pub(crate) debug_socket: Option<PathBuf>,
    /// The destination of traces, if tracing is enabled.
    pub(crate) tracing: Option<pintle_trace::Settings>,
    /// All flags for `/flagz`: kube-apiserver's, and our own.
    pub(crate) flags: (FlagValues, FlagValues),
    pub(crate) started: SystemTime,
}

/// The files of a certificate, and the names that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) names: Vec<String>,
}

/// The suites that Go supports. Those of TLS 1.2 with forward secrecy and authenticated encryption are supported
/// here; others are accepted but never offered.
const SUITES: [&str; 27] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

const WATCH_LINGER: Duration = Duration::from_secs(15);

/// The key exchanges that Go supports, by number: P-256, P-384, P-521, X25519, and those with ML-KEM.
const CURVES: [u16; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

impl Operation {
    /// Reads the flags.
    pub(crate) fn new(flags: &Flags) -> Result<Self, FlagError> {
        Ok(Operation {
            tls: tls_settings(flags)?,
            named_certificates: named_certificates(&flags.values("tls-sni-cert-key"))?,
            cors: cors(flags)?,
            goaway_chance: goaway_chance(flags),
            sends_retry_after: flags.bool("shutdown-send-retry-after"),
            ends_watches_first: !flags.duration("shutdown-watch-termination-grace-period").is_zero(),
            profiling: flags.bool("profiling"),
            serves_logs: flags.bool("enable-logs-handler"),
            debug_socket: Some(flags.text("debug-socket-path"))
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            tracing: crate::tracing_config::read(flags)?,
            flags: flags.effective(),
            started: SystemTime::now(),
        })
    }

    /// The content of `/flagz` and `/statusz`.
    pub(crate) fn pages(&self, config: &Config) -> Pages {
        let (flags, own_flags) = self.flags.clone();
        Pages {
            flags,
            own_flags,
            started: self.started,
            flagz: config.gate("ComponentFlagz"),
            statusz: config.gate("ComponentStatusz"),
        }
    }

    /// How long watches stay open during shutdown. If `--shutdown-delay-duration` gives clients time to leave, watches
    /// get that time too; otherwise they end at once.
    pub(crate) fn watch_linger(&self, shutdown_delay: Duration) -> Duration {
        let lingers = !shutdown_delay.is_zero() && !self.sends_retry_after && !self.ends_watches_first;
        if lingers { WATCH_LINGER } else { Duration::ZERO }
    }

    /// How long to wait for requests in flight: the longest time that one may take.
    pub(crate) fn drain_timeout(request_timeout: Duration) -> Duration {
        request_timeout.max(Duration::from_secs(1))
    }
}

/// The verbosities of `--vmodule`.
pub(crate) fn modules(flags: &Flags) -> Result<VModule, FlagError> {
    let modules = flags.list("vmodule").join(",");
    VModule::parse(&modules)
        .map_err(|why| FlagError::new(&format!("invalid argument {modules:?} for \"--vmodule\" flag: {why}")))
}

/// Starts the log according to the flags.
pub(crate) fn start_log(flags: &Flags) -> Result<(), FlagError> {
    let modules = modules(flags)?;
    flag_checks::check_log(flags)?;
    let format = if flags.text("logging-format") == "json" { Format::Json } else { Format::Text };
    let verbosity = u32::try_from(flags.int("v")).unwrap_or(0);
    let split = match format {
        Format::Text => flags.bool("log-text-split-stream"),
        Format::Json => flags.bool("log-json-split-stream"),
    };
    pintle_log::start(format, split, verbosity, modules);
    let (all, own) = flags.effective();
    for (name, value) in all.iter().chain(&own) {
        tracing::info!("FLAG: --{name}={value:?}");
    }
    Ok(())
}

fn tls_settings(flags: &Flags) -> Result<TlsSettings, FlagError> {
    let only_tls13 = match flags.text("tls-min-version") {
        // TLS 1.0 and 1.1 are never offered, even if the flag allows them.
        "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => false,
        "VersionTLS13" => true,
        other => return Err(FlagError::new(&format!("unknown tls version {other:?}"))),
    };
    let cipher_suites = flags.list("tls-cipher-suites");
    if let Some(unknown) = cipher_suites.iter().find(|name| !SUITES.contains(&name.as_str())) {
        return Err(FlagError::new(&format!("Cipher suite {unknown} not supported or doesn't exist")));
    }
    // Go does not serve HTTP/2 without a cipher suite that all of its clients have.
    let required = ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];
    let lacks_required =
        !cipher_suites.is_empty() && !cipher_suites.iter().any(|name| required.contains(&name.as_str()));
    if lacks_required && !only_tls13 && !flags.bool("disable-http2-serving") {
        return Err(FlagError::new(&format!(
            "error configuring http2: http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 cipher (need \
             at least one of {})",
            required.join(" or ")
        )));
    }
    let mut curves = Vec::new();
    for text in flags.list("tls-curve-preferences") {
        let range = || FlagError::new(&format!("curve preference {text} is out of range (must be 1-65535)"));
        let number: u16 = text.parse().map_err(|_| range())?;
        let why = match number {
            0 => return Err(range()),
            known if curves.contains(&known) => format!("duplicate curve preference {known}"),
            unknown if !CURVES.contains(&unknown) => {
                format!("curve preference {unknown} is not supported by the current Go version")
            }
            _ => {
                curves.push(number);
                continue;
            }
        };
        return Err(FlagError::new(&why));
    }
    Ok(TlsSettings { only_tls13, cipher_suites, curves })
}

/// Parses values of the form `certfile,keyfile` or `certfile,keyfile:name,name`.
pub(crate) fn named_certificates(values: &[String]) -> Result<Vec<NamedFiles>, FlagError> {
    let wrong = |value: &str, why: &str| {
        FlagError::new(&format!("invalid argument {value:?} for \"--tls-sni-cert-key\" flag: {why}"))
    };
    let mut all = Vec::new();
    for value in values {
        let (files, names) =
            value.split_once(':').map_or((value.as_str(), None), |(f, n)| (f, Some(n.trim())));
        if names == Some("") {
            return Err(wrong(value, "empty names list is not allowed"));
        }
        let paths: Vec<&str> = files.split(',').map(str::trim).collect();
        let [certificate, key] = paths[..] else {
            return Err(wrong(value, "expected comma separated certificate and key file paths"));
        };
        let names = names.into_iter().flat_map(|names| names.split(',')).map(|name| name.trim().to_string());
        all.push(NamedFiles { certificate: certificate.into(), key: key.into(), names: names.collect() });
    }
    Ok(all)
}

/// The help text of the flag, which kube-apiserver adds to its errors.
const CORS_HELP: &str = "List of allowed origins for CORS, comma separated. An allowed origin can be a regular expression to \
                         support subdomain matching. If this list is empty CORS will not be enabled. Please ensure each \
                         expression matches the entire hostname by anchoring to the start with '^' or including the '//' \
                         prefix, and by anchoring to the end with '$' or including the ':' port separator suffix. Examples \
                         of valid expressions are '//example\\.com(:|$)' and '^https://example\\.com(:|$)'";

/// Parses CORS patterns. They must match the host at both ends, otherwise `example.com.evil.org` would match.
fn cors(flags: &Flags) -> Result<Option<Cors>, FlagError> {
    FlagError::aggregate(cors_errors(flags))?;
    let patterns = flags.list("cors-allowed-origins");
    if patterns.is_empty() {
        return Ok(None);
    }
    Cors::new(&patterns).map(Some).map_err(|why| FlagError::new(&why))
}

/// Errors of the patterns of `--cors-allowed-origins`.
pub(crate) fn cors_errors(flags: &Flags) -> Vec<String> {
    let mut errors = Vec::new();
    for pattern in flags.list("cors-allowed-origins") {
        let starts = pattern.contains('^') || pattern.contains("//");
        let ends = pattern.contains('$') || pattern.contains(':');
        let why = match Cors::new(std::slice::from_ref(&pattern)) {
            Err(why) => why,
            Ok(_) if starts && ends => continue,
            Ok(_) => "regular expression does not pin to start/end of host in the origin header".to_string(),
        };
        errors.push(format!(
            "--cors-allowed-origins has an invalid regular expression: {why}, help: {CORS_HELP}"
        ));
    }
    errors
}

fn goaway_chance(flags: &Flags) -> f64 {
    flags.text("goaway-chance").parse().unwrap_or(0.0)
}

/// The error of a chance of a GOAWAY that is out of range.
pub(crate) fn goaway_error(flags: &Flags) -> Option<String> {
    let chance = goaway_chance(flags);
    // In Go no comparison with NaN holds, so it is accepted.
    let is_accepted = chance.is_nan() || (0.0..=0.02).contains(&chance);
    (!is_accepted).then(|| "--goaway-chance can not be less than 0 or greater than 0.02".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Invocation, parse};

    fn operation(line: &str) -> Result<Operation, String> {
        match parse(line.split_whitespace().map(str::to_string)) {
            Ok(Invocation::Serve(flags)) => Operation::new(&flags).map_err(|e| e.to_string()),
            Ok(Invocation::Print(_)) => Err("printed".into()),
            Err(e) => Err(e.to_string()),
        }
    }

    #[test]
    fn wrong_values_are_refused_in_the_words_of_kube_apiserver() {
        for (line, want) in [
            ("--tls-min-version=1.3", "unknown tls version \"1.3\""),
            ("--tls-cipher-suites=NULL", "Cipher suite NULL not supported or doesn't exist"),
            ("--tls-curve-preferences=29,29", "duplicate curve preference 29"),
            ("--tls-curve-preferences=7", "curve preference 7 is not supported by the current Go version"),
            ("--cors-allowed-origins=example.com", "regular expression does not pin to start/end of host"),
            ("--cors-allowed-origins=^(:", "error parsing regexp"),
            ("--tls-sni-cert-key=a", "expected comma separated certificate and key file paths"),
            ("--tls-sni-cert-key=a,b:", "empty names list is not allowed"),
        ] {
            let error = operation(line).err().unwrap_or_default();
            assert!(error.contains(want), "{line}: {error}");
        }
    }

    #[test]
    fn certificates_have_names_behind_a_colon() {
        let all = operation("--tls-sni-cert-key=a,b --tls-sni-cert-key=c,d:*.x.org,y.org").unwrap();
        let names: Vec<&[String]> = all.named_certificates.iter().map(|files| &*files.names).collect();
        assert_eq!(names, [&[] as &[String], &["*.x.org".to_string(), "y.org".into()]]);
    }
}
