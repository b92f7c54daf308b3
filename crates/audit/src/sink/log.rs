//! The log: a line for each event, in files that are rotated by size, age and number.

use super::{Backend, Pending};
use crate::event::Event;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    Json,
    /// Words and quoted texts.
    Legacy,
}

/// The destination of lines and the limits of rotation; 0 is no limit.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are those of the flags")]
pub struct LogOptions {
    /// `None`: standard output.
    pub path: Option<PathBuf>,
    pub format: Format,
    pub max_age_days: u64,
    pub max_backups: usize,
    pub max_size_bytes: u64,
    pub compress: bool,
}

/// Writes lines.
pub struct Log {
    options: LogOptions,
    file: Mutex<Option<(File, u64)>>,
}

impl Log {
    /// Opens the file to append; creates it if it is missing.
    pub fn open(options: LogOptions) -> std::io::Result<Self> {
        let file = options.path.as_deref().map(append_to).transpose()?;
        Ok(Log { options, file: Mutex::new(file) })
    }

    fn append_lines(&self, lines: &[u8]) -> std::io::Result<()> {
        let Some(path) = &self.options.path else {
            return std::io::stdout().lock().write_all(lines);
        };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let added = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let limit = self.options.max_size_bytes;
        if limit > 0 && file.as_ref().is_some_and(|(_, size)| *size > 0 && size.saturating_add(added) > limit)
        {
            *file = None;
            self.rotate(path)?;
        }
        if file.is_none() {
            *file = Some(append_to(path)?);
        }
        let Some((file, size)) = &mut *file else { return Ok(()) };
        file.write_all(lines)?;
        *size = size.saturating_add(added);
        Ok(())
    }

    /// Renames the file to a name with the time, and removes old files beyond the limits.
    fn rotate(&self, path: &Path) -> std::io::Result<()> {
        let (stem, extension) = parts(path);
        let time: String = crate::now().trim_end_matches('Z').replace(':', "-").chars().take(23).collect();
        let aside = path.with_file_name(format!("{stem}-{time}{extension}"));
        std::fs::rename(path, &aside)?;
        let options = self.options.clone();
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        // Requests do not wait for compression and removal.
        std::thread::spawn(move || {
            if let Err(e) = remove_old_files(&options, &folder, &stem, &extension) {
                tracing::warn!("audit log: old files: {e}");
            }
        });
        Ok(())
    }
}

impl Backend for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn write<'a>(&'a self, events: &'a [Event]) -> Pending<'a, Result<(), String>> {
        Box::pin(async move {
            let mut lines = Vec::new();
            for event in events {
                match self.options.format {
                    Format::Json => event.write(true, &mut lines),
                    Format::Legacy => lines.extend_from_slice(event.legacy_line().as_bytes()),
                }
                lines.push(b'\n');
            }
            self.append_lines(&lines).map_err(|e| e.to_string())
        })
    }
}

fn append_to(path: &Path) -> std::io::Result<(File, u64)> {
    use std::os::unix::fs::OpenOptionsExt;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// A file name without its ending, and the ending with its dot.
fn parts(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
    match name.rfind('.') {
        Some(at) => (name.get(..at).unwrap_or("").into(), name.get(at..).unwrap_or("").into()),
        None => (name, String::new()),
    }
}

/// Removes rotated files that are too old or too many.
fn remove_old_files(options: &LogOptions, folder: &Path, stem: &str, extension: &str) -> std::io::Result<()> {
    let prefix = format!("{stem}-");
    let mut old: Vec<(PathBuf, SystemTime)> = Vec::new();
    for entry in std::fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_string();
        let ours = name.ends_with(extension) || name.ends_with(&format!("{extension}.gz"));
        if name.starts_with(&prefix) && ours {
            old.push((entry.path(), entry.metadata()?.modified()?));
        }
    }
    old.sort_by(|a, b| b.0.cmp(&a.0));
    let age_max = Duration::from_secs(options.max_age_days.saturating_mul(24 * 3600));
    let now = SystemTime::now();
    for (at, (path, modified)) in old.iter().enumerate() {
        let too_many = options.max_backups > 0 && at >= options.max_backups;
        let too_old = !age_max.is_zero() && now.duration_since(*modified).is_ok_and(|age| age > age_max);
        if too_many || too_old {
            std::fs::remove_file(path)?;
        } else if options.compress && path.extension().is_none_or(|e| e != "gz") {
            compress_file(path)?;
        }
    }
    Ok(())
}

fn compress_file(path: &Path) -> std::io::Result<()> {
    let mut target = path.as_os_str().to_owned();
    target.push(".gz");
    let mut encoder = flate2::write::GzEncoder::new(File::create(&target)?, flate2::Compression::default());
    std::io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    std::fs::remove_file(path)
}
