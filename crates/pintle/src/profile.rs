//! Profiles of the running server in pprof's format: CPU time, threads, and memory by mapping.

mod format;

use format::Profile;
use pintle_http::BoxFuture;
use pintle_http::debug::Profiler;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Takes profiles.
pub(crate) struct Profiles;

/// The samples per second, as in Go.
const SAMPLES_PER_SECOND: i32 = 100;
/// Code that must not be unwound while it runs.
const NOT_UNWOUND: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// How many profiles are read from the kernel at once.
const KERNEL_READS_MAX: usize = 1;

static IS_SAMPLING: AtomicBool = AtomicBool::new(false);
static KERNEL_READS: Semaphore = Semaphore::const_new(KERNEL_READS_MAX);

impl Profiler for Profiles {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("heap", "Memory of the process by what it is mapped for"),
            ("profile", "Processor time by stack, for as many seconds as the parameter seconds says"),
            ("threadcreate", "Threads by name"),
        ]
    }

    fn take<'a>(&'a self, name: &'a str, time: Duration) -> BoxFuture<'a, Option<Result<Vec<u8>, String>>> {
        Box::pin(async move {
            let profile = match name {
                "profile" => profile_processor(time).await,
                "threadcreate" => read_kernel(profile_threads).await,
                "heap" | "allocs" => read_kernel(memory).await,
                _ => return None,
            };
            Some(profile.map(|profile| profile.encode()))
        })
    }
}

/// Reads a profile from the kernel, which takes tens of milliseconds and stops all threads that need memory meanwhile: on a
/// thread of its own, and only one at a time.
async fn read_kernel(read: fn() -> std::io::Result<Profile>) -> Result<Profile, String> {
    let _permit = KERNEL_READS.acquire().await.map_err(|e| e.to_string())?;
    tokio::task::spawn_blocking(read).await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}

/// Samples the stacks of running threads for a while.
async fn profile_processor(time: Duration) -> Result<Profile, String> {
    if IS_SAMPLING.swap(true, Ordering::AcqRel) {
        return Err("cpu profiling already in use".into());
    }
    let _sampling = Sampling;
    let guard = pprof::ProfilerGuardBuilder::default()
        .frequency(SAMPLES_PER_SECOND)
        .blocklist(&NOT_UNWOUND)
        .build()
        .map_err(|e| e.to_string())?;
    tokio::time::sleep(time).await;
    let nanos_each = 1_000_000_000_i64.checked_div(i64::from(SAMPLES_PER_SECOND)).unwrap_or(0);
    // Resolving function names in the binary takes a while.
    let report = tokio::task::spawn_blocking(move || guard.report().build())
        .await
        .map_err(|e| e.to_string())?
        .map_err(|e| e.to_string())?;
    let mut profile = Profile::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    profile.period = Some((("cpu", "nanoseconds"), nanos_each));
    profile.duration = time;
    let mut stacks: Vec<_> = report.data.iter().collect();
    stacks.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (frames, count) in stacks {
        let symbols = frames.frames.iter().flatten();
        let mut stack: Vec<String> = symbols.map(|symbol| symbol.name()).collect();
        stack.push(frames.thread_name_or_id());
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        profile.add(&stack, &[count, count.saturating_mul(nanos_each)]);
    }
    Ok(profile)
}

/// Ensures that only one profile is taken at a time.
struct Sampling;

impl Drop for Sampling {
    fn drop(&mut self) {
        IS_SAMPLING.store(false, Ordering::Release);
    }
}

fn profile_threads() -> std::io::Result<Profile> {
    let mut profile = Profile::new(&[("threadcreate", "count")]);
    for task in std::fs::read_dir("/proc/self/task")? {
        // A thread may end in the meantime.
        if let Ok(name) = std::fs::read_to_string(task?.path().join("comm")) {
            profile.add(&[name.trim().to_string()], &[1]);
        }
    }
    Ok(profile)
}

/// Resident memory by mapping: anonymous memory is allocated memory, files are code and tables.
fn memory() -> std::io::Result<Profile> {
    let mut profile = Profile::new(&[("mappings", "count"), ("inuse_space", "bytes")]);
    let text = std::fs::read_to_string("/proc/self/smaps")?;
    let mut name = String::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Rss:") => {
                let kilobytes: i64 = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
                profile.add(std::slice::from_ref(&name), &[1, kilobytes.saturating_mul(1024)]);
            }
            // The first line of a mapping: addresses, permissions, offset, device, inode, and a name if it has one.
            Some(head) if !head.ends_with(':') => {
                name = words.nth(4).unwrap_or("[anonymous]").to_string();
            }
            _ => {}
        }
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn profiles_are_gzipped() {
        for name in ["heap", "threadcreate"] {
            let profile = Profiles.take(name, Duration::ZERO).await.unwrap().unwrap();
            assert_eq!(profile.get(..2), Some(&[0x1f, 0x8b][..]), "{name}");
        }
        assert!(Profiles.take("nothing", Duration::ZERO).await.is_none());
    }

    #[tokio::test]
    async fn profiles_of_the_kernel_wait_for_each_other_without_blocking() {
        let other = KERNEL_READS.acquire().await.unwrap();
        let mut waiting = Profiles.take("heap", Duration::ZERO);
        assert!(
            std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await
        );
        drop(other);
        assert!(waiting.await.unwrap().is_ok());
    }
}
