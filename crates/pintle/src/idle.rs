//! Releases memory of an idle server: pages of the program that only its start or past requests used.

use pintle_resident::ReadOnlyProgram;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::time::Duration;

/// When pages are released for the first time. The background tasks of the start have ended by then.
const AFTER_START: Duration = Duration::from_secs(2);
/// How often it is checked whether the server was idle.
const INTERVAL: Duration = Duration::from_secs(10);
/// The most processor time that an idle server takes in an interval. A busy server would map its pages again at once.
const IDLE_CPU_MAX: Duration = Duration::from_millis(100);

/// Runs until the server ends.
pub(crate) async fn release_program_when_idle() {
    tokio::time::sleep(AFTER_START).await;
    if let Err(error) = release_repeatedly().await {
        tracing::debug!("cannot release pages of the program: {error}");
    }
}

async fn release_repeatedly() -> io::Result<()> {
    let program = ReadOnlyProgram::find()?;
    loop {
        program.release()?;
        wait_for_idle_interval().await;
    }
}

async fn wait_for_idle_interval() {
    loop {
        let before = cpu_time();
        tokio::time::sleep(INTERVAL).await;
        if cpu_time().saturating_sub(before) <= IDLE_CPU_MAX {
            return;
        }
    }
}

/// The processor time that the process has used.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default()
}
