//! Replays transcripts against a server, or against one that it starts itself: `check` compares every answer with the
//! recorded one, `record` rewrites the files with the server's answers.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use pintle_testkit::{Client, Server, transcript};

const USAGE: &str = "usage: transcript check|record [--server URL] [--quiet] [--jobs N] FILE|DIR...";

struct Arguments {
    record: bool,
    server: Option<String>,
    quiet: bool,
    jobs: usize,
    paths: Vec<PathBuf>,
}

fn parse(arguments: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut parsed = Arguments { record: false, server: None, quiet: false, jobs: 4, paths: Vec::new() };
    let mut arguments = arguments.flat_map(|argument| match argument.split_once('=') {
        Some((name, value)) if name.starts_with("--") => vec![name.to_owned(), value.to_owned()],
        _ => vec![argument],
    });
    match arguments.next()?.as_str() {
        "check" => {}
        "record" => parsed.record = true,
        _ => return None,
    }
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--server" => parsed.server = Some(arguments.next()?),
            "--quiet" => parsed.quiet = true,
            "--jobs" => parsed.jobs = arguments.next()?.parse().ok()?,
            other if other.starts_with('-') => return None,
            path => parsed.paths.push(path.into()),
        }
    }
    (!parsed.paths.is_empty()).then_some(parsed)
}

/// Runs the command; returns what to print and whether every step passed.
async fn run(arguments: &Arguments) -> Result<(String, bool), Box<dyn std::error::Error>> {
    let files = transcript::find(&arguments.paths)?;
    let own = match arguments.server {
        Some(_) => None,
        None => Some(Server::start_ephemeral().await?),
    };
    let url = own.as_ref().map(Server::url).or(arguments.server.clone()).unwrap_or_default();
    let client = Client::new(&url, None)?;
    if arguments.record {
        transcript::record(&client, &files).await?;
        return Ok((format!("recorded {} files\n", files.len()), true));
    }
    let report = transcript::check(&client, &files, arguments.jobs).await?;
    Ok((report.render(arguments.quiet), report.failed() == 0))
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut stdout = std::io::stdout();
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        let _ = writeln!(std::io::stderr(), "{USAGE}");
        return ExitCode::from(2);
    };
    match run(&arguments).await {
        Ok((text, passed)) => {
            let _ = stdout.write_all(text.as_bytes());
            if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "transcript: {error}");
            ExitCode::from(2)
        }
    }
}
