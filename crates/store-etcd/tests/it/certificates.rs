//! Certificates for etcd are read anew for each connection.

use crate::member::{Member, options};
use pintle_store::{Expect, Store, Write};
use pintle_store_etcd::{Etcd, Tls};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long etcd may take to start on a busy machine.
const LONG: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// An authority whose certificates lie in a folder.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let folder = std::env::temp_dir().join(format!("pintle-etcd-certificates-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        fs::write(folder.join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes `NAME.crt` and `NAME.key`.
    fn issue(&self, name: &str, until: SystemTime) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = (SystemTime::now() - 2 * DAY).into();
        params.not_after = until.into();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        fs::write(self.path(&format!("{name}.crt")), certificate.pem()).unwrap();
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_is_used_without_a_restart() {
    let authority = Authority::new();
    authority.issue("server", SystemTime::now() + DAY);
    authority.issue("client", SystemTime::now() - DAY);
    let flags = [
        "--client-cert-auth".to_owned(),
        flag("trusted-ca-file", &authority.path("ca.crt")),
        flag("cert-file", &authority.path("server.crt")),
        flag("key-file", &authority.path("server.key")),
    ];
    let Some(member) = Member::start("https", &flags) else { return };
    let mut options = options(&member.endpoint, 0);
    let client = (authority.path("client.crt"), authority.path("client.key"));
    options.tls = Some(Tls::new(Some(authority.path("ca.crt")), Some(client)).unwrap());

    let mut connecting = tokio::spawn(Etcd::connect(options));
    let early = tokio::time::timeout(Duration::from_secs(3), &mut connecting).await;
    assert!(early.is_err(), "etcd took a certificate that had expired");
    authority.issue("client", SystemTime::now() + DAY);
    let store = tokio::time::timeout(LONG, connecting).await.unwrap().unwrap().unwrap();
    store.write(Write::put("/a", Expect::Absent, b"1".to_vec())).await.unwrap();
}
