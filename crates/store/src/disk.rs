//! The operations that the engine needs from a disk, and the real disk: a folder, locked against other processes.
//!
//! Everything durable goes through [`Disk`], so that tests can replace it with one that loses power.

use crate::error::OpenError;
use crate::pace::{Pace, PacedFile};
use rustix::fs::{FlockOperation, flock, fstatvfs};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A flat folder of files.
pub trait Disk: Send + Sync {
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file that exists, for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Creates a file, or truncates an existing one.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file, replacing the one with the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// How many bytes can still be written. This is an estimate, because other processes use the disk, too.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// How many bytes the file has.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills `into` from `offset`; it is an error if the file is too short.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`, growing the file if need be.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes the content and the length durable. After an error it must not be tried again.
    fn sync(&self) -> io::Result<()>;
}

/// The name of the lock file of a folder.
const LOCK_FILE: &str = "LOCK";
/// Values may be secrets, so only the owner may read them.
const FOLDER_MODE: u32 = 0o700;
/// See [`FOLDER_MODE`].
const FILE_MODE: u32 = 0o600;
/// The maximum number of bytes read from the lock file: a process id.
const LOCK_BYTES_MAX: u64 = 32;

/// A folder of the file system, held under an exclusive lock until dropped.
#[derive(Debug)]
pub struct FolderDisk {
    folder: PathBuf,
    handle: File,
    _lock: File,
}

impl FolderDisk {
    /// Locks the folder and creates it if necessary. Fails at once if another process has locked it.
    pub fn open(folder: &Path) -> Result<FolderDisk, OpenError> {
        let path_text = folder.display().to_string();
        create_folder(folder).map_err(OpenError::io("create", &path_text))?;
        let lock = take_lock(folder)?;
        let handle = File::open(folder).map_err(OpenError::io("open", &path_text))?;
        Ok(FolderDisk { folder: folder.to_owned(), handle, _lock: lock })
    }
}

fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn take_lock(folder: &Path) -> Result<File, OpenError> {
    let path = folder.join(LOCK_FILE);
    let path_text = path.display().to_string();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(&path)
        .map_err(OpenError::io("open", &path_text))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let folder = folder.display().to_string();
            return Err(OpenError::Locked { folder, holder: read_holder(&mut file) });
        }
        Err(errno) => return Err(OpenError::io("lock", &path_text)(errno.into())),
    }
    // The process id is only for the message above, so failing to write it is not fatal.
    let _ = file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
    Ok(file)
}

fn read_holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(LOCK_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn list(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() != LOCK_FILE && entry.file_type()?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

impl Disk for FolderDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        list(&self.folder)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).open(self.folder.join(name))?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        Ok(Box::new(options.open(self.folder.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.folder.join(from), self.folder.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.folder.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let found = fstatvfs(&self.handle)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// A folder that another process may have open. It can only be read.
#[derive(Debug)]
pub(crate) struct ReadOnlyFolder(pub(crate) PathBuf);

impl Disk for ReadOnlyFolder {
    fn list(&self) -> io::Result<Vec<String>> {
        list(&self.0)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::open(self.0.join(name))?))
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn DiskFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Writes zeros from `from` up to `to`.
pub(crate) fn write_zeros(file: &dyn DiskFile, from: u64, to: u64) -> io::Result<()> {
    PacedFile::new(file, &Pace::Unpaced).write_zeros(from, to)
}

/// The suffix of unfinished files, which are removed when the store is opened.
pub(crate) const TEMPORARY: &str = ".tmp";
