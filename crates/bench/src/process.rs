//! Memory and CPU time of processes, from /proc.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

/// Clock ticks of `/proc/PID/stat` a second; fixed by Linux's ABI.
const TICKS_PER_SECOND: u64 = 100;

/// The server's processes; all clones see a restart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processes(Arc<Mutex<Vec<u32>>>);

/// CPU time at a moment: by thread in nanoseconds, and in all in ticks.
#[derive(Debug, Clone, Default)]
pub(crate) struct CpuTime {
    thread_ns: BTreeMap<(u32, u32), u64>,
    ticks: u64,
}

impl Processes {
    /// Measures these processes.
    pub(crate) fn of(pids: Vec<u32>) -> Processes {
        Processes(Arc::new(Mutex::new(pids)))
    }

    /// Measures this process.
    pub(crate) fn own() -> Processes {
        Processes::of(vec![std::process::id()])
    }

    fn pids(&self) -> Vec<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces a process by its successor.
    pub(crate) fn replace(&self, old: u32, new: u32) {
        let mut pids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pids.iter_mut().filter(|pid| **pid == old).for_each(|pid| *pid = new);
    }

    /// Whether there is anything to measure.
    pub(crate) fn is_empty(&self) -> bool {
        self.pids().is_empty()
    }

    /// The resident memory of all processes in bytes.
    pub(crate) fn rss_bytes(&self) -> u64 {
        self.pids().into_iter().filter_map(rss_of).sum()
    }

    /// CPU time so far.
    pub(crate) fn cpu(&self) -> CpuTime {
        let mut time = CpuTime::default();
        for pid in self.pids() {
            time.ticks += ticks_of(pid).unwrap_or_default();
            let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for thread in threads {
                let id = thread.file_name().to_string_lossy().parse().ok();
                let spent = fs::read_to_string(thread.path().join("schedstat")).ok();
                let spent = spent.as_deref().and_then(|text| text.split(' ').next()?.parse().ok());
                if let (Some(id), Some(spent)) = (id, spent) {
                    time.thread_ns.insert((pid, id), spent);
                }
            }
        }
        time
    }
}

impl CpuTime {
    /// Seconds spent since `earlier`. Threads that ended are no longer counted in nanoseconds; only then the ticks are
    /// used, which are sampled and less exact.
    pub(crate) fn seconds_since(&self, earlier: &CpuTime) -> f64 {
        let ticks = self.ticks.saturating_sub(earlier.ticks) as f64 / TICKS_PER_SECOND as f64;
        let before = |thread| earlier.thread_ns.get(thread).copied().unwrap_or_default();
        let spent = self.thread_ns.iter().map(|(thread, now)| now.saturating_sub(before(thread)));
        let precise = spent.sum::<u64>() as f64 / 1e9;
        let has_lost_threads = earlier.thread_ns.keys().any(|thread| !self.thread_ns.contains_key(thread));
        if has_lost_threads { ticks.max(precise) } else { precise }
    }
}

fn rss_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// utime + stime. The command's name may contain spaces and brackets, so fields are counted from the last bracket.
fn ticks_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(field(11)? + field(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn measures_this_process() {
        let own = Processes::own();
        assert!(own.rss_bytes() > 100_000);
        let before = own.cpu();
        let end = Instant::now() + Duration::from_secs(20);
        let mut n = 0u64;
        while own.cpu().seconds_since(&before) < 0.02 {
            assert!(Instant::now() < end, "no CPU time passes");
            (0..100_000).for_each(|i| n = std::hint::black_box(n ^ i));
        }
    }

    #[test]
    fn ended_threads_fall_back_to_ticks() {
        let at = |threads: &[(u32, u64)], ticks| CpuTime {
            thread_ns: threads.iter().map(|(id, seconds)| ((1, *id), seconds * 1_000_000_000)).collect(),
            ticks,
        };
        let earlier = at(&[(1, 5), (2, 7)], 1200);
        assert_eq!(at(&[(1, 6), (2, 7)], 1305).seconds_since(&earlier), 1.0);
        assert_eq!(at(&[(1, 6)], 1450).seconds_since(&earlier), 2.5);
    }
}
