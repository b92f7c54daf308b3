//! Certificates and CAs while the server runs: changed files are reloaded, and our own certificates are renewed. Unusable
//! files are logged, and the last valid ones remain in effect.

use crate::config::Config;
use crate::data_dir::{self, DataDir};
use crate::kubeconfig::Kubeconfig;
use crate::operation::Operation;
use crate::pki::{self, Authority, KeyFolder, Pair, PkiError};
use crate::serve::ServeError;
use arc_swap::ArcSwap;
use pintle_auth::Authenticator;
use pintle_auth::authn::x509::ClientAuthorities;
use pintle_engine::Engine;
use pintle_http::tls::{self, NamedCertificate, ServingCertificates};
use rustls::pki_types::CertificateDer;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// How often files are checked, and how often everything is reloaded even if nothing seems to have changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const READ_EVERY: Duration = Duration::from_secs(60);

/// The keys of the ConfigMap by which extension servers recognize users, with their values.
pub(crate) type AuthenticationData = Vec<(&'static str, String)>;

/// Applies new certificates and CAs.
pub(crate) struct Reload {
    pub(crate) config: Arc<Config>,
    pub(crate) operation: Arc<Operation>,
    pub(crate) folder: Arc<DataDir>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) certificates: Arc<ServingCertificates>,
    /// The TLS configuration of new connections; it has the names of the clients' CAs.
    pub(crate) tls: Arc<ArcSwap<rustls::ServerConfig>>,
    /// The data for extension servers.
    pub(crate) authentication: watch::Sender<AuthenticationData>,
    pub(crate) url: String,
    /// The administrator's certificate.
    pub(crate) admin: String,
}

impl Reload {
    /// Checks the files until the cache is closed.
    pub(crate) async fn run(mut self, engine: Arc<Engine>) {
        let mut seen = self.fingerprints();
        let mut read = SystemTime::now();
        loop {
            if engine.storage().cache().closed_within(LOOK_EVERY).await {
                return;
            }
            let now = self.fingerprints();
            if now == seen && read.elapsed().is_ok_and(|passed| passed < READ_EVERY) {
                continue;
            }
            seen = now;
            read = SystemTime::now();
            for (what, result) in [
                ("the serving certificate", self.reload_serving()),
                ("the authorities of clients", self.reload_authorities()),
                ("the administrator's certificate", self.renew_admin()),
            ] {
                if let Err(error) = result {
                    tracing::warn!(%error, "{what} cannot be read again, the last good one stays in force");
                }
            }
        }
    }

    /// The modification time and the size of each file.
    fn fingerprints(&self) -> Vec<Option<(SystemTime, u64)>> {
        let config = &self.config;
        let mut files: Vec<&PathBuf> = Vec::new();
        files.extend(config.serving_files.iter().flat_map(|(certificate, key)| [certificate, key]));
        files.extend(self.operation.named_certificates.iter().flat_map(|f| [&f.certificate, &f.key]));
        files.extend(&config.client_ca_file);
        files.extend(&config.front_proxy.authority_file);
        let look = |path: &PathBuf| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        files.into_iter().map(look).collect()
    }

    fn reload_serving(&self) -> Result<(), ServeError> {
        let key_folder = KeyFolder((!self.config.ephemeral).then_some(&*self.folder));
        // A server without files retains the certificate with which it was started.
        if self.config.ephemeral && self.config.serving_files.is_none() {
            return Ok(());
        }
        let (serving, _) = serving_pair(&self.config, &self.authority, key_folder)?;
        let usual = pki::serving_certificate(&serving, self.folder.path())?;
        Ok(self.certificates.replace(usual, named_certificates(&self.operation)?)?)
    }

    fn reload_authorities(&self) -> Result<(), ServeError> {
        let config = &self.config;
        let mut texts = Vec::new();
        if let (Some(path), Some(authorities)) = (&config.client_ca_file, &self.authenticator.certificates) {
            let text = pki::read_file(path)?;
            authorities.set(authorities_of_clients(config, &self.authority)?)?;
            texts.push(("client-ca-file", text));
        }
        if let (Some(path), Some(proxy)) =
            (&config.front_proxy.authority_file, &self.authenticator.front_proxy)
        {
            let text = pki::read_file(path)?;
            proxy.authorities.set(pki::certificates(&text, path)?)?;
            texts.push(("requestheader-client-ca-file", text));
        }
        let hints = hints(&self.authenticator);
        let tls = tls::server_config(self.certificates.clone(), hints, config.http2, &self.operation.tls)?;
        self.tls.store(tls);
        self.authentication.send_if_modified(|data| {
            let mut changed = false;
            for (key, text) in texts {
                let text = String::from_utf8_lossy(&text).into_owned();
                if let Some(entry) = data.iter_mut().find(|(name, old)| *name == key && *old != text) {
                    entry.1 = text;
                    changed = true;
                }
            }
            changed
        });
        Ok(())
    }

    fn renew_admin(&mut self) -> Result<(), ServeError> {
        if self.config.ephemeral {
            return Ok(());
        }
        let key_folder = KeyFolder(Some(&*self.folder));
        let admin = self.authority.admin(key_folder)?;
        if admin.certificate != self.admin {
            let (_, serving_authority) = serving_pair(&self.config, &self.authority, key_folder)?;
            let kubeconfig = Kubeconfig {
                server: &self.url,
                user: "admin",
                authority: &serving_authority,
                certificate: &admin.certificate,
                key: &admin.key,
            };
            self.folder.write("admin.kubeconfig", kubeconfig.render().as_bytes())?;
            self.admin.clone_from(&admin.certificate);
        }
        Ok(())
    }
}

/// The certificates of `--tls-sni-cert-key`.
pub(crate) fn named_certificates(operation: &Operation) -> Result<Vec<NamedCertificate>, ServeError> {
    let mut all = Vec::new();
    for files in &operation.named_certificates {
        let pair = pki::read_pair(&files.certificate, &files.key).map_err(ServeError::NamedCertificate)?;
        let certificate = pki::serving_certificate(&pair, &files.certificate);
        let certificate = certificate.map_err(ServeError::NamedCertificate)?;
        all.push(NamedCertificate { certificate, names: files.names.clone() });
    }
    Ok(all)
}

/// Names of the CAs of client certificates, which are sent in the handshake.
pub(crate) fn hints(authenticator: &Authenticator) -> Vec<rustls::DistinguishedName> {
    let mut hints = authenticator.certificates.as_ref().map(ClientAuthorities::subjects).unwrap_or_default();
    hints.extend(authenticator.front_proxy.iter().flat_map(|proxy| proxy.authorities.subjects()));
    hints
}

/// The CAs of client certificates: this server's own, which signs the administrator's, and the configured ones.
pub(crate) fn authorities_of_clients(
    config: &Config,
    authority: &Authority,
) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let own = Path::new("own authority");
    let mut all = pki::certificates(authority.certificate.as_bytes(), own)?;
    if let Some(path) = &config.client_ca_file {
        all.extend(pki::certificates(&pki::read_file(path)?, path)?);
    }
    Ok(all)
}

/// The serving certificate, and the CA with which clients verify it.
pub(crate) fn serving_pair(
    config: &Config,
    authority: &Authority,
    key_folder: KeyFolder<'_>,
) -> Result<(Pair, String), ServeError> {
    let in_dir = |dir: &Path| (dir.join("apiserver.crt"), dir.join("apiserver.key"));
    if let Some((certificate, key)) = &config.serving_files {
        let pair = pki::read_pair(certificate, key)?;
        return Ok((pair.clone(), pair.certificate));
    }
    if let Some((certificate, key)) = config.cert_dir.as_deref().map(in_dir)
        && certificate.exists()
        && key.exists()
    {
        let pair = pki::read_pair(&certificate, &key)?;
        return Ok((pair.clone(), pair.certificate));
    }
    let mut addresses = vec![
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
        config.bind.ip(),
        config.service_network.first_host(),
    ];
    addresses.extend(config.advertise);
    let hosts: Vec<String> = Some(config.external_host.clone())
        .filter(|h| !h.is_empty() && h.parse::<IpAddr>().is_err())
        .into_iter()
        .collect();
    let pair = authority.serving(key_folder, &pki::serving_names(&addresses, &hosts)?)?;
    if let Some((certificate, key)) = config.cert_dir.as_deref().map(in_dir) {
        for (path, text) in [(certificate, &pair.certificate), (key, &pair.key)] {
            data_dir::write_whole(&path, text.as_bytes()).map_err(|e| PkiError::File(path, e))?;
        }
    }
    Ok((pair, authority.certificate.clone()))
}
