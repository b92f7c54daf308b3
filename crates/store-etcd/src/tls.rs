//! TLS to etcd. The files are read again for every connection, so that renewed certificates are used without a restart.

use crate::options::OptionsError;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The files of a client of etcd.
#[derive(Clone)]
pub struct Tls {
    authority: Option<PathBuf>,
    /// Certificate and key.
    client: Option<(PathBuf, PathBuf)>,
    /// The last valid configuration.
    last: Arc<Mutex<Arc<ClientConfig>>>,
}

impl Tls {
    /// Reads the files for the first time.
    pub fn new(authority: Option<PathBuf>, client: Option<(PathBuf, PathBuf)>) -> Result<Tls, OptionsError> {
        let config = read(authority.as_deref(), client.as_ref())?;
        Ok(Tls { authority, client, last: Arc::new(Mutex::new(config)) })
    }

    /// The configuration of the next connection: from the current files, or the last valid one if they are invalid.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        let read = read(self.authority.as_deref(), self.client.as_ref());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(config) => *last = config,
            Err(error) => tracing::error!(%error, "using the certificates for etcd that were read before"),
        }
        last.clone()
    }
}

fn read(
    authority: Option<&Path>,
    client: Option<&(PathBuf, PathBuf)>,
) -> Result<Arc<ClientConfig>, OptionsError> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |error: rustls::pki_types::pem::Error| OptionsError::File(path, error.to_string())
    };
    let tls = |error: rustls::Error| OptionsError::Tls(error.to_string());
    let mut roots = RootCertStore::empty();
    if let Some(path) = authority {
        for certificate in CertificateDer::pem_file_iter(path).map_err(file(path))? {
            roots.add(certificate.map_err(file(path))?).map_err(tls)?;
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| OptionsError::Tls(error.to_string()))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(tls)?
        .with_webpki_verifier(verifier);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain: Result<Vec<_>, _> =
                CertificateDer::pem_file_iter(certificate).map_err(file(certificate))?.collect();
            let private = PrivateKeyDer::from_pem_file(key).map_err(file(key))?;
            builder.with_client_auth_cert(chain.map_err(file(certificate))?, private).map_err(tls)?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
