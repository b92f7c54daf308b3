//! The command line, and the server of a kubeconfig.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pintle_testkit::Client;
use pintle_testkit::wire::Target;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::BenchError;

pub(crate) const USAGE: &str = "\
usage: bench [--server URL] (--token TOKEN | --kubeconfig FILE) [options]
  --start CMD      start the server with this command and measure until /readyz is 200
  --starts N       that many starts, the last one stays (default 1)
  --pid P[,P...]   processes whose memory and CPU count as the server's
  --objects N      objects for memory per object (default 100000)
  --pod-address IP where pods and kubelets of this program listen; on 127.0.0.1 (default) no pod can be proxied to
  --nodes N        nodes of the cluster (default 1000)
  --seconds S      how long a load lasts (default 5)
  --quick          a second a load, 10000 objects, 100 nodes
  --only NAME,...  only these benches
  --json FILE      write the numbers as JSON too
  --list           name the benches";

/// The parsed command line.
#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) server: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) start: Option<String>,
    pub(crate) starts: usize,
    pub(crate) pids: Vec<u32>,
    pub(crate) objects: usize,
    pub(crate) pod_address: IpAddr,
    pub(crate) nodes: usize,
    pub(crate) duration: Duration,
    pub(crate) only: Vec<String>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) list: bool,
}

impl Arguments {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Arguments, BenchError> {
        let mut parsed = Arguments {
            server: None,
            token: None,
            kubeconfig: None,
            start: None,
            starts: 1,
            pids: Vec::new(),
            objects: 100_000,
            pod_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            nodes: 1000,
            duration: Duration::from_secs(5),
            only: Vec::new(),
            json: None,
            list: false,
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let (name, given) = match argument.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (argument, None),
            };
            if name == "--quick" {
                parsed.duration = Duration::from_secs(1);
                parsed.objects = 10_000;
                parsed.nodes = 100;
                continue;
            }
            if name == "--list" {
                parsed.list = true;
                continue;
            }
            let value = given.or_else(|| arguments.next());
            let value =
                value.ok_or_else(|| BenchError::Arguments(format!("{name} needs a value\n{USAGE}")))?;
            parsed.set(&name, value)?;
        }
        Ok(parsed)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), BenchError> {
        let wrong = || BenchError::Arguments(format!("{name} {value}: not understood\n{USAGE}"));
        match name {
            "--server" => self.server = Some(value),
            "--token" => self.token = Some(value),
            "--kubeconfig" => self.kubeconfig = Some(value.into()),
            "--start" => self.start = Some(value),
            "--json" => self.json = Some(value.into()),
            "--starts" => self.starts = value.parse().map_err(|_| wrong())?,
            "--nodes" => self.nodes = value.parse().ok().filter(|nodes| *nodes > 0).ok_or_else(wrong)?,
            "--pod-address" => self.pod_address = value.parse().map_err(|_| wrong())?,
            "--objects" => self.objects = value.parse().map_err(|_| wrong())?,
            "--seconds" => {
                let seconds = value.parse().map_err(|_| wrong())?;
                self.duration = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
            }
            "--only" => self.only.extend(value.split(',').map(str::to_owned)),
            "--pid" => {
                for pid in value.split(',') {
                    self.pids.push(pid.trim().parse().map_err(|_| wrong())?);
                }
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// The client of the command line and the kubeconfig; the command line takes precedence.
    pub(crate) fn client(&self) -> Result<Client, BenchError> {
        let config = match &self.kubeconfig {
            Some(path) => Kubeconfig::read(path)?,
            None => Kubeconfig::default(),
        };
        let missing = || BenchError::Arguments(format!("no server given\n{USAGE}"));
        let url = self.server.clone().or_else(|| config.value("server")).ok_or_else(missing)?;
        let token = self.token.clone().or_else(|| config.value("token"));
        let identity = if self.token.is_some() { None } else { config.read_identity()? };
        Ok(Client::of(Target::with_identity(&url, identity)?, token.as_deref()))
    }
}

/// The `key: value` lines of a kubeconfig with one cluster and one user.
#[derive(Default)]
struct Kubeconfig {
    folder: PathBuf,
    text: String,
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Kubeconfig {
    fn read(path: &Path) -> Result<Kubeconfig, BenchError> {
        let text = read(path)?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Kubeconfig { folder, text: String::from_utf8_lossy(&text).into_owned() })
    }

    fn value(&self, key: &str) -> Option<String> {
        self.text.lines().find_map(|line| {
            let (name, value) = line.trim_start_matches([' ', '-']).split_once(':')?;
            let value = value.trim().trim_matches(['"', '\'']);
            (name == key && !value.is_empty()).then(|| value.to_owned())
        })
    }

    fn read_file(&self, key: &str) -> Result<Option<Vec<u8>>, BenchError> {
        if let Some(data) = self.value(&format!("{key}-data")) {
            let decoded = STANDARD.decode(data);
            return decoded.map(Some).map_err(|_| BenchError::Arguments(format!("{key}-data is not base64")));
        }
        self.value(key).map(|path| read(&self.folder.join(path))).transpose()
    }

    fn read_identity(&self) -> Result<Option<Identity>, BenchError> {
        let (Some(certificate), Some(key)) =
            (self.read_file("client-certificate")?, self.read_file("client-key")?)
        else {
            return Ok(None);
        };
        let wrong = |_| BenchError::Arguments("the client certificate cannot be read".to_owned());
        let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<_, _>>().map_err(wrong)?;
        Ok(Some((chain, PrivateKeyDer::from_pem_slice(&key).map_err(wrong)?)))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, BenchError> {
    std::fs::read(path).map_err(|e| BenchError::File(path.display().to_string(), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parse = |line: &str| Arguments::parse(line.split(' ').map(str::to_owned));
        let parsed = parse("--server https://x:1 --token=t --pid 1,2 --only a,b --quick").unwrap();
        assert_eq!(parsed.pids, [1, 2]);
        assert_eq!(parsed.only, ["a", "b"]);
        assert_eq!((parsed.objects, parsed.duration), (10_000, Duration::from_secs(1)));
        for line in ["--pid x", "--nope 1", "--server", "--seconds -1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn kubeconfigs() {
        let text = "clusters:\n- cluster:\n    server: https://h:1\nusers:\n- user:\n    token: \"abc\"\n";
        let config = Kubeconfig { folder: PathBuf::new(), text: text.to_owned() };
        assert_eq!(config.value("server").as_deref(), Some("https://h:1"));
        assert_eq!(config.value("token").as_deref(), Some("abc"));
        assert!(config.read_identity().unwrap().is_none());
    }
}
