//! A server under test: the built binary in its own folder, which can be killed, paused and restarted.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Client, Request};
use crate::wire::WireError;

/// The token of user `admin` in group `system:masters`.
pub const ADMIN_TOKEN: &str = "admintoken";
/// The token of user `alice` in group `dev`.
pub const ALICE_TOKEN: &str = "usertoken";

const TOKENS: &str = "admintoken,admin,admin-uid,\"system:masters\"\nusertoken,alice,alice-uid,\"dev\"\n";
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(2);
/// The arguments of `unshare` for a process that may set the name of its host.
const IN_NAMESPACE: [&str; 2] = ["--map-root-user", "--uts"];
/// How much of the server's output an error quotes.
const LOG_TAIL_BYTES: usize = 4000;

/// Why the server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The binary does not exist.
    #[error("no pintle binary: set PINTLE_BIN or run `cargo build -p pintle` (looked at {0})")]
    NoBinary(String),
    /// The folder or the process could not be created.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The process ended or did not become ready.
    #[error("the server {0}\n{1}")]
    NotReady(String, String),
    /// The client could not be set up.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// How to start a server.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether to store nothing on disk.
    pub ephemeral: bool,
    /// Additional flags, after the usual ones.
    pub flags: Vec<String>,
}

/// A running server; dropping it kills it and removes its folder.
pub struct Server {
    child: Option<Child>,
    folder: PathBuf,
    options: Options,
    port: u16,
    /// The name of the host that the server sees; `None`: that of the machine.
    hostname: Option<String>,
}

impl Server {
    /// Starts a durable server and waits until it is ready.
    pub async fn start() -> Result<Server, ServerError> {
        Server::start_with(Options::default()).await
    }

    /// Starts a server that stores nothing on disk.
    pub async fn start_ephemeral() -> Result<Server, ServerError> {
        Server::start_with(Options { ephemeral: true, ..Options::default() }).await
    }

    /// Starts a server and waits until it is ready.
    pub async fn start_with(options: Options) -> Result<Server, ServerError> {
        let mut server = Server { child: None, folder: fresh_folder()?, options, port: 0, hostname: None };
        server.launch_process().await?;
        Ok(server)
    }

    /// Starts a server that sees another name of its host, in a namespace of its own; `None`, with a message, if the system does
    /// not allow that.
    pub async fn start_on_host(name: &str, options: Options) -> Option<Result<Server, ServerError>> {
        let can = Command::new("unshare").args(IN_NAMESPACE).arg("true").stderr(Stdio::null()).status();
        if !can.is_ok_and(|status| status.success()) {
            crate::skip("unshare cannot give a server its own host name");
            return None;
        }
        let hostname = Some(name.to_owned());
        let folder = match fresh_folder() {
            Ok(folder) => folder,
            Err(why) => return Some(Err(why.into())),
        };
        let mut server = Server { child: None, folder, options, port: 0, hostname };
        Some(server.launch_process().await.map(|()| server))
    }

    /// Starts a server without waiting until it is ready.
    pub fn start_waiting(options: Options) -> Result<Server, ServerError> {
        let mut server = Server { child: None, folder: fresh_folder()?, options, port: 0, hostname: None };
        server.spawn_process()?;
        Ok(server)
    }

    /// Restarts on the same folder; a running process is killed first.
    pub async fn restart(&mut self) -> Result<(), ServerError> {
        self.kill()?;
        self.launch_process().await
    }

    /// Restarts on the same folder without waiting until it is ready; a running process is killed first.
    pub fn relaunch(&mut self) -> Result<(), ServerError> {
        self.kill()?;
        self.spawn_process()
    }

    /// Waits until the server is ready.
    pub async fn wait_ready(&mut self) -> Result<(), ServerError> {
        self.wait_until(|code| code == 200).await
    }

    /// Pauses the process (SIGSTOP) until [`Server::resume`].
    pub fn pause(&self) -> Result<(), ServerError> {
        self.send_signal(Signal::STOP)
    }

    /// Resumes a paused process.
    pub fn resume(&self) -> Result<(), ServerError> {
        self.send_signal(Signal::CONT)
    }

    /// Restarts, but waits only until the server answers, ready or not.
    pub async fn restart_listening(&mut self) -> Result<(), ServerError> {
        self.kill()?;
        self.spawn_process()?;
        self.wait_until(|_| true).await
    }

    /// Kills the process (SIGKILL).
    pub fn kill(&mut self) -> Result<(), ServerError> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Asks the process to exit (SIGTERM).
    pub fn signal(&self) -> Result<(), ServerError> {
        self.send_signal(Signal::TERM)
    }

    fn send_signal(&self, signal: Signal) -> Result<(), ServerError> {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        match pid {
            Some(pid) => Ok(kill_process(pid, signal).map_err(io::Error::from)?),
            None => Ok(()),
        }
    }

    /// Asks the process to exit (SIGTERM) and waits for that.
    pub async fn terminate(&mut self) -> Result<Option<ExitStatus>, ServerError> {
        self.signal()?;
        let Some(mut child) = self.child.take() else { return Ok(None) };
        let end = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < end {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            tokio::time::sleep(POLL).await;
        }
        child.kill()?;
        child.wait()?;
        Err(ServerError::NotReady("did not end on SIGTERM".to_owned(), self.log_tail()))
    }

    /// The address of the server: `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The port on which the server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The largest resident set of the process so far; 0 if it does not run.
    pub fn peak_bytes(&self) -> u64 {
        let path = self.pid().map(|pid| format!("/proc/{pid}/status"));
        let status = path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kibibytes.unwrap_or(0).saturating_mul(1024)
    }

    /// The data folder.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The kubeconfig the server writes for its administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("admin.kubeconfig")
    }

    /// A client as `admin`.
    pub fn admin(&self) -> Result<Client, ServerError> {
        Ok(Client::new(&self.url(), Some(ADMIN_TOKEN))?)
    }

    /// A client as `alice`.
    pub fn alice(&self) -> Result<Client, ServerError> {
        Ok(Client::new(&self.url(), Some(ALICE_TOKEN))?)
    }

    async fn launch_process(&mut self) -> Result<(), ServerError> {
        self.spawn_process()?;
        self.wait_until(|code| code == 200).await
    }

    fn spawn_process(&mut self) -> Result<(), ServerError> {
        let data = self.data_dir();
        fs::create_dir_all(&data)?;
        remove_if_there(&data.join("port"))?;
        let tokens = self.folder.join("tokens.csv");
        fs::write(&tokens, TOKENS)?;
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let mut command = match &self.hostname {
            None => Command::new(binary()?),
            Some(name) => {
                let mut command = Command::new("unshare");
                let script = format!("echo {name} > /proc/sys/kernel/hostname && exec \"$0\" \"$@\"");
                command.args(IN_NAMESPACE).args(["sh", "-c", &script]).arg(binary()?);
                command
            }
        };
        // With flags of a kube-apiserver, the default would be all addresses.
        command.arg("serve").arg("--bind-address=127.0.0.1").arg("--data-dir").arg(&data);
        if !self.options.flags.iter().any(|flag| flag.starts_with("--secure-port=")) {
            command.arg("--secure-port=0");
        }
        if self.options.ephemeral {
            command.arg("--ephemeral");
        }
        command.arg("--token-auth-file").arg(&tokens).args([
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=RBAC",
            "--feature-gates=CBORServingAndStorage=true,AllowUnsafeMalformedObjectDeletion=true",
        ]);
        command.args(&self.options.flags);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn()?);
        Ok(())
    }

    /// Waits until `is_enough` accepts the code of `/readyz`.
    async fn wait_until(&mut self, is_enough: impl Fn(u16) -> bool) -> Result<(), ServerError> {
        let port_file = self.data_dir().join("port");
        let end = Instant::now() + READY_TIMEOUT;
        let mut client = None;
        while Instant::now() < end {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().transpose()) {
                let why = format!("ended while starting: {}", status?);
                return Err(ServerError::NotReady(why, self.log_tail()));
            }
            if client.is_none()
                && let Some(port) = fs::read_to_string(&port_file).ok().and_then(|t| t.trim().parse().ok())
            {
                self.port = port;
                client = Some(self.admin()?);
            }
            if let Some(client) = &client
                && let Ok(answer) = client.send(&Request::new("GET", "/readyz")).await
                && is_enough(answer.status())
            {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        let why = format!("was not ready within {} s", READY_TIMEOUT.as_secs());
        Err(ServerError::NotReady(why, self.log_tail()))
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    /// The last lines of the server's output.
    pub fn log_tail(&self) -> String {
        let log = fs::read(self.log_path()).unwrap_or_default();
        let from = log.len().saturating_sub(LOG_TAIL_BYTES);
        String::from_utf8_lossy(log.get(from..).unwrap_or_default()).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended and the folder may be gone; errors are ignored.
        let _ = self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn fresh_folder() -> io::Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("pintle-test-{}-{number}", std::process::id()));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The binary under test: `PINTLE_BIN`, or the newest build beside this executable.
pub fn binary() -> Result<PathBuf, ServerError> {
    if let Some(path) = std::env::var_os("PINTLE_BIN") {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(ServerError::NoBinary(path.display().to_string()))
        };
    }
    let own = std::env::current_exe()?;
    let candidates = own
        .ancestors()
        .filter(|folder| folder.file_name().is_some_and(|name| name == "release" || name == "debug"))
        .filter_map(Path::parent)
        .flat_map(|target| [target.join("release/pintle"), target.join("debug/pintle")]);
    let newest = candidates
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .max_by_key(|(modified, _)| *modified);
    newest.map(|(_, path)| path).ok_or_else(|| ServerError::NoBinary(own.display().to_string()))
}
