//! `/logs` (`--enable-logs-handler`): files and folders of `/var/log`, as Go's file server returns them. Files are read while
//! they are sent.

use crate::Body;
use crate::api::ApiResponse;
use crate::negotiate::{Accept, Media};
use crate::{headers, http_date, respond, target};
use bytes::Bytes;
use http::HeaderValue;
use http::request::Parts;
use pintle_proxy::{escape_path, sniff};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The folder that is served.
const FOLDER: &str = "/var/log";
/// How much of a file is read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// How many entries of a folder are listed.
const ENTRIES_MAX: usize = 10_000;
/// The media types of Go for file names; others are guessed from the content.
const MEDIA_TYPES: [(&str, &str); 15] = [
    ("css", "text/css; charset=utf-8"),
    ("gif", "image/gif"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("wasm", "application/wasm"),
    ("webp", "image/webp"),
    ("xml", "text/xml; charset=utf-8"),
];

/// Answers a request below `/logs`; `None` for other paths. `path` is the decoded path.
pub(crate) fn serve(parts: &Parts, path: &str, accept: &Accept) -> Option<ApiResponse> {
    let name = path.strip_prefix("/logs").filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
    let errors = accept.for_errors(Media::WITHOUT_CBOR);
    if parts.method != http::Method::GET {
        return Some(respond::status(&respond::method_not_allowed(), errors));
    }
    if !accept.names_any_of(|_| false) {
        return Some(respond::status(&respond::route_not_acceptable(&[]), errors));
    }
    Some(answer(parts, path, name).unwrap_or_else(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => respond::text(404, "404 page not found"),
        ErrorKind::InvalidFilename => respond::text(404, "file not found"),
        ErrorKind::PermissionDenied => respond::text(403, "403 Forbidden"),
        _ => respond::text(500, "500 Internal Server Error"),
    }))
}

fn answer(parts: &Parts, path: &str, name: &str) -> std::io::Result<ApiResponse> {
    // Go refuses such paths although they would be cleaned.
    if path.split(['/', '\\']).any(|step| step == "..") {
        return Ok(respond::text(400, "invalid URL path"));
    }
    if path.ends_with("/index.html") {
        return Ok(redirect(parts, "./"));
    }
    let (mut file, mut found) = look_up(Path::new(FOLDER), name)?;
    if found.is_dir() {
        if !path.ends_with('/') {
            let last = path.rsplit('/').next().unwrap_or("");
            return Ok(redirect(parts, &format!("{}/", escape_path(last))));
        }
        let index = file.join("index.html");
        match std::fs::metadata(&index) {
            Ok(metadata) if metadata.is_file() => (file, found) = (index, metadata),
            _ => return listing(parts, &file, &found),
        }
    }
    content(parts, &file, &found)
}

/// Finds a file or folder. Anything else would block when it is opened, or never end.
fn look_up(folder: &Path, name: &str) -> std::io::Result<(PathBuf, Metadata)> {
    let steps = Path::new(name).components();
    let steps = steps.filter(|step| matches!(step, Component::Normal(_)));
    let file = folder.join(steps.collect::<PathBuf>());
    let found = std::fs::metadata(&file)?;
    match found.is_dir() || found.is_file() {
        true => Ok((file, found)),
        false => Err(ErrorKind::Unsupported.into()),
    }
}

fn redirect(parts: &Parts, to: &str) -> ApiResponse {
    let query = target::query(parts);
    let to = if query.is_empty() { to.to_string() } else { format!("{to}?{query}") };
    let mut answer = ApiResponse::empty(301);
    answer.set_header("location", &to);
    answer
}

fn modified_at(found: &Metadata) -> i64 {
    let since = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0)
}

fn is_unmodified(parts: &Parts, modified: i64) -> bool {
    let since = http_date::parse(&headers::first(&parts.headers, "if-modified-since"));
    since.is_some_and(|since| modified <= since)
}

fn listing(parts: &Parts, folder: &Path, found: &Metadata) -> std::io::Result<ApiResponse> {
    let modified = modified_at(found);
    if is_unmodified(parts, modified) {
        return Ok(ApiResponse::empty(304));
    }
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder)?.take(ENTRIES_MAX) {
        let entry = entry?;
        let slash = if entry.file_type()?.is_dir() { "/" } else { "" };
        names.push(format!("{}{slash}", entry.file_name().to_string_lossy()));
    }
    names.sort_unstable();
    let mut page =
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n".to_string();
    for name in names {
        // A colon in the first segment of a relative link would end a scheme.
        let local = if name.split('/').next().is_some_and(|first| first.contains(':')) { "./" } else { "" };
        page.push_str(&format!("<a href=\"{local}{}\">{}</a>\n", escape_path(&name), escape_html(&name)));
    }
    page.push_str("</pre>\n");
    let mut answer = ApiResponse::new(200, "text/html; charset=utf-8", page);
    answer.set_header("last-modified", &http_date::format(modified));
    Ok(answer)
}

fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn content(parts: &Parts, path: &Path, found: &Metadata) -> std::io::Result<ApiResponse> {
    let (modified, size) = (modified_at(found), found.len());
    let last_modified = http_date::format(modified);
    if is_unmodified(parts, modified) {
        let mut answer = ApiResponse::empty(304);
        answer.set_header("last-modified", &last_modified);
        return Ok(answer);
    }
    let mut file = File::open(path)?;
    let media = media_type(path, &mut file)?;
    let asked = headers::first(&parts.headers, "range");
    let (code, first, length) = match range(&asked, size) {
        Ok(Some((first, last))) => (206, first, last.saturating_sub(first).saturating_add(1)),
        Ok(None) => (200, 0, size),
        Err(why) => {
            let mut answer = respond::text(416, why);
            if why == NO_OVERLAP {
                answer.set_header("content-range", &format!("bytes */{size}"));
            }
            return Ok(answer);
        }
    };
    file.seek(SeekFrom::Start(first))?;
    let chunks = Chunks { file, left: length };
    let mut answer = ApiResponse::new(code, "", Body::lazy(chunks, Some(length)));
    answer.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media));
    answer.set_header("accept-ranges", "bytes");
    answer.set_header("last-modified", &last_modified);
    if code == 206 {
        let last = first.saturating_add(length).saturating_sub(1);
        answer.set_header("content-range", &format!("bytes {first}-{last}/{size}"));
    }
    Ok(answer)
}

fn media_type(path: &Path, file: &mut File) -> std::io::Result<&'static str> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
    if let Some((_, media)) = MEDIA_TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension)) {
        return Ok(media);
    }
    let mut start = Vec::new();
    file.by_ref().take(sniff::SNIFF_BYTES).read_to_end(&mut start)?;
    Ok(sniff::media_type(&start))
}

const NO_OVERLAP: &str = "invalid range: failed to overlap";
const INVALID: &str = "invalid range";

/// The first and last byte of a range; `None` for the whole file. Several ranges are answered with the whole file.
fn range(asked: &str, size: u64) -> Result<Option<(u64, u64)>, &'static str> {
    if asked.is_empty() {
        return Ok(None);
    }
    let Some(given) = asked.strip_prefix("bytes=") else { return Err(INVALID) };
    if given.contains(',') {
        return Ok(None);
    }
    let Some((first, last)) = given.trim().split_once('-') else { return Err(INVALID) };
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| INVALID);
    let end = size.saturating_sub(1);
    if first.trim().is_empty() {
        let suffix = number(last)?.min(size);
        return if suffix == 0 { Err(NO_OVERLAP) } else { Ok(Some((size.saturating_sub(suffix), end))) };
    }
    let first = number(first)?;
    let last = if last.trim().is_empty() { end } else { number(last)?.min(end) };
    match first {
        _ if first >= size => Err(NO_OVERLAP),
        _ if first > last => Err(INVALID),
        _ => Ok(Some((first, last))),
    }
}

/// The content of a file, read when it is needed. A file that shrinks meanwhile ends the answer prematurely.
struct Chunks {
    file: File,
    left: u64,
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let size = usize::try_from(self.left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let mut chunk = vec![0; size];
        let read = self.file.read(&mut chunk).ok().filter(|read| *read > 0)?;
        chunk.truncate(read);
        self.left = self.left.saturating_sub(u64::try_from(read).unwrap_or(0));
        Some(chunk.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_go_reads_them() {
        for (asked, want) in [
            ("", Ok(None)),
            ("bytes=2-5", Ok(Some((2, 5)))),
            ("bytes=-3", Ok(Some((14, 16)))),
            ("bytes=5-", Ok(Some((5, 16)))),
            ("bytes=0-99", Ok(Some((0, 16)))),
            ("bytes=90-", Err(NO_OVERLAP)),
            ("bytes=-0", Err(NO_OVERLAP)),
            ("bytes=5-2", Err(INVALID)),
            ("bytes=x", Err(INVALID)),
            ("lines=1-2", Err(INVALID)),
            ("bytes=0-1,3-4", Ok(None)),
        ] {
            assert_eq!(range(asked, 17), want, "{asked}");
        }
    }

    #[test]
    fn nothing_outside_the_folder_is_found() {
        let folder = std::env::temp_dir();
        let (found, _) = look_up(&folder, "/../.././//").unwrap();
        assert_eq!(found, folder.join(""));
        assert!(look_up(Path::new("/dev"), "null").is_err());
    }
}
