//! Releases resident memory that an idle process does not need: pages of the program's code and constants that only its start
//! used.
//!
//! The kernel maps them from the page cache in pieces of 64 KiB, and keeps them mapped. A page that was released is mapped
//! again when it is used, which takes about a microsecond and no access to the disk.

use rustix::mm::{Advice, madvise};
use std::fs;
use std::io;
use std::ops::Range;

/// The read-only parts of the running program: its code and its constants.
pub struct ReadOnlyProgram {
    ranges: Vec<Range<usize>>,
}

impl ReadOnlyProgram {
    /// Finds where the program is mapped. This takes as long as the kernel needs to count the pages of the process.
    pub fn find() -> io::Result<ReadOnlyProgram> {
        let program = fs::read_link("/proc/self/exe")?;
        let maps = fs::read_to_string("/proc/self/smaps")?;
        Ok(ReadOnlyProgram { ranges: read_only_ranges(&maps, &program.to_string_lossy()) })
    }

    /// Unmaps all pages. Those that are in use are mapped again at once.
    pub fn release(&self) -> io::Result<()> {
        self.ranges.iter().try_for_each(release)
    }
}

/// The addresses at which a program is mapped read-only and without pages that differ from those of its file, by the
/// contents of `/proc/self/smaps`.
fn read_only_ranges(smaps: &str, program: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        if let Some(range) = mapped_range(line) {
            current = is_read_only(line, program).then_some(range);
        } else if line.starts_with("Anonymous:")
            && let Some(range) = current.take()
            // Constants that the loader relocated were written to, and are read-only only since then.
            && line.split_whitespace().nth(1) == Some("0")
        {
            ranges.push(range);
        }
    }
    ranges
}

/// The addresses at the start of the first line of a mapping; `None` for the lines of its attributes.
fn mapped_range(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let address = |digits| usize::from_str_radix(digits, 16).ok();
    Some(address(start)?..address(end)?)
}

/// Whether the first line of a mapping is that of a part of the program which cannot be written.
fn is_read_only(line: &str, program: &str) -> bool {
    // Of the columns address, permissions, offset, device, inode and path only the path may contain blanks.
    matches!(line.split(' ').nth(1), Some("r-xp" | "r--p"))
        && line.strip_suffix(program).is_some_and(|columns| columns.ends_with(' '))
}

fn release(range: &Range<usize>) -> io::Result<()> {
    let start = std::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: MADV_DONTNEED changes the contents of pages only if they differ from those of the mapped file, or have no
    // file. `read_only_ranges` found no such pages in this mapping, and none can have been added, because the mapping cannot
    // be written. It is a part of the running program, so it stays mapped until the process ends.
    #[expect(unsafe_code, reason = "madvise has no safe form")]
    unsafe {
        madvise(start, range.len(), Advice::LinuxDontNeed)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "tests")]
mod tests {
    use super::*;

    /// The resident part of the program's code in KiB.
    fn resident_kib() -> usize {
        let program = fs::read_link("/proc/self/exe").unwrap();
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let is_code = |line: &&str| line.contains(" r-xp ") && line.ends_with(program.to_str().unwrap());
        let mut of_code = smaps.lines().skip_while(|line| !is_code(line));
        let rss = of_code.find(|line| line.starts_with("Rss:")).unwrap();
        rss.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no /proc")]
    fn released_code_is_not_resident() {
        let program = ReadOnlyProgram::find().unwrap();
        assert!(!program.ranges.is_empty());
        let before = resident_kib();
        program.release().unwrap();
        let after = resident_kib();
        assert!(after < before, "{before} KiB before, {after} KiB after");
    }

    #[test]
    fn only_unchanged_mappings_of_the_program_are_found() {
        let mapping = |line: &str, anonymous: usize| {
            format!("{line}\nSize:  4 kB\nRss:   4 kB\nAnonymous:   {anonymous} kB\nVmFlags: rd mr\n")
        };
        let smaps = [
            mapping("55d0a0000000-55d0a0001000 r--p 00000000 fe:00 100    /usr/bin/a program", 0),
            mapping("55d0a0001000-55d0a0003000 r-xp 00001000 fe:00 100    /usr/bin/a program", 0),
            mapping("55d0a0003000-55d0a0004000 r--p 00003000 fe:00 100    /usr/bin/a program", 4),
            mapping("55d0a0004000-55d0a0005000 rw-p 00004000 fe:00 100    /usr/bin/a program", 0),
            mapping("7f0000000000-7f0000002000 r-xp 00001000 fe:00 101    /usr/lib/libc.so.6", 0),
            mapping("7f0000002000-7f0000004000 r-xp 00001000 fe:00 102    /chroot/usr/bin/a program", 0),
            mapping("7f0000004000-7f0000006000 rw-p 00000000 00:00 0 ", 0),
        ];
        let found = read_only_ranges(&smaps.concat(), "/usr/bin/a program");
        assert_eq!(found, [0x55d0_a000_0000..0x55d0_a000_1000, 0x55d0_a000_1000..0x55d0_a000_3000]);
    }
}
