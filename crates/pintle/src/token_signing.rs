//! The signer of service account tokens: a key from a file, our own key, or an external process
//! (`--service-account-signing-endpoint`).

use crate::config::Config;
use crate::flags::{FlagError, Flags};
use crate::pki::KeyFolder;
use crate::serve::ServeError;
use crate::{identity_flags, pki};
use pintle_auth::authn::external_signer::{ExternalSigner, SignerError};
use pintle_auth::authn::token_keys::TokenKeys;
use pintle_engine::TOKEN_SECONDS_EXTENDED;
use std::path::Path;

/// The shortest maximum lifetime that a signer must allow, in seconds.
const SECONDS_MIN: i64 = 600;

/// The keys, and the lifetime of tokens.
pub(crate) struct TokenSigning {
    pub(crate) keys: TokenKeys,
    /// The longest lifetime of a token in seconds; 0 means no limit.
    pub(crate) seconds_max: i64,
    /// The extended lifetime of pods' tokens.
    pub(crate) extended_seconds: i64,
}

/// Refuses a key file beside an endpoint, and a file that holds no key. kube-apiserver does so before it validates other flags.
pub(crate) fn check_key(flags: &Flags) -> Result<(), FlagError> {
    let file = flags.text("service-account-signing-key-file");
    if file.is_empty() {
        return Ok(());
    }
    if !flags.text("service-account-signing-endpoint").is_empty() {
        return Err(FlagError::new(
            "service-account-signing-key-file and service-account-signing-endpoint are mutually exclusive and cannot be set \
             at the same time",
        ));
    }
    identity_flags::signing_key(Path::new(file)).map(|_| ()).map_err(|why| FlagError::new(&why.to_string()))
}

/// The error of an issuer that is given without a name. Without the flag, there is a default.
pub(crate) fn request_error(flags: &Flags) -> Option<String> {
    let issuers = flags.values("service-account-issuer");
    if issuers.first().is_none_or(|first| !first.is_empty()) {
        return None;
    }
    let signs = !flags.text("service-account-signing-key-file").is_empty();
    Some(if signs || !flags.list("api-audiences").is_empty() {
        "--service-account-signing-key-file, --service-account-issuer, and --api-audiences should be specified together"
            .to_string()
    } else {
        "--service-account-signing-key-file and --service-account-issuer are required flags".to_string()
    })
}

/// Errors of the flags of an external signer.
pub(crate) fn errors(flags: &Flags) -> Vec<String> {
    let endpoint = flags.text("service-account-signing-endpoint");
    let mut errors = Vec::new();
    if endpoint.is_empty() {
        return errors;
    }
    if !flags.list("service-account-key-file").is_empty() {
        errors.push(
            "can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with \
             `--service-account-signing-endpoint` (They are mutually exclusive)"
                .to_string(),
        );
    }
    if endpoint.strip_prefix('@').is_some_and(|name| !is_abstract_name(name)) {
        errors.push(format!(
            "invalid value {endpoint:?} passed for `--service-account-signing-endpoint`, when prefixed with @ must be a valid \
             abstract socket name"
        ));
    }
    errors
}

/// Words of letters, digits, `_` and `-` with dots between them.
fn is_abstract_name(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    };
    name.split('.').all(is_word)
}

/// Loads or creates the keys, or fetches those of the signer, which may take up to a minute.
pub(crate) async fn start(config: &Config, key_folder: KeyFolder<'_>) -> Result<TokenSigning, ServeError> {
    if config.account_signing_endpoint.is_empty() {
        return Ok(TokenSigning {
            keys: local_keys(config, key_folder)?,
            seconds_max: config.token_seconds_max,
            extended_seconds: TOKEN_SECONDS_EXTENDED,
        });
    }
    let setting_up = |words: &str, error: SignerError| {
        FlagError::new(&format!("while setting up external-jwt-signer: {words}{error}"))
    };
    let filling = "while initially filling key cache: while performing initial cache fill: ";
    let signer = ExternalSigner::connect(&config.account_signing_endpoint).await;
    let signer = signer.map_err(|error| setting_up(filling, error))?;
    let allowed = signer.token_seconds_max().await.map_err(|error| setting_up("", error))?;
    let seconds_max = longest_life(config.token_seconds_max, allowed)?;
    // The task ends with the runtime.
    tokio::spawn(signer.clone().follow());
    Ok(TokenSigning {
        keys: TokenKeys::External(signer),
        seconds_max,
        extended_seconds: allowed.min(TOKEN_SECONDS_EXTENDED),
    })
}

/// The longest lifetime of a token: the flag's (`wanted`, 0 if unset) within the limit of the signer (`allowed`).
fn longest_life(wanted: i64, allowed: i64) -> Result<i64, FlagError> {
    if allowed < SECONDS_MIN {
        return Err(FlagError::new(&format!(
            "max token life supported by external-jwt-signer ({allowed}s) is less than acceptable (min {SECONDS_MIN}s)"
        )));
    }
    if wanted > allowed {
        return Err(FlagError::new(&format!(
            "service-account-max-token-expiration cannot be set longer than the token expiration supported by \
             service-account-signing-endpoint: {} > {}",
            go_duration(wanted),
            go_duration(allowed)
        )));
    }
    Ok(if wanted == 0 { allowed } else { wanted })
}

/// Whole seconds as Go prints a duration.
fn go_duration(seconds: i64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

fn local_keys(config: &Config, key_folder: KeyFolder<'_>) -> Result<TokenKeys, ServeError> {
    let is_configured = config.account_signing_key_file.is_some() || !config.account_key_files.is_empty();
    if key_folder.0.is_none() && !is_configured {
        // Generating an RSA key takes a tenth of a second, several times as long as the rest of the start, which therefore does not
        // wait for it.
        return Ok(TokenKeys::generated(pki::generate_account_key));
    }
    let signer = match &config.account_signing_key_file {
        Some(path) => identity_flags::signing_key(path)?,
        None => pki::account_key(key_folder)?,
    };
    let mut verifying = Vec::new();
    for path in &config.account_key_files {
        verifying.extend(identity_flags::verifying_keys(path)?);
    }
    if verifying.is_empty() {
        verifying.push(signer.verifying.clone());
        verifying.extend(pki::older_account_keys(key_folder)?);
    }
    Ok(TokenKeys::local(signer, verifying))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_live_as_long_as_both_allow() {
        for (wanted, allowed, expected) in [
            (0, 7200, Ok(7200)),
            (3600, 7200, Ok(3600)),
            (7200, 7200, Ok(7200)),
            (
                0,
                599,
                Err(
                    "max token life supported by external-jwt-signer (599s) is less than acceptable (min 600s)",
                ),
            ),
            (
                7200,
                3661,
                Err(
                    "service-account-max-token-expiration cannot be set longer than the token expiration supported by \
                     service-account-signing-endpoint: 2h0m0s > 1h1m1s",
                ),
            ),
        ] {
            let found = longest_life(wanted, allowed).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_string), "{wanted} {allowed}");
        }
    }

    #[test]
    fn names_of_abstract_sockets() {
        for (name, valid) in
            [("a", true), ("a.b-c_1", true), ("", false), ("a..b", false), (".a", false), ("a/b", false)]
        {
            assert_eq!(is_abstract_name(name), valid, "{name}");
        }
    }
}
