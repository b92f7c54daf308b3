//! Certificates for servers under test.

use rcgen::{BasicConstraints, CertificateParams, Error, IsCa, Issuer, KeyPair};

/// A certificate with its key and its authority, in PEM.
pub struct Certificate {
    /// The certificate of the authority.
    pub authority: String,
    /// The certificate.
    pub certificate: String,
    /// The certificate's key.
    pub key: String,
}

impl Certificate {
    /// A certificate for these names and addresses, of a new authority.
    pub fn new(names: &[&str]) -> Result<Certificate, Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate()?;
        let authority = params.self_signed(&authority_key)?;
        let issuer = Issuer::new(params, authority_key);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
        Ok(Certificate {
            authority: authority.pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}
