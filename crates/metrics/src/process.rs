//! Metrics of this process from the operating system.

use crate::Samples;
use std::time::{SystemTime, UNIX_EPOCH};

/// The clock ticks per second of processor time in `/proc`: 100 on every architecture that we build for.
const TICKS_PER_SECOND: f64 = 100.0;
const PAGE_BYTES: f64 = 4096.0;

/// Processor time, of the system and of the user.
pub(crate) fn cpu_seconds(out: &mut Samples) {
    if let Some(ticks) = stat(13).zip(stat(14)).map(|(user, system)| user + system) {
        out.push(ticks / TICKS_PER_SECOND);
    }
}

pub(crate) fn virtual_bytes(out: &mut Samples) {
    stat(22).into_iter().for_each(|bytes| out.push(bytes));
}

pub(crate) fn resident_bytes(out: &mut Samples) {
    stat(23).into_iter().for_each(|pages| out.push(pages * PAGE_BYTES));
}

pub(crate) fn start_time(out: &mut Samples) {
    let uptime = std::fs::read_to_string("/proc/uptime").ok();
    let uptime = uptime.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    if let Some((uptime, started)) = uptime.zip(stat(21)) {
        out.push(now - uptime + started / TICKS_PER_SECOND);
    }
}

pub(crate) fn open_files(out: &mut Samples) {
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 files")]
        out.push(files.count() as f64);
    }
}

pub(crate) fn open_files_max(out: &mut Samples) {
    read_limit("Max open files").into_iter().for_each(|count| out.push(count));
}

pub(crate) fn virtual_bytes_max(out: &mut Samples) {
    read_limit("Max address space").into_iter().for_each(|bytes| out.push(bytes));
}

pub(crate) fn network_received(out: &mut Samples) {
    network(7).into_iter().for_each(|bytes| out.push(bytes));
}

pub(crate) fn network_sent(out: &mut Samples) {
    network(8).into_iter().for_each(|bytes| out.push(bytes));
}

/// A field of `/proc/self/stat`, counted from 0; the second one is a name in parentheses that may contain blanks.
fn stat(field: usize) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split(' ').nth(field.checked_sub(2)?)?.parse().ok()
}

fn read_limit(name: &str) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        // The value for "no limit" in the client library of Prometheus.
        "unlimited" => Some(18_446_744_073_709_551_615.0),
        number => number.parse().ok(),
    }
}

/// A field of the line `IpExt:` with the bytes received and sent on all interfaces.
fn network(field: usize) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/net/netstat").ok()?;
    let line = text.lines().filter(|line| line.starts_with("IpExt:")).nth(1)?;
    line.split_whitespace().nth(field)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_all_of_it() {
        for read in [
            cpu_seconds,
            virtual_bytes,
            resident_bytes,
            start_time,
            open_files,
            open_files_max,
            virtual_bytes_max,
            network_received,
            network_sent,
        ] {
            let mut samples = Samples::default();
            read(&mut samples);
            assert_eq!(samples.0.len(), 1);
        }
    }
}
