//! Builds the authenticator from the flags and the files that they name.

use crate::config::Config;
use crate::flags::FlagError;
use crate::pki::{self, Authority};
use crate::serve::ServeError;
use crate::{identity_flags, reload};
use pintle_auth::Authenticator;
use pintle_auth::authn::bootstrap::BootstrapTokens;
use pintle_auth::authn::config::AnonymousConfig;
use pintle_auth::authn::front_proxy::FrontProxy;
use pintle_auth::authn::service_account::{BoundObjects, ServiceAccountTokens, SignatureCache};
use pintle_auth::authn::token_file::{TokenFile, TokenFileError};
use pintle_auth::authn::token_keys::TokenKeys;
use pintle_auth::authn::webhook::TokenWebhook;
use pintle_auth::authn::x509::ClientAuthorities;
use pintle_engine::{Engine, TokenObjects};
use pintle_webhook::ReviewClient;
use std::sync::Arc;

/// Builds the authenticator. `keys` are the keys of service account tokens, `authority` is the server's own CA.
pub(crate) fn build(
    config: &Config,
    authority: &Authority,
    engine: &Engine,
    keys: &TokenKeys,
) -> Result<Authenticator, ServeError> {
    let token_objects: Arc<dyn BoundObjects> = Arc::new(TokenObjects(engine.writer().clone()));
    let account_tokens = ServiceAccountTokens {
        issuers: config.issuers.clone(),
        audiences: config.audiences.clone(),
        keys: keys.clone(),
        objects: Some(token_objects.clone()),
        lookup: config.lookup_tokens,
        signatures: SignatureCache::default(),
    };
    let providers = &config.authentication;
    let issuers = providers.start().map_err(|why| FlagError::new(&why))?;
    let anonymous = providers.config.anonymous.clone();
    let anonymous = anonymous
        .unwrap_or_else(|| AnonymousConfig { enabled: config.anonymous, ..AnonymousConfig::default() });
    if let Some(path) = &config.client_ca_file {
        // Reports an invalid file with kube-apiserver's message.
        identity_flags::authorities(path, "client-ca-bundle")?;
    }
    Ok(Authenticator {
        front_proxy: front_proxy(config)?,
        certificates: Some(ClientAuthorities::new(reload::authorities_of_clients(config, authority)?)?),
        tokens: static_tokens(config)?,
        service_accounts: Some(account_tokens),
        bootstrap: config.bootstrap_tokens.then_some(BootstrapTokens(token_objects)),
        audiences: config.audiences.clone(),
        issuers: arc_swap::ArcSwap::from_pointee(issuers),
        webhook: token_webhook(config)?,
        // If everything is allowed, it is allowed only to authenticated users.
        anonymous: anonymous.enabled && !config.authorization.allows_everything,
        anonymous_paths: anonymous.paths,
    })
}

/// The front proxy, if a CA for it is configured.
fn front_proxy(config: &Config) -> Result<Option<FrontProxy>, ServeError> {
    let Some(path) = &config.front_proxy.authority_file else { return Ok(None) };
    let proxy = &config.front_proxy;
    Ok(Some(FrontProxy {
        authorities: identity_flags::authorities(path, "request-header")?,
        allowed_names: proxy.allowed_names.clone(),
        username_headers: proxy.username_headers.clone(),
        uid_headers: proxy.uid_headers.clone(),
        group_headers: proxy.group_headers.clone(),
        extra_prefixes: proxy.extra_prefixes.clone(),
    }))
}

/// The token webhook, if one is configured.
fn token_webhook(config: &Config) -> Result<Option<TokenWebhook>, ServeError> {
    let settings = &config.token_webhook;
    let Some(path) = &settings.kubeconfig else { return Ok(None) };
    let webhook = pintle_webhook::Kubeconfig::load(path)
        .and_then(|kubeconfig| ReviewClient::new(kubeconfig, None))
        .map(|client| client.with_dialer(config.proxying.egress.to_control_plane()))
        .and_then(|client| {
            TokenWebhook::new(client, &settings.version, config.audiences.clone(), settings.life)
        });
    Ok(Some(webhook.map_err(|why| FlagError::new(&why))?))
}

fn static_tokens(config: &Config) -> Result<TokenFile, ServeError> {
    match &config.token_file {
        Some(path) => {
            let text = pki::read_file(path)?;
            TokenFile::parse(&String::from_utf8_lossy(&text)).map_err(|error| match error {
                TokenFileError::TooFewColumns(_) => {
                    let text = format!("token file '{}' {error}", path.display());
                    ServeError::Flag(FlagError::new(&text))
                }
                TokenFileError::Quote(_) => ServeError::Flag(FlagError::new(&error.to_string())),
            })
        }
        None => Ok(TokenFile::default()),
    }
}
