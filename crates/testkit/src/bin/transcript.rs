//! `transcript check [--server URL] [--quiet] [--jobs N] FILE|DIR...`: replays transcripts against a server.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use pintle_testkit::{Client, Server, transcript};

const USAGE: &str = "usage: transcript check [--server URL] [--quiet] [--jobs N] FILE|DIR...";

struct Arguments {
    server: Option<String>,
    quiet: bool,
    jobs: usize,
    paths: Vec<PathBuf>,
}

fn parse(arguments: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut parsed = Arguments { server: None, quiet: false, jobs: 4, paths: Vec::new() };
    let mut arguments = arguments.flat_map(|argument| match argument.split_once('=') {
        Some((name, value)) if name.starts_with("--") => vec![name.to_owned(), value.to_owned()],
        _ => vec![argument],
    });
    if arguments.next()? != "check" {
        return None;
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

async fn check(arguments: &Arguments) -> Result<transcript::Report, Box<dyn std::error::Error>> {
    let files = transcript::find(&arguments.paths)?;
    let own = match arguments.server {
        Some(_) => None,
        None => Some(Server::start_ephemeral().await?),
    };
    let url = own.as_ref().map(Server::url).or(arguments.server.clone()).unwrap_or_default();
    Ok(transcript::check(&Client::new(&url, None)?, &files, arguments.jobs).await?)
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut stdout = std::io::stdout();
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        let _ = writeln!(std::io::stderr(), "{USAGE}");
        return ExitCode::from(2);
    };
    match check(&arguments).await {
        Ok(report) => {
            let _ = stdout.write_all(report.render(arguments.quiet).as_bytes());
            if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "transcript: {error}");
            ExitCode::from(2)
        }
    }
}
