//! `bench`: measures any API server, from the outside.

mod args;
mod benches;
mod error;
mod flood;
mod load;
mod process;
mod row;
mod start;

use std::io::Write as _;
use std::process::ExitCode;

use pintle_testkit::Client;
use serde_json::{Value, json};

use args::Arguments;
use benches::{BENCHES, Bench, Context};
use error::BenchError;
use process::Processes;
use row::Row;

fn say(line: &str) {
    // An error of stdout is ignored.
    let _ = writeln!(std::io::stdout(), "{line}");
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => run(arguments).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(all_ran) if all_ran => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether every bench has results.
async fn run(arguments: Arguments) -> Result<bool, BenchError> {
    if arguments.list {
        BENCHES.iter().for_each(|bench| say(&format!("{:<16}{}", bench.name, bench.what)));
        return Ok(true);
    }
    let chosen = choose_benches(&arguments.only)?;
    let client = arguments.client()?;
    let mut rows = Vec::new();
    let mut server = Processes::of(arguments.pids.clone());
    say(&row::header());
    let started = match &arguments.start {
        Some(command) => {
            let (started, row) = start::start(command, arguments.starts, &client).await?;
            if server.is_empty() {
                server = Processes::of(vec![started.pid()]);
            }
            say(&row.to_line());
            rows.push(row);
            Some(started)
        }
        None => None,
    };
    let version = server_version(&client).await?;
    let json_path = arguments.json.clone();
    let context = Context::new(client, server, arguments, started);
    let mut failed = Vec::new();
    for bench in chosen {
        match (bench.run)(&context).await {
            Ok(more) => {
                more.iter().for_each(|row| say(&row.to_line()));
                rows.extend(more);
            }
            Err(error) => {
                say(&format!("{:<24}failed: {error}", bench.name));
                failed.push(json!({"name": bench.name, "error": error.to_string()}));
            }
        }
    }
    context.clean_up().await?;
    let all_ran = failed.is_empty();
    if let Some(path) = json_path {
        let document = result_document(&version, &rows, failed);
        let written = std::fs::write(&path, format!("{document:#}\n"));
        written.map_err(|e| BenchError::File(path.display().to_string(), e))?;
    }
    Ok(all_ran)
}

fn choose_benches(only: &[String]) -> Result<Vec<&'static Bench>, BenchError> {
    let is_known = |name: &&String| *name == "start" || BENCHES.iter().any(|bench| bench.name == **name);
    if let Some(unknown) = only.iter().find(|name| !is_known(name)) {
        return Err(BenchError::Arguments(format!("no bench is called {unknown}; see --list")));
    }
    let is_chosen = |bench: &&Bench| only.is_empty() || only.iter().any(|name| name == bench.name);
    Ok(BENCHES.iter().filter(is_chosen).collect())
}

async fn server_version(client: &Client) -> Result<String, BenchError> {
    let (_, version) = client.get("/version").await?;
    Ok(version.get("gitVersion").and_then(Value::as_str).unwrap_or("unknown").to_owned())
}

fn result_document(version: &str, rows: &[Row], failed: Vec<Value>) -> Value {
    let rows: Vec<Value> = rows.iter().map(Row::to_json).collect();
    json!({"server": {"version": version}, "benches": rows, "failed": failed})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_chosen_by_name() {
        let mut names: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BENCHES.len());
        assert_eq!(choose_benches(&["get".to_owned()]).unwrap().len(), 1);
        assert_eq!(choose_benches(&[]).unwrap().len(), BENCHES.len());
        assert!(choose_benches(&["nope".to_owned()]).is_err());
    }
}
