//! Transcripts: recorded conversations with the API, replayed and compared.
//!
//! A file is a series of steps; a step is a request and its recorded response. The modules parse a file, replay it,
//! normalize responses of different runs, and report differences.

pub mod body;
pub mod compare;
pub mod file;
pub mod normal;
pub mod pointer;
pub mod run;
mod stream;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use run::{Failure, FileReport};

use crate::client::Client;

/// The maximum number of lines of difference printed for a step.
const DIFF_LINES_MAX: usize = 40;

/// The result of replaying many transcripts, in the order of their paths.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// One report per file.
    pub files: Vec<FileReport>,
}

/// The transcripts in files and folders, sorted, each once.
pub fn find(paths: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() { find_below(path, &mut files)? } else { files.push(path.clone()) }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn find_below(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_below(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "http") {
            files.push(path);
        }
    }
    Ok(())
}

/// Whether a file runs last and alone, because it changes what other files see.
fn runs_alone(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("zz-"))
}

/// Replays transcripts, `jobs` at a time.
pub async fn check(client: &Client, files: &[PathBuf], jobs: usize) -> io::Result<Report> {
    let (alone, together): (Vec<_>, Vec<_>) = files.iter().cloned().partition(|path| runs_alone(path));
    let free = Arc::new(Semaphore::new(jobs.max(1)));
    let mut running = JoinSet::new();
    for path in together {
        let turn = free.clone().acquire_owned().await.map_err(io::Error::other)?;
        let client = client.clone();
        running.spawn(async move {
            let report = run::check(&client, &path).await;
            drop(turn);
            report
        });
    }
    let mut report = Report::default();
    while let Some(done) = running.join_next().await {
        report.files.push(done.map_err(io::Error::other)??);
    }
    for path in alone {
        report.files.push(run::check(client, &path).await?);
    }
    report.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(report)
}

/// Replays transcripts one after another and replaces the recorded responses.
pub async fn record(client: &Client, files: &[PathBuf]) -> io::Result<()> {
    for path in files {
        run::record(client, path).await?;
    }
    Ok(())
}

impl Report {
    /// The number of steps that are equal.
    pub fn passed(&self) -> usize {
        self.files.iter().map(|file| file.passed).sum()
    }

    /// The number of steps that differ.
    pub fn failed(&self) -> usize {
        self.files.iter().map(|file| file.failures.len()).sum()
    }

    /// The number of steps that differ at most in messages.
    pub fn alike(&self) -> usize {
        self.files.iter().map(FileReport::alike).sum()
    }

    /// The report as text: one line per file if `quiet`, otherwise every difference; at the end the counts.
    pub fn render(&self, quiet: bool) -> String {
        let mut out = String::new();
        for file in &self.files {
            if quiet || !file.failures.is_empty() {
                let word = if file.failures.is_empty() { "ok  " } else { "FAIL" };
                let total = file.passed + file.failures.len();
                let _ = writeln!(out, "{word} {}: {}/{total} steps", file.path.display(), file.passed);
            }
            if !quiet {
                file.failures.iter().for_each(|failure| out.push_str(&failure.render()));
            }
        }
        let whole = self.files.iter().filter(|file| file.failures.is_empty()).count();
        let (files, alike) = (self.files.len(), self.alike());
        let _ = writeln!(
            out,
            "files without a difference: {whole} of {files}; steps alike but for messages: {alike}"
        );
        let _ = writeln!(out, "{} passed, {} failed", self.passed(), self.failed());
        out
    }
}

impl Failure {
    /// The step's title and the difference: `-` recorded, `+` received.
    pub fn render(&self) -> String {
        let lines = compare::diff(&self.want, &self.got);
        let mut out = format!("  --- {}\n", self.title);
        for line in lines.iter().take(DIFF_LINES_MAX) {
            let _ = writeln!(out, "  {line}");
        }
        if lines.len() > DIFF_LINES_MAX {
            let _ = writeln!(out, "  … {} more lines", lines.len() - DIFF_LINES_MAX);
        }
        out
    }
}
