//! The server of a fight, on a disk that can be filled.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use pintle_testkit::Server;

/// The size of the disk. The writers of a fight fill it with history in less than three minutes, so the store must
/// remove history in time.
const DISK_MIB: u64 = 256;
const FILL_CHUNK_BYTES: usize = 64 << 10;

/// A server whose data folder is a file system of its own if the test may mount one.
pub(super) struct Arena {
    pub(super) server: Server,
    disk: Option<PathBuf>,
}

impl Arena {
    pub(super) async fn start() -> Arena {
        let mut server = Server::start().await.unwrap();
        server.kill().unwrap();
        let folder = server.data_dir();
        let size = format!("size={DISK_MIB}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&folder).output();
        let disk = mounted.is_ok_and(|output| output.status.success()).then_some(folder);
        if disk.is_none() {
            pintle_testkit::skip("no file system can be mounted, so no disk is filled");
        }
        let mut arena = Arena { server, disk };
        arena.server.restart().await.unwrap();
        arena
    }

    pub(super) fn can_fill(&self) -> bool {
        self.disk.is_some()
    }

    /// Writes a file until nothing more fits.
    pub(super) fn fill(&self) {
        let Some(path) = self.filler() else { return };
        let mut file = File::create(path).unwrap();
        let chunk = vec![0; FILL_CHUNK_BYTES];
        while file.write_all(&chunk).is_ok() {}
    }

    /// Removes the file that [`Arena::fill`] wrote.
    pub(super) fn free(&self) {
        if let Some(path) = self.filler() {
            fs::remove_file(path).unwrap();
        }
    }

    fn filler(&self) -> Option<PathBuf> {
        self.disk.as_ref().map(|folder| folder.join("filler"))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // The server must have ended before its disk is unmounted. Errors cannot be reported here.
        let _ = self.server.kill();
        if let Some(folder) = &self.disk {
            let _ = Command::new("umount").arg(folder).status();
        }
    }
}
