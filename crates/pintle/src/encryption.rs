//! Encryption at rest: loads the file of `--encryption-provider-config` and reloads it.

use crate::config_file::{self, ConfigFile, Handled};
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

/// The encryption flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct EncryptionFlags {
    pub(crate) file: Option<PathBuf>,
    pub(crate) reload: bool,
    /// The feature gate KMSv1.
    pub(crate) kms_v1: bool,
}

/// Loads the encryption of the file; without a file nothing is encrypted.
pub(crate) async fn load(flags: &EncryptionFlags) -> Result<Arc<Encryption>, ConfigError> {
    let Some(path) = flags.file.clone() else { return Ok(Arc::default()) };
    let bytes = read(&path)?;
    let configuration = parse_elsewhere(&path, bytes.clone(), flags.kms_v1).await?;
    configuration_loaded(&bytes);
    let encryption = Arc::new(Encryption::new(configuration));
    if flags.reload {
        tokio::spawn(follow(path, bytes, flags.kms_v1, Arc::downgrade(&encryption)));
    }
    Ok(encryption)
}

/// Applies each valid change of the file. An invalid one is ignored, and the last configuration remains.
async fn follow(path: PathBuf, bytes: Vec<u8>, kms_v1: bool, encryption: std::sync::Weak<Encryption>) {
    let mut file = ConfigFile::new(path.clone(), bytes, RELOAD_EVERY);
    loop {
        let changed = file.changed().await;
        let Some(encryption) = encryption.upgrade() else { return };
        let reloaded = match &changed {
            Ok(bytes) => reload_configuration(&path, bytes, kms_v1, &encryption).await,
            Err(why) => Err(why.clone()),
        };
        configuration_reloaded(reloaded.is_ok());
        match &reloaded {
            Ok(()) => tracing::info!("the encryption configuration was reloaded"),
            Err(why) => tracing::error!("the encryption configuration stays as it was: {why}"),
        }
        if let Ok(bytes) = changed {
            // A file with errors is tried again, because the error can be that of a plugin.
            file.record(bytes, if reloaded.is_ok() { Handled::Finally } else { Handled::NotYet });
        }
    }
}

async fn reload_configuration(
    path: &Path,
    bytes: &[u8],
    kms_v1: bool,
    encryption: &Encryption,
) -> Result<(), String> {
    let configuration =
        parse_elsewhere(path, bytes.to_vec(), kms_v1).await.map_err(|error| error.to_string())?;
    if !tokio::task::block_in_place(|| configuration.is_healthy()) {
        return Err("a KMS plugin of the new configuration is not healthy".to_string());
    }
    encryption.replace(configuration);
    configuration_loaded(bytes);
    Ok(())
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

/// Parses on a blocking thread, because that calls plugins.
async fn parse_elsewhere(path: &Path, bytes: Vec<u8>, kms_v1: bool) -> Result<Configuration, ConfigError> {
    let name = path.display().to_string();
    let parsed = tokio::task::spawn_blocking(move || parse(&name, &bytes, kms_v1, &connect)).await;
    parsed.unwrap_or_else(|error| Err(ConfigError::Build(error.to_string())))
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    config_file::read_limited(path).map_err(|why| {
        let name = path.display().to_string();
        ConfigError::Parse(format!(
            "error while loading file: error reading encryption provider configuration file {name:?}: {why}"
        ))
    })
}
