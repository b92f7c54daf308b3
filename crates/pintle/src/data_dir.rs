//! The data folder: created on first start, locked while the server runs; files are written atomically.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The folder, locked by this process.
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: Option<File>,
    life: Life,
}

/// The lifetime of the folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    /// The folder is permanent.
    Lasting,
    /// The folder is removed when the process ends.
    Temporary,
    /// There is no folder: no file is read or written.
    None,
}

/// The folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataDirError {
    #[error("data folder {0}: {1}")]
    Io(PathBuf, io::Error),
    #[error("data folder {0} is in use by another process")]
    Locked(PathBuf),
}

impl DataDir {
    /// Opens a folder and creates it if it is missing.
    pub(crate) fn open(path: &Path) -> Result<Self, DataDirError> {
        let failed = |e: io::Error| DataDirError::Io(path.to_path_buf(), e);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let lock = private_file(&path.join("lock"), false).map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(DataDir { path, _lock: Some(lock), life: Life::Lasting }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(DataDirError::Locked(path)),
            Err(e) => Err(failed(e.into())),
        }
    }

    /// Opens a folder for reading that a running server may be using.
    pub(crate) fn beside(path: &Path) -> Result<Self, DataDirError> {
        let path = path.canonicalize().map_err(|e| DataDirError::Io(path.to_path_buf(), e))?;
        Ok(DataDir { path, _lock: None, life: Life::Lasting })
    }

    /// Creates a folder for the files that people and tools read, if data is in memory. Its name is random, and an
    /// existing folder is never used: another user may have created it to read the files.
    pub(crate) fn temporary() -> Result<Self, DataDirError> {
        let random = RandomState::new().hash_one(std::process::id());
        let path = std::env::temp_dir().join(format!("pintle-{}-{random:016x}", std::process::id()));
        let failed = |e: io::Error| DataDirError::Io(path.clone(), e);
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        Ok(DataDir { path, _lock: None, life: Life::Temporary })
    }

    /// No folder, for a server that writes no files.
    pub(crate) fn none() -> Self {
        DataDir { path: PathBuf::new(), _lock: None, life: Life::None }
    }

    /// Whether there is a folder.
    pub(crate) fn exists(&self) -> bool {
        self.life != Life::None
    }

    /// The folder's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The content of a file; `None` if it does not exist.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DataDirError> {
        if !self.exists() {
            return Ok(None);
        }
        match fs::read(self.path.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(DataDirError::Io(self.path.join(name), e)),
        }
    }

    /// Writes a file that only this user can read; readers see the old or the new content.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), DataDirError> {
        if !self.exists() {
            return Ok(());
        }
        let target = self.path.join(name);
        write_whole(&target, bytes).map_err(|e| DataDirError::Io(target, e))
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if self.life == Life::Temporary {
            // It contains only admin.kubeconfig and the port.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Writes a file atomically through a temporary one.
pub(crate) fn write_whole(target: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = target.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let mut beside = target.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    private_file(&beside, true)?.write_all(bytes)?;
    fs::rename(&beside, target)
}

fn private_file(path: &Path, truncate: bool) -> io::Result<File> {
    OpenOptions::new().create(true).write(true).truncate(truncate).mode(0o600).open(path)
}
