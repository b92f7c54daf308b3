//! JWT issuers from `--authentication-config` or the `--oidc-*` flags, reloaded when the file changes.

use crate::config_file::{ConfigFile, Handled, ReloadMetrics, read};
use crate::egress;
use crate::flags::{FlagError, Flags};
use pintle_auth::Authenticator;
use pintle_auth::authn::config::{AuthenticationConfig, ClaimRule, ClaimSource, JwtConfig};
use pintle_auth::authn::oidc::{ALGORITHMS, Issuers};
use pintle_metrics::families;
use pintle_proxy::Egress;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often the file is checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long discovery of new providers may take before they replace the old ones.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

const OIDC_FLAGS: [&str; 9] = [
    "oidc-issuer-url",
    "oidc-client-id",
    "oidc-ca-file",
    "oidc-username-claim",
    "oidc-username-prefix",
    "oidc-groups-claim",
    "oidc-groups-prefix",
    "oidc-signing-algs",
    "oidc-required-claim",
];

/// The providers and their configuration.
#[derive(Clone, Default)]
pub(crate) struct Authentication {
    pub(crate) config: AuthenticationConfig,
    algorithms: Vec<String>,
    file: Option<PathBuf>,
    /// Text of the file that `config` was read from.
    text: Vec<u8>,
    disallowed: Vec<String>,
    egress: Option<Egress>,
}

/// The error of flags that belong together, or exclude each other.
pub(crate) fn flag_error(flags: &Flags) -> Option<String> {
    let uses_flags = OIDC_FLAGS.iter().any(|name| flags.given(name));
    let lacks = |name: &str| flags.text(name).is_empty();
    let why = if !lacks("authentication-config") {
        "authentication-config file and oidc-* flags are mutually exclusive"
    } else if lacks("oidc-issuer-url") || lacks("oidc-client-id") {
        "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
    } else {
        return None;
    };
    uses_flags.then(|| why.to_string())
}

impl Authentication {
    /// Reads the flags, and the file that they name.
    pub(crate) fn new(flags: &Flags, account_issuers: &[String]) -> Result<Self, FlagError> {
        let mut out = Authentication {
            disallowed: account_issuers.to_vec(),
            egress: egress::read(flags)?,
            ..Authentication::default()
        };
        let uses_flags = OIDC_FLAGS.iter().any(|name| flags.given(name));
        match flags.text("authentication-config") {
            "" if uses_flags => {
                out.algorithms = flags.list("oidc-signing-algs");
                out.config.jwt = vec![from_flags(flags)?];
            }
            "" => {}
            path => {
                out.algorithms = ALGORITHMS.iter().map(ToString::to_string).collect();
                let load = read(Path::new(path))
                    .and_then(|text| Ok((AuthenticationConfig::parse(&text)?, text)))
                    .map_err(|why| {
                        format!("failed to load authentication configuration from file {path:?}: {why}")
                    });
                (out.config, out.text) = load.map_err(|why| FlagError::new(&why))?;
                out.file = Some(PathBuf::from(path));
            }
        }
        out.config.validate(account_issuers).map_err(|why| FlagError::new(&why))?;
        if let Some(unknown) = out.algorithms.iter().find(|name| !ALGORITHMS.contains(&name.as_str())) {
            return Err(FlagError::new(&format!("oidc: unsupported signing alg: {unknown:?}")));
        }
        if out.config.anonymous.is_some() && flags.given("anonymous-auth") {
            let why = "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication \
                       configuration file";
            return Err(FlagError::new(why));
        }
        Ok(out)
    }

    /// Replaces the providers when the file changes. Anonymous access is fixed at start, so a file that changes it is
    /// ignored, as is an invalid one. A file whose providers cannot be reached is tried again later.
    pub(crate) async fn follow(mut self, authenticator: Arc<Authenticator>, server_id: String) {
        let Some(path) = self.file.take() else { return };
        let metrics = [
            &families::AUTHENTICATION_CONFIG_INFO,
            &families::AUTHENTICATION_RELOADS,
            &families::AUTHENTICATION_RELOADED_AT,
        ];
        let mut metrics = ReloadMetrics::new(&server_id, &self.text, metrics);
        let mut file = ConfigFile::new(path, std::mem::take(&mut self.text), POLL_INTERVAL);
        let failed = |why: &str| tracing::error!("the authentication configuration stays as it was: {why}");
        loop {
            let text = match file.changed().await {
                Ok(text) => text,
                Err(why) => {
                    failed(&why);
                    metrics.failed();
                    continue;
                }
            };
            let handled = match self.reload(&text).await {
                Ok(issuers) => {
                    let issuers = Arc::new(issuers);
                    let replaced = authenticator.issuers.swap(issuers.clone());
                    replaced.forget_missing_in(&issuers);
                    metrics.succeeded(&text);
                    Handled::Finally
                }
                Err((why, handled)) => {
                    failed(&why);
                    metrics.failed();
                    handled
                }
            };
            file.record(text, handled);
        }
    }

    /// Starts discovery of the configured providers.
    pub(crate) fn start(&self) -> Result<Issuers, String> {
        Issuers::start(&self.config.jwt, &self.algorithms, self.egress.as_ref())
    }

    /// Returns the providers of a changed file. The error says whether the same file may succeed later.
    async fn reload(&mut self, text: &[u8]) -> Result<Issuers, (String, Handled)> {
        let invalid = |why| (why, Handled::Finally);
        let config = AuthenticationConfig::parse(text).map_err(invalid)?;
        config.validate(&self.disallowed).map_err(invalid)?;
        if config.anonymous != self.config.anonymous {
            return Err(invalid("anonymous cannot be changed while the server runs".to_string()));
        }
        let unreachable = |why| (why, Handled::NotYet);
        let issuers = Issuers::start(&config.jwt, &self.algorithms, self.egress.as_ref());
        let issuers = issuers.map_err(unreachable)?;
        if !issuers.wait_until_ready(READY_TIMEOUT).await {
            return Err(unreachable("a provider was not found in time".to_string()));
        }
        self.config = config;
        Ok(issuers)
    }
}

fn from_flags(flags: &Flags) -> Result<JwtConfig, FlagError> {
    let (url, client) = (flags.text("oidc-issuer-url"), flags.text("oidc-client-id"));
    let certificate_authority = match flags.text("oidc-ca-file") {
        "" => String::new(),
        path => {
            let text = read(Path::new(path)).map_err(|why| FlagError::new(&why))?;
            String::from_utf8_lossy(&text).into_owned()
        }
    };
    let claim = flags.text("oidc-username-claim").to_string();
    let prefix = match flags.text("oidc-username-prefix") {
        "-" => String::new(),
        "" if claim != "email" => format!("{url}#"),
        prefix => prefix.to_string(),
    };
    let groups = ClaimSource {
        claim: flags.text("oidc-groups-claim").to_string(),
        prefix: Some(flags.text("oidc-groups-prefix").to_string()),
        expression: String::new(),
    };
    let required = flags.map("oidc-required-claim").into_iter();
    Ok(JwtConfig {
        url: url.to_string(),
        audiences: vec![client.to_string()],
        certificate_authority,
        username: ClaimSource { claim, prefix: Some(prefix), expression: String::new() },
        groups: if groups.claim.is_empty() { ClaimSource::default() } else { groups },
        claim_rules: required
            .map(|(claim, required_value)| ClaimRule { claim, required_value, ..ClaimRule::default() })
            .collect(),
        ..JwtConfig::default()
    })
}
