//! The files of the page, embedded at build time (`build.rs`). They contain no data of the cluster and are public.

use flate2::read::GzDecoder;
use std::io::Read;
use std::sync::LazyLock;

/// One file of the page.
pub struct File {
    /// The file's name below `/console/`.
    pub name: &'static str,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// A strong entity tag, quoted.
    pub etag: &'static str,
    /// The size without compression.
    pub bytes: usize,
    /// The file as gzip.
    pub gzip: &'static [u8],
}

/// All files.
pub const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The security headers of every response below `/console/`: only the server's own files run, nothing is loaded from or
/// sent to other hosts, and no other page may frame it.
pub const SECURITY_HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Finds a file by its name below `/console/`; the empty name is the page itself.
pub fn find(name: &str) -> Option<&'static File> {
    let name = if name.is_empty() { "index.html" } else { name };
    FILES.iter().find(|file| file.name == name)
}

/// The uncompressed files, in the order of [`FILES`]. They are decompressed once: anyone can request them, and a small
/// request must not make the server decompress half a megabyte and hold it until the client has read it.
static PLAIN: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| FILES.iter().map(File::decompress).collect());

impl File {
    /// The uncompressed file, for the few clients that do not accept gzip.
    pub fn plain(&self) -> &'static [u8] {
        let index = FILES.iter().position(|file| file.name == self.name);
        index.and_then(|index| PLAIN.get(index)).map_or(&[], Vec::as_slice)
    }

    fn decompress(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes);
        // The build compressed it, so it can be decompressed; `files_are_whole` checks each file.
        _ = GzDecoder::new(self.gzip).read_to_end(&mut out);
        out
    }

    /// The value of `Cache-Control`. The content of a name with a hash never changes.
    pub fn cache_control(&self) -> &'static str {
        if self.name.contains('-') { "public, max-age=31536000, immutable" } else { "no-cache" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maximum number of bytes that a browser loads for all views of the page.
    const PAGE_BYTES_MAX: usize = 300 * 1024;

    #[test]
    fn files_are_whole() {
        for file in FILES {
            assert_eq!(file.plain().len(), file.bytes, "{}", file.name);
        }
    }

    #[test]
    fn the_page_is_small() {
        let bytes: usize = FILES.iter().map(|file| file.gzip.len()).sum();
        assert!(bytes < PAGE_BYTES_MAX, "{bytes} bytes of gzip");
    }

    #[test]
    fn the_page_names_its_files_and_nothing_inline() {
        let page = String::from_utf8(find("").unwrap().plain().to_vec()).unwrap();
        assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains("javascript:"));
        for tag in page.split("<script").skip(1) {
            assert!(tag.starts_with(" type=\"module\" src=\""), "{tag}");
        }
        for attribute in ["src=\"", "href=\""] {
            for name in page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(find(name).is_some(), "{name}");
            }
        }
        assert!(find("../Cargo.toml").is_none() && find("nothing.js").is_none());
    }
}
