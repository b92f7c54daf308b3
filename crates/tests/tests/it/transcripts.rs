//! Replays the transcripts under `tests/transcripts`, one test per area.
//!
//! Steps listed in `KNOWN_DIFFERENCES` may differ in messages, but in nothing else; a listed step that no longer differs,
//! or no longer exists, must be removed from the list.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pintle_testkit::transcript::{self, Report};
use pintle_testkit::{Client, Etcd, Options, Server};

const JOBS: usize = 4;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transcripts")
}

/// Lines `area/file.http :: title of the step`; `#` begins a comment.
fn known_differences() -> BTreeSet<String> {
    let text = std::fs::read_to_string(folder().join("KNOWN_DIFFERENCES")).expect("the list is there");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// Removes known differences from a report; returns those that occurred.
fn forgive(report: &mut Report, known: &BTreeSet<String>) -> BTreeSet<String> {
    let mut met = BTreeSet::new();
    for file in &mut report.files {
        let path = file.path.strip_prefix(folder()).unwrap_or(&file.path).display().to_string();
        let before = file.failures.len();
        file.failures.retain(|failure| {
            let name = format!("{path} :: {}", failure.title);
            let is_known = failure.wording_only && known.contains(&name);
            if is_known {
                met.insert(name);
            }
            !is_known
        });
        file.passed += before - file.failures.len();
    }
    met
}

async fn replay(area: &str, server: Server) {
    if !folder().join(area).is_dir() {
        return;
    }
    let files = transcript::find(&[folder().join(area)]).unwrap();
    let client = Client::new(&server.url(), None).unwrap();
    let mut report = transcript::check(&client, &files, JOBS).await.unwrap();
    replay_failed_alone(&client, &mut report).await;
    let known: BTreeSet<String> =
        known_differences().into_iter().filter(|line| line.starts_with(&format!("{area}/"))).collect();
    let met = forgive(&mut report, &known);
    let gone: Vec<&String> = known.difference(&met).collect();
    eprintln!("{area}: {} steps alike, {} different", report.passed(), report.failed());
    assert!(report.failed() == 0, "\n{}\n{}", report.render(false), server.log_tail());
    assert!(gone.is_empty(), "no longer different, take them off KNOWN_DIFFERENCES: {gone:#?}");
}

/// Answers have whole seconds (managedFields are ordered by them), so a step can differ by the moment it runs at: files
/// that differ are replayed once more, one at a time.
async fn replay_failed_alone(client: &Client, report: &mut Report) {
    for file in report.files.iter_mut().filter(|file| !file.failures.is_empty()) {
        let again = transcript::check(client, std::slice::from_ref(&file.path), 1).await.unwrap();
        if let Some(again) = again.files.into_iter().next() {
            *file = again;
        }
    }
}

macro_rules! areas {
    ($($area:ident),*) => {
        const AREAS: &[&str] = &[$(stringify!($area)),*];
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $area() {
                replay(stringify!($area), Server::start_ephemeral().await.unwrap()).await;
            }
        )*

        /// The answers do not depend on the store.
        mod on_etcd {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $area() {
                    let Some(etcd) = Etcd::start(1, &[]) else { return };
                    let flags = vec![format!("--etcd-servers={}", etcd.endpoints())];
                    let options = Options { flags, ..Options::default() };
                    replay(stringify!($area), Server::start_with(options).await.unwrap()).await;
                }
            )*
        }
    };
}

areas!(access, apply, cel, crds, kinds, reads, streams, writes);

/// Fails if a folder of transcripts belongs to no test.
#[test]
fn every_folder_is_an_area() {
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(AREAS.contains(&name.as_str()), "{name} is not in the list of areas");
        }
    }
}

#[test]
fn known_differences_name_files_that_exist() {
    for line in known_differences() {
        let (file, title) = line.split_once(" :: ").expect("`file :: title`");
        let text = std::fs::read_to_string(folder().join(file)).expect(file);
        assert!(transcript::file::parse(&text).steps.iter().any(|step| step.title == title), "{line}");
    }
}
