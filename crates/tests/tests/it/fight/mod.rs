//! A randomised fight: unauthenticated clients and users attack the server in many ways at once, its disk is filled
//! and it is killed. Throughout, exempt requests must be answered, memory must stay bounded, and no acknowledged
//! write may be lost.
//!
//! The fight has rounds. In each, a few attacks are chosen at random and run together with writers and an exempt
//! client; the round may fill the disk, and ends with a SIGKILL under full load. Then the server starts again, and
//! its objects are compared with the acknowledged writes. `PINTLE_FIGHT_SECONDS` makes the fight longer,
//! `PINTLE_FIGHT_SEED` repeats its choices, `PINTLE_FIGHT_ATTACKS` limits them to those whose names contain one of
//! the given words.

mod arena;
mod bombs;
mod exempt;
mod floods;
pub(crate) mod frames;
mod writers;

use std::time::{Duration, Instant};

use pintle_testkit::{Client, Server};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::random::{Random, setting};
use arena::Arena;
use exempt::Exempt;
use writers::Ledger;

/// How long the fight of the test suite takes.
const FIGHT_SECONDS: u64 = 30;
/// How long the attacks of one round last.
const ROUND_MS: std::ops::Range<u64> = 4_000..9_000;
/// How many attacks run at the same time.
const ATTACKS_PER_ROUND: usize = 5;
/// The memory limit of the server. It takes 50 MB when idle; a single request may take 120 MB by its limits, and as
/// many heavy requests run at once as there are processors.
const RSS_BYTES_MAX: u64 = 800 << 20;
/// How long a full disk stays full.
const FULL_DISK_MS: std::ops::Range<u64> = 500..2_500;
/// How soon after a full disk has space again writes succeed.
const HEALING: Duration = Duration::from_secs(20);

/// Large writes, which use up the space that the log has in reserve.
const LARGE_BYTES: usize = 900_000;
const LARGE_WRITES_MAX: usize = 100;

const NAMESPACE: &str = "fight";
const MAPS: &str = "/api/v1/namespaces/fight/configmaps";

/// The parameters of an attack: a user with rights in its namespace, and a random generator. An unauthenticated
/// attacker is this client without its token.
struct Attacker {
    user: Client,
    random: Random,
}

impl Attacker {
    fn stranger(&self) -> Client {
        self.user.as_token(None)
    }
}

type Attack = fn(Attacker) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Every attack by its name. It runs until it is aborted, and ignores errors, because the server is expected to
/// refuse it.
fn attacks() -> Vec<(&'static str, Attack)> {
    let mut all = floods::attacks();
    all.extend(bombs::attacks());
    let Ok(words) = std::env::var("PINTLE_FIGHT_ATTACKS") else { return all };
    all.retain(|(name, _)| words.split(',').any(|word| name.contains(word)));
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exempt_clients_are_answered_and_nothing_acknowledged_is_lost() {
    let seconds = setting("PINTLE_FIGHT_SECONDS").unwrap_or(FIGHT_SECONDS);
    let mut random = Random::from_setting("PINTLE_FIGHT_SEED");
    eprintln!("PINTLE_FIGHT_SECONDS={seconds} PINTLE_FIGHT_SEED={}", random.seed());
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut arena = Arena::start().await;
    let ledger = Ledger::default();
    let mut exempt_requests = 0;
    for round in 0.. {
        let chosen = random.choose(&attacks(), ATTACKS_PER_ROUND);
        let names: Vec<&str> = chosen.iter().map(|(name, _)| *name).collect();
        let fills_disk = arena.can_fill() && random.below(3) == 0;
        eprintln!("round {round}: {}{}", names.join(", "), if fills_disk { "; full disk" } else { "" });
        prepare(&arena.server).await;

        let mut attackers = JoinSet::new();
        for (_, attack) in &chosen {
            let user = arena.server.alice().unwrap();
            attackers.spawn(attack(Attacker { user, random: random.fork() }));
        }
        let writing = ledger.start_writers(&arena.server.alice().unwrap(), &mut random);
        let mut exempt = Exempt::start(&arena.server);
        sleep_ms(random.within(ROUND_MS)).await;
        if fills_disk {
            exempt.expect_unready(true);
            arena.fill();
            let failed = exhaust_log(&arena.server).await;
            eprintln!(
                "round {round}: the disk is full, writes {}",
                if failed { "fail" } else { "still succeed" }
            );
            sleep_ms(random.within(FULL_DISK_MS)).await;
            arena.free();
            wait_for_writes(&arena.server, &format!("round {round}")).await;
            exempt.expect_unready(false);
        }
        let rss = arena.server.peak_bytes();
        let answered = exempt.stop().await;
        eprintln!("round {round}: {answered}; {} MiB; {}", rss >> 20, ledger.summary());
        assert!(answered.answers > 0, "no exempt request was answered in round {round}");
        assert!(rss < RSS_BYTES_MAX, "round {round} ({}): {} MiB", names.join(", "), rss >> 20);
        exempt_requests += answered.answers;

        arena.server.kill().unwrap();
        attackers.shutdown().await;
        writing.stop().await;
        arena.server.restart().await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        ledger.check(&arena.server.admin().unwrap(), round).await;
        if Instant::now() > end {
            break;
        }
    }
    eprintln!("{exempt_requests} exempt requests were answered; {}", ledger.summary());
    assert!(ledger.acknowledged() > 0, "no write was acknowledged");
}

/// Creates the namespace and the rights of the user who attacks and writes in it. They may exist from earlier rounds.
async fn prepare(server: &Server) {
    let admin = server.admin().unwrap();
    let rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": NAMESPACE},
        "rules": [
            {"apiGroups": ["", "fight.example.com"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAMESPACE},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    for (path, object) in [("/api/v1/namespaces", &namespace), (roles, &role), (rbac, &binding)] {
        let (code, answer) = admin.post(path, object).await.unwrap();
        assert!(matches!(code, 201 | 409), "{path}: {code} {answer}");
    }
}

/// Writes until a write fails because the disk is full: the log has space in reserve. Returns whether one failed.
async fn exhaust_log(server: &Server) -> bool {
    let admin = server.admin().unwrap();
    let path = "/api/v1/namespaces/default/configmaps/large";
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}});
    _ = admin.post("/api/v1/namespaces/default/configmaps", &object).await;
    for number in 0..LARGE_WRITES_MAX {
        object["data"] = json!({"number": number.to_string(), "text": "x".repeat(LARGE_BYTES)});
        let (code, answer) = admin.put(path, &object).await.unwrap();
        match code {
            200 => {}
            // The store has no space, or did not process the write in time.
            500.. => return true,
            _ => panic!("{code} {answer}"),
        }
    }
    false
}

/// Waits until an exempt client can write again.
async fn wait_for_writes(server: &Server, context: &str) {
    let admin = server.admin().unwrap();
    let end = Instant::now() + HEALING;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "healed-"}});
    let mut last: Option<(u16, Value)> = None;
    while Instant::now() < end {
        match admin.post("/api/v1/namespaces/default/configmaps", &object).await {
            Ok((201, _)) => return,
            Ok(refused) => last = Some(refused),
            Err(error) => panic!("{context}: {error}\n{}", server.log_tail()),
        }
        sleep_ms(50).await;
    }
    panic!("{context}: no writes after the full disk had space again: {last:?}\n{}", server.log_tail());
}

async fn sleep_ms(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}
