//! A control plane as controller-runtime's envtest starts it: programs in a folder, found by name, with envtest's flags,
//! certificates and checks.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::client::{Client, Request};
use crate::etcd::free_port;
use crate::server::ServerError;
use crate::wire::Target;

const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(2);

/// How to start a control plane.
#[derive(Debug, Default)]
pub struct ControlPlaneOptions {
    /// The URL of an etcd that is already running.
    pub etcd: Option<String>,
    /// More flags of the API server.
    pub flags: Vec<String>,
    /// Environment variables of the API server.
    pub variables: Vec<(String, String)>,
}

/// A certificate and its key.
type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// A running etcd and API server; dropping it kills them and removes their folders.
pub struct ControlPlane {
    folder: PathBuf,
    etcd: Option<Child>,
    api_server: Option<Child>,
    port: u16,
    identity: Identity,
}

impl ControlPlane {
    /// Starts the programs in `assets` and waits until they are healthy.
    pub async fn start(assets: &Path, options: ControlPlaneOptions) -> Result<ControlPlane, ServerError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("pintle-envtest-{}-{number}", std::process::id()));
        for name in ["certs", "etcd", "work", "tmp"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let identity = make_certificates(&folder.join("certs")).map_err(io::Error::other)?;
        let mut plane = ControlPlane { folder, etcd: None, api_server: None, port: free_port()?, identity };
        let etcd = match options.etcd.clone() {
            Some(url) => url,
            None => plane.start_etcd(assets).await?,
        };
        plane.start_api_server(assets, &etcd, &options)?;
        let client = Client::new(&plane.url(), None)?;
        wait_for(&client, "/healthz", plane.api_server.as_mut()).await?;
        Ok(plane)
    }

    /// The address of the server: `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// A client in the group `system:masters`, by its certificate.
    pub fn admin(&self) -> Result<Client, ServerError> {
        let (certificate, key) = &self.identity;
        let identity = (vec![certificate.clone()], key.clone_key());
        Ok(Client::of(Target::with_identity(&self.url(), Some(identity))?, None))
    }

    /// Ends both with SIGTERM; returns how long the API server took.
    pub fn stop(&mut self) -> Result<Duration, ServerError> {
        let began = Instant::now();
        end_process(&mut self.api_server)?;
        let took = began.elapsed();
        end_process(&mut self.etcd)?;
        Ok(took)
    }

    /// The files that the programs left in their working folder, in etcd's folder and in the folder for temporary files.
    pub fn leftovers(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for name in ["etcd", "work", "tmp"] {
            for entry in fs::read_dir(self.folder.join(name))? {
                found.push(entry?.path());
            }
        }
        Ok(found)
    }

    async fn start_etcd(&mut self, assets: &Path) -> Result<String, ServerError> {
        let program = assets.join("etcd");
        let url = format!("http://127.0.0.1:{}", free_port()?);
        let mut command = self.new_command(&program);
        command.arg(format!("--advertise-client-urls={url}"));
        command.arg(format!("--listen-client-urls={url}"));
        command.arg(format!("--listen-peer-urls=http://127.0.0.1:{}", free_port()?));
        command.arg(format!("--data-dir={}", self.folder.join("etcd").display()));
        if has_flag(&program, "unsafe-no-fsync")? {
            command.arg("--unsafe-no-fsync=true");
        }
        self.etcd = Some(command.spawn()?);
        wait_for(&Client::new(&url, None)?, "/health", self.etcd.as_mut()).await?;
        Ok(url)
    }

    fn start_api_server(
        &mut self,
        assets: &Path,
        etcd: &str,
        options: &ControlPlaneOptions,
    ) -> Result<(), ServerError> {
        let program = assets.join("kube-apiserver");
        let certs = self.folder.join("certs");
        let certs = certs.display();
        let mut command = self.new_command(&program);
        if has_flag(&program, "insecure-port")? {
            command.arg("--insecure-port=0");
        }
        command.args([
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]);
        command.args([
            format!("--cert-dir={certs}"),
            format!("--client-ca-file={certs}/client-cert-auth-ca.crt"),
            format!("--etcd-servers={etcd}"),
            format!("--secure-port={}", self.port),
            format!("--service-account-issuer=https://127.0.0.1:{}/", self.port),
            format!("--service-account-key-file={certs}/sa-signer.crt"),
            format!("--service-account-signing-key-file={certs}/sa-signer.key"),
        ]);
        command.args(&options.flags);
        command.envs(options.variables.iter().map(|(name, value)| (name, value)));
        self.api_server = Some(command.spawn()?);
        Ok(())
    }

    fn new_command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.join("work")).env("TMPDIR", self.folder.join("tmp"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        for child in [self.api_server.take(), self.etcd.take()].into_iter().flatten() {
            kill(child);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Whether the `--help` of a program lists a flag, by which envtest decides what to pass.
pub fn has_flag(program: &Path, name: &str) -> Result<bool, ServerError> {
    let output = Command::new(program).arg("--help").output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(ServerError::NotReady(format!("prints no help: {}", output.status), text));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let is_it = |line: &str| {
        let rest = line.trim_start().strip_prefix("--").and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    };
    Ok(text.lines().any(is_it))
}

async fn wait_for(client: &Client, path: &str, child: Option<&mut Child>) -> Result<(), ServerError> {
    let end = Instant::now() + START_TIMEOUT;
    let Some(child) = child else { return Ok(()) };
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return Err(ServerError::NotReady(format!("ended while starting: {status}"), String::new()));
        }
        if let Ok(answer) = client.send(&Request::new("GET", path)).await
            && answer.status() == 200
        {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    Err(ServerError::NotReady(format!("did not answer {path}"), String::new()))
}

fn end_process(child: &mut Option<Child>) -> Result<(), ServerError> {
    let Some(mut child) = child.take() else { return Ok(()) };
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        kill_process(pid, Signal::TERM).map_err(io::Error::from)?;
    }
    let limit = Instant::now() + STOP_TIMEOUT;
    while Instant::now() < limit {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(ServerError::NotReady(format!("ended with {status}"), String::new())),
            None => std::thread::sleep(POLL),
        }
    }
    kill(child);
    Err(ServerError::NotReady("did not end on SIGTERM".to_owned(), String::new()))
}

fn kill(mut child: Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Writes the files that envtest writes; returns certificate and key of an administrator.
fn make_certificates(folder: &Path) -> Result<Identity, Box<dyn std::error::Error + Send + Sync>> {
    let write = |name: &str, text: String| fs::write(folder.join(name), text);
    let serving_key = KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let serving = CertificateParams::new(names)?.self_signed(&serving_key)?;
    write("apiserver.crt", serving.pem())?;
    write("apiserver.key", serving_key.serialize_pem())?;
    let account_key = KeyPair::generate()?;
    write("sa-signer.crt", CertificateParams::new(Vec::new())?.self_signed(&account_key)?.pem())?;
    write("sa-signer.key", account_key.serialize_pem())?;

    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    write("client-cert-auth-ca.crt", authority.self_signed(&authority_key)?.pem())?;
    let issuer = Issuer::new(authority, authority_key);
    let mut admin = CertificateParams::new(Vec::new())?;
    admin.distinguished_name.push(DnType::CommonName, "admin");
    admin.distinguished_name.push(DnType::OrganizationName, "system:masters");
    admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let admin_key = KeyPair::generate()?;
    let certificate = admin.signed_by(&admin_key, &issuer)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(admin_key.serialize_der()));
    Ok((certificate.der().clone(), key))
}
