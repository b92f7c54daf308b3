//! Webhooks and policies from manifest files (`staticManifestsDir`): loaded at start and reloaded when files change.

use crate::config_file::hash;
use crate::upkeep;
use pintle_admission::SettingsError;
use pintle_admission::manifest::ManifestFolder;
use pintle_engine::Engine;
use pintle_metrics::families;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How often the folders are read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Loads all manifests. The server must not start without them, because it would admit requests that they reject.
pub(crate) fn load(engine: &Engine) -> Result<(), SettingsError> {
    for (plugin, folder) in engine.manifest_folders() {
        let loaded = ManifestFolder::read(folder).and_then(|read| {
            engine.load_manifests(plugin, &read)?;
            Ok(read.hash)
        });
        match loaded {
            Ok(hash) => count(plugin, "", Ok(&hash)),
            Err(why) => {
                let what = if plugin.ends_with("Webhook") { "webhook" } else { "policy" };
                let folder = pintle_meta::field::quoted(&folder.display().to_string());
                return Err(SettingsError::Apply(format!(
                    "failed to initialize admission plugin \"{plugin}\": failed to load static {what} manifests from {folder}: {why}"
                )));
            }
        }
    }
    Ok(())
}

/// Reloads manifests when they change. After an error, the last valid ones remain in effect. Ends with the runtime.
pub(crate) async fn follow(engine: Arc<Engine>) {
    let folders: Vec<(&'static str, PathBuf)> = engine.manifest_folders().to_vec();
    if folders.is_empty() {
        return;
    }
    let mut followed = Vec::new();
    for (plugin, folder) in folders {
        let seen = read(&folder).await.map(|read| read.hash);
        followed.push(Followed { plugin, folder, in_force: seen.clone().unwrap_or_default(), seen });
    }
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        for followed in &mut followed {
            followed.reload_if_changed(&engine).await;
        }
    }
}

struct Followed {
    plugin: &'static str,
    folder: PathBuf,
    /// The hash of the manifests in effect.
    in_force: String,
    /// The hash of the files at the last check, or the error with which they could not be read.
    seen: Result<String, String>,
}

impl Followed {
    async fn reload_if_changed(&mut self, engine: &Engine) {
        let read = read(&self.folder).await;
        let seen = read.as_ref().map(|read| read.hash.clone()).map_err(Clone::clone);
        if seen == self.seen {
            return;
        }
        self.seen = seen;
        let loaded = read.and_then(|read| {
            engine.load_manifests(self.plugin, &read)?;
            Ok(read.hash)
        });
        count(self.plugin, &self.in_force, loaded.as_deref());
        match loaded {
            Ok(hash) => self.in_force = hash,
            Err(why) => {
                let (plugin, folder) = (self.plugin, self.folder.display());
                tracing::error!("the manifests of {plugin} in {folder} stay as they were: {why}");
            }
        }
    }
}

async fn read(folder: &Path) -> Result<ManifestFolder, String> {
    let folder = folder.to_path_buf();
    let read = tokio::task::spawn_blocking(move || ManifestFolder::read(&folder)).await;
    read.unwrap_or_else(|error| Err(error.to_string()))
}

/// Counts an attempt to load manifests. `before` is the hash of those that were in effect.
fn count(plugin: &str, before: &str, loaded: Result<&str, &String>) {
    let server = hash(upkeep::own_name().as_bytes());
    let status = if loaded.is_ok() { "success" } else { "failure" };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    families::MANIFEST_RELOADS.inc(&[&server, plugin, status]);
    families::MANIFEST_RELOADED_AT.set(&[&server, plugin, status], now.as_secs_f64());
    if let Ok(hash) = loaded {
        families::MANIFEST_CONFIG_INFO.remove(&[&server, before, plugin]);
        families::MANIFEST_CONFIG_INFO.set(&[&server, hash, plugin], 1.0);
    }
}
