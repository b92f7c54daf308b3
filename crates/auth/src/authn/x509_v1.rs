//! Client certificates of X.509 versions 1 and 2, which have no extensions. Go accepts them, but the TLS library
//! cannot parse them. Here they are verified as far as Go does: one of the trusted CAs itself must have signed them.

use rustls::SignatureScheme;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm};
use x509_parser::asn1_rs::{Any, Sequence};
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

/// A certificate without extensions.
pub struct OldCertificate<'a>(X509Certificate<'a>);

impl<'a> OldCertificate<'a> {
    /// Reads a certificate of version 1 or 2; `None` for any other.
    pub fn read(der: &'a CertificateDer<'_>) -> Option<Self> {
        let (rest, certificate) = X509Certificate::from_der(der).ok()?;
        let is_old = matches!(certificate.version(), X509Version::V1 | X509Version::V2);
        let is_plain = rest.is_empty() && certificate.extensions().is_empty();
        (is_old && is_plain).then_some(OldCertificate(certificate))
    }

    /// Returns whether the key of the certificate made this signature of a TLS 1.2 handshake.
    pub fn has_signed_tls12(
        &self,
        message: &[u8],
        scheme: SignatureScheme,
        signature: &[u8],
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> bool {
        let of_scheme = algorithms.mapping.iter().filter(|(known, _)| *known == scheme);
        of_scheme
            .flat_map(|(_, all)| all.iter())
            .any(|algorithm| has_signed(&self.0, *algorithm, message, signature))
    }

    /// The public key, in DER.
    pub fn public_key(&self) -> &[u8] {
        self.0.public_key().raw
    }

    /// Returns whether one of the CAs signed this certificate, and it is valid at `now` (seconds since 1970). The
    /// caller must check the validity of the CAs.
    pub(super) fn is_signed_by(
        &self,
        der: &[u8],
        authorities: &[CertificateDer<'_>],
        now: u64,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> bool {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let validity = self.0.validity();
        let is_current = (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now);
        let Some(signed_with) = signature_algorithm(der) else { return false };
        let mut candidates = algorithms.all.iter().filter(|a| a.signature_alg_id().as_ref() == signed_with);
        let signature = self.0.signature_value.data.as_ref();
        is_current
            && candidates.any(|algorithm| {
                authorities.iter().filter_map(|der| X509Certificate::from_der(der).ok()).any(
                    |(_, authority)| {
                        authority.subject().as_raw() == self.0.issuer().as_raw()
                            && may_sign_clients(&authority)
                            && has_signed(&authority, *algorithm, self.0.tbs_certificate.as_ref(), signature)
                    },
                )
            })
    }
}

/// Returns whether a CA may sign certificates of clients, as Go checks it.
fn may_sign_clients(authority: &X509Certificate<'_>) -> bool {
    let constraints = authority.basic_constraints().ok().flatten();
    let is_ca = match constraints {
        Some(constraints) => constraints.value.ca,
        None => authority.version() != X509Version::V3,
    };
    let usage = authority.key_usage().ok().flatten();
    let extended = authority.extended_key_usage().ok().flatten();
    is_ca
        && usage.is_none_or(|usage| usage.value.key_cert_sign())
        && extended.is_none_or(|extended| extended.value.any || extended.value.client_auth)
}

/// Returns whether the key of `signer` made `signature`.
fn has_signed(
    signer: &X509Certificate<'_>,
    algorithm: &dyn SignatureVerificationAlgorithm,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let key = signer.public_key();
    key_algorithm(key.raw).is_some_and(|of_key| algorithm.public_key_alg_id().as_ref() == of_key)
        && algorithm.verify_signature(key.subject_public_key.data.as_ref(), message, signature).is_ok()
}

/// The contents of the algorithm identifier of a public key, its first element.
fn key_algorithm(key: &[u8]) -> Option<Vec<u8>> {
    let (_, key) = Sequence::from_der(key).ok()?;
    let (_, algorithm) = Sequence::from_der(&key.content).ok()?;
    Some(algorithm.content.into_owned())
}

/// The contents of the identifier of the algorithm that a certificate is signed with, its second element.
fn signature_algorithm(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, certificate) = Sequence::from_der(certificate).ok()?;
    let (rest, _) = Any::from_der(&certificate.content).ok()?;
    let (_, algorithm) = Sequence::from_der(rest).ok()?;
    Some(algorithm.content.into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::x509::testing::{authority, issue_client_certificate, now};
    use super::super::x509::{ClientAuthorities, PeerCertificates};
    use super::*;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
    use pintle_value::base64;
    use std::time::{Duration, SystemTime};

    /// These certificates and their CA were made with `openssl x509 -req` of version 3.0, which writes version 1
    /// unless it is given extensions. They are valid until 2126.
    const AUTHORITY: &str = "\
        MIIBiDCCAS6gAwIBAgIUQ7zqpUzSdzc3ejm+VKyTKuVxk/cwCgYIKoZIzj0EAwIwEjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0y\
        NjExMTcwODMxMjJaGA8yMTI2MTAyNDA4MzEyMlowEjEQMA4GA1UEAwwHdGVzdC1jYTBZMBMGByqGSM49AgEGCCqGSM49AwEH\
        A0IABNKeH9yahegESfHeXlZ2Os1Ot4P+zcAazsry0z5/gWI+r3810dqTGyvIxfkaciA1aXOfhsH8DofGfaSiowQIkfKjYDBe\
        MB0GA1UdDgQWBBRaHaH/D8dRKUe2tW9faLj+gmWmRTAfBgNVHSMEGDAWgBRaHaH/D8dRKUe2tW9faLj+gmWmRTAPBgNVHRMB\
        Af8EBTADAQH/MAsGA1UdDwQEAwICBDAKBggqhkjOPQQDAgNIADBFAiEA+uQyuQUlsLrP8CUkQJcsVahZ3rfKbkgy3eref4QR\
        0o0CIB/NQj3l6YbqN3X3NQcPkciHehGezt8pjuqaI2pm0qb+";
    const CLIENT: &str = "\
        MIIBKzCB0QIUEuhPV3zDP52tgMtyJT++/Tt3megwCgYIKoZIzj0EAwIwEjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0yNjExMTcw\
        ODMxMjJaGA8yMTI2MTAyNDA4MzEyMlowHDEMMAoGA1UEAwwDb2xkMQwwCgYDVQQKDANkZXYwWTATBgcqhkjOPQIBBggqhkjO\
        PQMBBwNCAAScWYmkW8xDvcbafxAWnQaDETM1HAdyrfdYQ0ON4nHm66ZhOPdZ9iQdrnWp2g9agQdy4scKu4r9s0jjDThDTGk2\
        MAoGCCqGSM49BAMCA0kAMEYCIQCDZ/t7cBlcuIJ5TsuQJJRhmTpkmB/3XfNJRdIykMqQ7gIhAJJxIk2vh2oxQRb1BcU6z9MY\
        rvgBKxhmAbeYn28l66qm";
    const CLIENT_KEY: &str = "\
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgE6269iE4dAryBXRqaou21I3VrE+71RKJA+BfRq1CQbuhRANC\
        AAScWYmkW8xDvcbafxAWnQaDETM1HAdyrfdYQ0ON4nHm66ZhOPdZ9iQdrnWp2g9agQdy4scKu4r9s0jjDThDTGk2";

    fn certificate(text: &str) -> CertificateDer<'static> {
        CertificateDer::from(base64::decode(text).unwrap())
    }

    #[test]
    fn a_certificate_without_extensions_names_a_user() {
        let authorities = ClientAuthorities::new([certificate(AUTHORITY)]).unwrap();
        let peer = PeerCertificates::new(vec![certificate(CLIENT)]);
        let user = (*peer.identity(&authorities, now())).clone().unwrap().unwrap();
        assert_eq!(user.name, "old");
        assert_eq!(user.groups, ["dev", "system:authenticated"]);
    }

    #[test]
    fn it_must_be_signed_by_a_trusted_authority_and_be_current() {
        let trusted = || certificate(AUTHORITY);
        let other = authority().1;
        let mut changed = certificate(CLIENT).to_vec();
        // Change the subject: `old` becomes `omd`.
        let at = changed.windows(3).position(|bytes| bytes == b"old").unwrap();
        *changed.get_mut(at + 1).unwrap() = b'm';
        let expired = SystemTime::UNIX_EPOCH + Duration::from_secs(6_000_000_000);
        for (authority, client, at) in [
            (other, certificate(CLIENT), now()),
            (trusted(), CertificateDer::from(changed), now()),
            (trusted(), certificate(CLIENT), expired),
            (trusted(), certificate(CLIENT), SystemTime::UNIX_EPOCH),
            // A client certificate is no authority.
            (certificate(CLIENT), certificate(CLIENT), now()),
        ] {
            let authorities = ClientAuthorities::new([authority]).unwrap();
            assert!(PeerCertificates::new(vec![client]).identity(&authorities, at).is_err());
        }
    }

    #[test]
    fn only_old_versions_are_read() {
        let (issuer, _) = authority();
        assert!(OldCertificate::read(&issue_client_certificate::<&str>(&issuer, "alice", &[], "")).is_none());
        assert!(OldCertificate::read(&CertificateDer::from(b"x".to_vec())).is_none());
    }

    #[test]
    fn handshakes_are_signed_by_the_key_of_the_certificate() {
        let der = certificate(CLIENT);
        let old = OldCertificate::read(&der).unwrap();
        let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        let key = base64::decode(CLIENT_KEY).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &key).unwrap();
        let signature = key.sign(&SystemRandom::new(), b"message").unwrap();
        for (message, scheme, is_signed) in [
            (&b"message"[..], SignatureScheme::ECDSA_NISTP256_SHA256, true),
            (b"another", SignatureScheme::ECDSA_NISTP256_SHA256, false),
            (b"message", SignatureScheme::RSA_PSS_SHA256, false),
        ] {
            let got = old.has_signed_tls12(message, scheme, signature.as_ref(), &algorithms);
            assert_eq!(got, is_signed, "{scheme:?}");
        }
    }
}
