//! Faults, one after the other and sometimes two at once: members of etcd and servers are killed, paused and restarted.

use crate::random::Random;
use pintle_testkit::{Etcd, Server};
use std::time::Duration;
use tokio::time::sleep;

pub(crate) struct Nemesis {
    pub(crate) etcd: Etcd,
    pub(crate) servers: Vec<Server>,
    pub(crate) random: Random,
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    KillServer(usize),
    /// SIGTERM: the server shuts down gracefully.
    EndServer(usize),
    StopServer(usize),
    KillMember(usize),
    StopMember(usize),
}

impl Fault {
    /// Whether the fault hits a server (or else a member of etcd), and its index.
    fn victim(self) -> (bool, usize) {
        match self {
            Fault::KillServer(index) | Fault::EndServer(index) | Fault::StopServer(index) => (true, index),
            Fault::KillMember(index) | Fault::StopMember(index) => (false, index),
        }
    }
}

impl Nemesis {
    /// Causes `faults` faults; each is healed before the next but one begins.
    pub(crate) async fn run(&mut self, faults: u64) {
        for number in 0..faults {
            self.pause(300, 1200).await;
            let fault = self.choose();
            // One in five occurs together with another.
            let second = (self.random.below(5) == 0).then(|| self.choose());
            let second = second.filter(|second| second.victim() != fault.victim());
            let millis = self.duration();
            if std::env::var_os("PINTLE_HISTORY_VERBOSE").is_some() {
                eprintln!("fault {number}: {fault:?} {second:?} for {millis} ms");
            }
            self.begin(fault).await;
            if let Some(second) = second {
                self.begin(second).await;
            }
            sleep(Duration::from_millis(millis)).await;
            self.end(fault);
            if let Some(second) = second {
                self.end(second);
            }
        }
    }

    fn choose(&mut self) -> Fault {
        let server = self.random.index(self.servers.len());
        let member = self.random.index(self.etcd.len());
        match self.random.below(10) {
            0..3 => Fault::KillServer(server),
            3..4 => Fault::EndServer(server),
            4..6 => Fault::StopServer(server),
            6..8 => Fault::KillMember(member),
            _ => Fault::StopMember(member),
        }
    }

    /// Mostly short; one in ten is longer than the keep-alive interval of connections.
    fn duration(&mut self) -> u64 {
        match self.random.below(10) {
            0 => 11_000 + self.random.below(5_000),
            1..4 => 2_000 + self.random.below(3_000),
            _ => self.random.below(1_500),
        }
    }

    async fn pause(&mut self, from: u64, to: u64) {
        let millis = from + self.random.below(to - from);
        sleep(Duration::from_millis(millis)).await;
    }

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::KillServer(index) => self.servers[index].kill().unwrap(),
            Fault::EndServer(index) => {
                // A server that cannot reach etcd may need too long; it is killed then.
                let _ = self.servers[index].terminate().await;
            }
            Fault::StopServer(index) => self.servers[index].pause().unwrap(),
            Fault::KillMember(index) => self.etcd.kill(index).unwrap(),
            Fault::StopMember(index) => self.etcd.pause(index).unwrap(),
        }
    }

    fn end(&mut self, fault: Fault) {
        match fault {
            Fault::KillServer(index) | Fault::EndServer(index) => self.servers[index].relaunch().unwrap(),
            Fault::StopServer(index) => self.servers[index].resume().unwrap(),
            Fault::KillMember(index) => {
                self.etcd.kill(index).unwrap();
                self.etcd.launch(index).unwrap();
            }
            Fault::StopMember(index) => self.etcd.resume(index).unwrap(),
        }
    }

    /// Waits until every server is ready again.
    pub(crate) async fn heal(&mut self) {
        for server in &mut self.servers {
            server.wait_ready().await.unwrap();
        }
    }
}
