//! A Kubernetes API server for tests: Pintle as a child process with everything in memory, ready in milliseconds. It
//! depends on neither the server's crates nor a client.
//!
//! With kube-rs:
//!
//! ```ignore
//! let server = pintle_testserver::TestServer::start()?;
//! let kubeconfig = kube::config::Kubeconfig::read_from(server.kubeconfig())?;
//! let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
//! let client = kube::Client::try_from(config)?;
//! ```

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(1);

/// Why the server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TestServerError {
    /// The program could not be started.
    #[error("cannot start {0:?} (PINTLE_BIN names another program): {1}")]
    Program(PathBuf, io::Error),
    /// The server's folder could not be created or read.
    #[error("{0}: {1}")]
    Folder(PathBuf, io::Error),
    /// The server ended, or did not become ready.
    #[error("the server {0}:\n{1}")]
    NotReady(String, String),
}

/// How to start a server.
#[derive(Clone, Debug, Default)]
pub struct TestServerBuilder {
    program: Option<PathBuf>,
    flags: Vec<String>,
}

impl TestServerBuilder {
    /// Sets the program; the default is `PINTLE_BIN`, or `pintle` on `PATH`.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Adds a flag of the server.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Starts the server and waits until it is ready.
    pub fn start(self) -> Result<TestServer, TestServerError> {
        let named = self.program.or_else(|| std::env::var_os("PINTLE_BIN").map(PathBuf::from));
        let program = named.unwrap_or_else(|| PathBuf::from("pintle"));
        let folder = Folder::create_folder()?;
        let log = folder.0.join("server.log");
        let output = File::create(&log).and_then(|out| Ok((out.try_clone()?, out)));
        let (stdout, stderr) = output.map_err(|error| TestServerError::Folder(log, error))?;
        let mut command = Command::new(&program);
        command
            .args(["serve", "--ephemeral", "--stop-with-stdin", "--secure-port=0", "--data-dir"])
            .arg(&folder.0)
            .args(self.flags);
        // The pipe ends with this process, however it ends, and the server with the pipe.
        command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
        let child = command.spawn().map_err(|error| TestServerError::Program(program, error))?;
        let mut server = TestServer { child: Running(child), folder, port: 0 };
        server.wait_until_ready()?;
        Ok(server)
    }
}

/// A running server. Dropping it ends the process and removes its folder.
#[derive(Debug)]
pub struct TestServer {
    // Declared before the folder, so that the process ends before its files are removed.
    child: Running,
    folder: Folder,
    port: u16,
}

impl TestServer {
    /// Starts a server and waits until it is ready.
    pub fn start() -> Result<TestServer, TestServerError> {
        TestServer::builder().start()
    }

    /// Starts with other settings.
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::default()
    }

    /// The path of a kubeconfig of the group `system:masters`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.0.join("admin.kubeconfig")
    }

    /// The address of the server: `https://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The port on which the server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The output of the server so far.
    pub fn log(&self) -> String {
        fs::read(self.folder.0.join("server.log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    fn wait_until_ready(&mut self) -> Result<(), TestServerError> {
        // The server writes this file when it is ready.
        let file = self.folder.0.join("port");
        let end = Instant::now() + READY_TIMEOUT;
        loop {
            if let Some(port) = read_port(&file) {
                self.port = port;
                return Ok(());
            }
            let ended =
                self.child.0.try_wait().map_err(|error| TestServerError::Folder(file.clone(), error))?;
            if let Some(status) = ended {
                return Err(TestServerError::NotReady(
                    format!("ended while starting ({status})"),
                    self.log(),
                ));
            }
            if Instant::now() > end {
                let why = format!("was not ready within {} s", READY_TIMEOUT.as_secs());
                return Err(TestServerError::NotReady(why, self.log()));
            }
            thread::sleep(POLL);
        }
    }
}

fn read_port(file: &Path) -> Option<u16> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// A child process that is killed on drop; it has nothing to save.
#[derive(Debug)]
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A new folder that only this user can read; it is removed on drop.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn create_folder() -> Result<Folder, TestServerError> {
        let random = RandomState::new().hash_one(std::process::id());
        let path = std::env::temp_dir().join(format!("pintle-test-{random:016x}"));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(Folder(path)),
            Err(error) => Err(TestServerError::Folder(path, error)),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If a folder cannot be removed, it is left to the system's clean-up of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cannot_start_says_why_and_leaves_nothing() {
        let missing = TestServer::builder().program("/nope/pintle").start();
        assert!(matches!(missing, Err(TestServerError::Program(..))), "{missing:?}");
        let ended = TestServer::builder().program("false").start();
        assert!(matches!(ended, Err(TestServerError::NotReady(..))), "{ended:?}");
        let folder = Folder::create_folder().unwrap();
        let path = folder.0.clone();
        drop(folder);
        assert!(!path.exists());
    }
}
