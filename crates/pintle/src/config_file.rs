//! Configuration files: reading them with Go's error messages, noticing changes, and the metrics of reloads.

use aws_lc_rs::digest;
use pintle_meta::errno::go_error_text;
use pintle_metrics::Family;
use pintle_value::hex;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The largest allowed configuration file that is reloaded.
const BYTES_MAX: u64 = 16 << 20;
/// How long the same content is not tried again after it could not be applied.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// A file that is reloaded when its content changes.
pub(crate) struct ConfigFile {
    path: PathBuf,
    poll_interval: Duration,
    /// The content that is in effect, or that was found invalid.
    handled: Vec<u8>,
    /// Content that could not be applied, and when it was tried.
    failed: Option<(Vec<u8>, Instant)>,
    /// The error of the last read, if it failed.
    unreadable: Option<String>,
}

/// The outcome of a reload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handled {
    /// The content is in effect or invalid; it is not tried again.
    Finally,
    /// The content may be applicable later, for example when a provider can be reached again.
    NotYet,
}

impl ConfigFile {
    /// Starts from content that is in effect.
    pub(crate) fn new(path: PathBuf, content: Vec<u8>, poll_interval: Duration) -> ConfigFile {
        ConfigFile { path, poll_interval, handled: content, failed: None, unreadable: None }
    }

    /// Waits for new content and returns it, or the error of a file that can no longer be read. An error is returned once,
    /// until it changes.
    pub(crate) async fn changed(&mut self) -> Result<Vec<u8>, String> {
        loop {
            tokio::time::sleep(self.poll_interval).await;
            let path = self.path.clone();
            let read = tokio::task::spawn_blocking(move || read_limited(&path)).await;
            if let Some(changed_result) =
                self.changed_result(read.unwrap_or_else(|error| Err(error.to_string())), Instant::now())
            {
                return changed_result;
            }
        }
    }

    /// Records the outcome of applying content that `changed` returned.
    pub(crate) fn record(&mut self, content: Vec<u8>, handled: Handled) {
        match handled {
            Handled::Finally => (self.handled, self.failed) = (content, None),
            Handled::NotYet => self.failed = Some((content, Instant::now())),
        }
    }

    /// Returns the result of a read if the caller must act on it.
    fn changed_result(
        &mut self,
        read: Result<Vec<u8>, String>,
        now: Instant,
    ) -> Option<Result<Vec<u8>, String>> {
        let content = match read {
            Ok(content) => content,
            Err(why) if self.unreadable.as_ref() == Some(&why) => return None,
            Err(why) => {
                self.unreadable = Some(why.clone());
                return Some(Err(why));
            }
        };
        self.unreadable = None;
        let waits = self.failed.as_ref().is_some_and(|(failed, at)| {
            *failed == content && now.saturating_duration_since(*at) < RETRY_INTERVAL
        });
        (content != self.handled && !waits).then_some(Ok(content))
    }
}

/// The metrics of one file: which content is in effect, and how reloads ended.
pub(crate) struct ReloadMetrics {
    /// The hash of this server's identity.
    server: String,
    /// The hash of the content in effect.
    hash: String,
    info: &'static Family,
    reloads: &'static Family,
    reloaded_at: &'static Family,
}

impl ReloadMetrics {
    /// Publishes the hash of `content`. The families have the labels of kube-apiserver: server and hash, server and status.
    pub(crate) fn new(server: &str, content: &[u8], families: [&'static Family; 3]) -> ReloadMetrics {
        let [info, reloads, reloaded_at] = families;
        let (server, hash) = (hash(server.as_bytes()), hash(content));
        info.set(&[&server, &hash], 1.0);
        ReloadMetrics { server, hash, info, reloads, reloaded_at }
    }

    /// Counts a reload that put `content` into effect.
    pub(crate) fn succeeded(&mut self, content: &[u8]) {
        self.info.remove(&[&self.server, &self.hash]);
        self.hash = hash(content);
        self.info.set(&[&self.server, &self.hash], 1.0);
        self.count("success");
    }

    /// Counts a reload that changed nothing.
    pub(crate) fn failed(&self) {
        self.count("failure");
    }

    fn count(&self, status: &str) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.reloads.inc(&[&self.server, status]);
        self.reloaded_at.set(&[&self.server, status], now.as_secs_f64());
    }
}

/// `sha256:` and the digest, as metrics name configurations and servers; nothing for no data.
pub(crate) fn hash(data: &[u8]) -> String {
    if data.is_empty() {
        return String::new();
    }
    format!("sha256:{}", hex::encode(digest::digest(&digest::SHA256, data).as_ref()))
}

/// The content of a file; the error has Go's message.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| go_text(path, &error))
}

/// The content of a file that is not too large; the error has Go's message.
pub(crate) fn read_limited(path: &Path) -> Result<Vec<u8>, String> {
    let bytes = std::fs::metadata(path).map_err(|error| go_text(path, &error))?.len();
    if bytes > BYTES_MAX {
        Err(format!("{} is larger than {BYTES_MAX} bytes", path.display()))
    } else {
        read(path)
    }
}

/// The reason why a file cannot be read, with Go's message.
pub(crate) fn go_text(path: &Path, error: &std::io::Error) -> String {
    // Opening a folder succeeds; reading it fails.
    let action = if error.kind() == std::io::ErrorKind::IsADirectory { "read" } else { "open" };
    format!("{action} {}: {}", path.display(), go_error_text(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_returned_until_it_is_handled() {
        let mut file = ConfigFile::new("f".into(), b"a".to_vec(), Duration::ZERO);
        let now = Instant::now();
        let b = || Ok(b"b".to_vec());
        assert_eq!(file.changed_result(Ok(b"a".to_vec()), now), None);
        assert_eq!(file.changed_result(b(), now), Some(b()));
        // A provider that could not be reached is tried again later, without another change of the file.
        file.record(b"b".to_vec(), Handled::NotYet);
        assert_eq!(file.changed_result(b(), now), None);
        assert_eq!(file.changed_result(Ok(b"c".to_vec()), now), Some(Ok(b"c".to_vec())));
        assert_eq!(file.changed_result(b(), Instant::now() + RETRY_INTERVAL), Some(b()));
        file.record(b"b".to_vec(), Handled::Finally);
        assert_eq!(file.changed_result(b(), Instant::now() + RETRY_INTERVAL), None);
    }

    #[test]
    fn an_error_is_returned_once() {
        let mut file = ConfigFile::new("f".into(), b"a".to_vec(), Duration::ZERO);
        let now = Instant::now();
        let gone = || Err("gone".to_string());
        assert_eq!(file.changed_result(gone(), now), Some(gone()));
        assert_eq!(file.changed_result(gone(), now), None);
        assert_eq!(file.changed_result(Err("denied".into()), now), Some(Err("denied".into())));
        assert_eq!(file.changed_result(Ok(b"a".to_vec()), now), None);
        assert_eq!(file.changed_result(gone(), now), Some(gone()));
    }
}
