//! Encryption at rest: loads the file of `--encryption-provider-config` and reloads it.

use pintle_encrypt::{
    ConfigError, Configuration, Encryption, configuration_loaded, configuration_reloaded, connect, parse,
};
use pintle_engine::Engine;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often the file is checked, with automatic reload.
const RELOAD_EVERY: Duration = Duration::from_secs(60);
/// The longest delay until objects that could not be decrypted are read again after encryption changed.
const READABILITY_INTERVAL: Duration = Duration::from_secs(1);
/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The encryption flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct EncryptionFlags {
    pub(crate) file: Option<PathBuf>,
    pub(crate) reload: bool,
}

/// Loads the encryption of the file; without a file nothing is encrypted.
pub(crate) async fn load(flags: &EncryptionFlags) -> Result<Arc<Encryption>, ConfigError> {
    let Some(path) = flags.file.clone() else { return Ok(Arc::default()) };
    let (bytes, configuration) = read_elsewhere(path.clone()).await?;
    configuration_loaded(&bytes);
    let encryption = Arc::new(Encryption::new(configuration));
    if flags.reload {
        tokio::spawn(follow(path, bytes, Arc::downgrade(&encryption)));
    }
    Ok(encryption)
}

/// Applies each valid change of the file. An invalid one is ignored, and the last configuration remains.
async fn follow(path: PathBuf, mut last: Vec<u8>, encryption: std::sync::Weak<Encryption>) {
    loop {
        tokio::time::sleep(RELOAD_EVERY).await;
        let Some(encryption) = encryption.upgrade() else { return };
        match read_elsewhere(path.clone()).await {
            Ok((bytes, _)) if bytes == last => {}
            Ok((_, configuration)) if !configuration.is_healthy() => {
                configuration_reloaded(false);
                tracing::error!(
                    "a KMS plugin of the new encryption configuration is not healthy; the last one stays"
                );
            }
            Ok((bytes, configuration)) => {
                encryption.replace(configuration);
                last = bytes;
                configuration_reloaded(true);
                configuration_loaded(&last);
                tracing::info!("the encryption configuration was reloaded");
            }
            Err(error) => {
                configuration_reloaded(false);
                tracing::error!(%error, "the encryption configuration is not valid; the last one stays")
            }
        }
    }
}

/// Reads objects that could not be decrypted again whenever encryption has changed. Runs until it is dropped.
pub(crate) async fn follow_readability(encryption: Arc<Encryption>, engine: Arc<Engine>) {
    let mut generation = encryption.generation();
    loop {
        tokio::time::sleep(READABILITY_INTERVAL).await;
        let now = encryption.generation();
        if now != generation {
            generation = now;
            engine.storage().reread_untransformable().await;
        }
    }
}

/// Loads on a blocking thread, because it calls plugins.
async fn read_elsewhere(path: PathBuf) -> Result<(Vec<u8>, Configuration), ConfigError> {
    let read = tokio::task::spawn_blocking(move || read(&path)).await;
    read.unwrap_or_else(|error| Err(ConfigError::Build(error.to_string())))
}

fn read(path: &Path) -> Result<(Vec<u8>, Configuration), ConfigError> {
    let shown = path.display().to_string();
    let opened = std::fs::metadata(path).and_then(|meta| match meta.len() <= FILE_BYTES_MAX {
        true => std::fs::read(path),
        false => Err(std::io::Error::other("file too large")),
    });
    let bytes = opened.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => format!("open {shown}: no such file or directory"),
            _ => format!("open {shown}: {error}"),
        };
        ConfigError::Parse(format!(
            "error while loading file: error reading encryption provider configuration file {shown:?}: {why}"
        ))
    })?;
    let configuration = parse(&shown, &bytes, &connect)?;
    Ok((bytes, configuration))
}
