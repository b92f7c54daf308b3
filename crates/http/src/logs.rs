//! `/logs` (`--enable-logs-handler`): files and folders of `/var/log`, as Go's file server returns them. Files are read while
//! they are sent, on threads that may block: a slow disk must not hold up the threads that answer requests.

use crate::Body;
use crate::api::ApiResponse;
use crate::body::{Aborted, Chunks};
use crate::conditional::{Conditions, Current, Extent, Verdict};
use crate::negotiate::{Accept, Media};
use crate::{http_date, respond, target};
use bytes::Bytes;
use http::HeaderValue;
use http::request::Parts;
use pintle_proxy::{escape_path, sniff};
use std::fs::{File, Metadata};
use std::future::Future;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::UNIX_EPOCH;
use tokio::sync::Semaphore;

/// The folder that is served.
const FOLDER: &str = "/var/log";
/// How much of a file is read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// How many entries of a folder are listed.
const ENTRIES_MAX: usize = 10_000;
/// How many threads read at once. Further reads wait.
const READERS_MAX: usize = 8;
static READERS: Semaphore = Semaphore::const_new(READERS_MAX);
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

/// The parts of a request that the answer depends on.
struct LogRequest {
    /// The decoded path.
    path: String,
    query: String,
    conditions: Conditions,
}

/// Answers a request below `/logs`; `None` for other paths. `path` is the decoded path.
pub(crate) async fn serve(parts: &Parts, path: &str, accept: &Accept) -> Option<ApiResponse> {
    path.strip_prefix("/logs").filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
    let errors = accept.for_errors(Media::WITHOUT_CBOR);
    if parts.method != http::Method::GET {
        return Some(respond::status(&respond::method_not_allowed(), errors));
    }
    if !accept.names_any_of(|_| false) {
        return Some(respond::status(&respond::route_not_acceptable(&[]), errors));
    }
    let request = LogRequest {
        path: path.to_string(),
        query: target::query(parts).to_string(),
        conditions: Conditions::of(&parts.method, &parts.headers),
    };
    let answer = blocking(move || request.answer()).await;
    Some(answer.unwrap_or_else(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => respond::text(404, "404 page not found"),
        ErrorKind::InvalidFilename => respond::text(404, "file not found"),
        ErrorKind::PermissionDenied => respond::text(403, "403 Forbidden"),
        _ => respond::text(500, "500 Internal Server Error"),
    }))
}

/// Runs file operations on a thread that may block. The thread holds its place even if the client is gone meanwhile, so that a
/// disk that does not answer takes [`READERS_MAX`] threads at most.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    let place = READERS.acquire().await.map_err(std::io::Error::other)?;
    let run = move || {
        let result = work();
        drop(place);
        result
    };
    tokio::task::spawn_blocking(run).await.map_err(std::io::Error::other)?
}

impl LogRequest {
    fn answer(&self) -> std::io::Result<ApiResponse> {
        let path = self.path.as_str();
        // Go refuses such paths although they would be cleaned.
        if path.split(['/', '\\']).any(|step| step == "..") {
            return Ok(respond::text(400, "invalid URL path"));
        }
        if path.ends_with("/index.html") {
            return Ok(self.redirect_to("./"));
        }
        let name = path.strip_prefix("/logs").unwrap_or(path);
        let (mut file, mut found) = look_up(Path::new(FOLDER), name)?;
        if found.is_dir() {
            if !path.ends_with('/') {
                let last = path.rsplit('/').next().unwrap_or("");
                return Ok(self.redirect_to(&format!("{}/", escape_path(last))));
            }
            let index = file.join("index.html");
            match std::fs::metadata(&index) {
                Ok(metadata) if metadata.is_file() => (file, found) = (index, metadata),
                _ => return self.list_folder(&file, &found),
            }
        }
        self.file_content(&file, &found)
    }

    fn redirect_to(&self, to: &str) -> ApiResponse {
        let to = if self.query.is_empty() { to.to_string() } else { format!("{to}?{}", self.query) };
        let mut answer = ApiResponse::empty(301);
        answer.set_header("location", &to);
        answer
    }

    fn list_folder(&self, folder: &Path, found: &Metadata) -> std::io::Result<ApiResponse> {
        let modified = modified_at(found);
        if self.conditions.not_modified_since(modified) {
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
            let local =
                if name.split('/').next().is_some_and(|first| first.contains(':')) { "./" } else { "" };
            page.push_str(&format!("<a href=\"{local}{}\">{}</a>\n", escape_path(&name), escape_html(&name)));
        }
        page.push_str("</pre>\n");
        let mut answer = ApiResponse::new(200, "text/html; charset=utf-8", page);
        answer.set_header("last-modified", &http_date::format(modified));
        Ok(answer)
    }

    fn file_content(&self, path: &Path, found: &Metadata) -> std::io::Result<ApiResponse> {
        let (modified, size) = (modified_at(found), found.len());
        let last_modified = http_date::format(modified);
        let in_part = match self.conditions.verdict(Current { tag: "", modified }) {
            Verdict::Send { in_part } => in_part,
            refused => {
                let mut answer = ApiResponse::empty(if refused == Verdict::Failed { 412 } else { 304 });
                answer.set_header("last-modified", &last_modified);
                return Ok(answer);
            }
        };
        let mut file = File::open(path)?;
        let media = media_type(path, &mut file)?;
        let (code, first, length) =
            match if in_part { self.conditions.extent(size) } else { Ok(Extent::Whole) } {
                Ok(Extent::Part(first, last)) => (206, first, last.saturating_sub(first).saturating_add(1)),
                Ok(Extent::Whole) => (200, 0, size),
                Err(answer) => return Ok(answer),
            };
        file.seek(SeekFrom::Start(first))?;
        let chunks = FileChunks { next: Next::Idle(file), left: length };
        let mut answer = ApiResponse::new(code, "", Body::Chunks(Box::pin(chunks)));
        answer.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media));
        answer.set_header("accept-ranges", "bytes");
        answer.set_header("last-modified", &last_modified);
        if code == 206 {
            let last = first.saturating_add(length).saturating_sub(1);
            answer.set_header("content-range", &format!("bytes {first}-{last}/{size}"));
        }
        Ok(answer)
    }
}

/// Finds a file or folder. Anything else would block when it is opened, or never end.
fn look_up(folder: &Path, name: &str) -> std::io::Result<(PathBuf, Metadata)> {
    let steps = Path::new(name).components();
    let steps = steps.filter(|step| matches!(step, Component::Normal(_)));
    let file = folder.join(steps.collect::<PathBuf>());
    let found = std::fs::metadata(&file)?;
    if found.is_dir() || found.is_file() { Ok((file, found)) } else { Err(ErrorKind::Unsupported.into()) }
}

fn modified_at(found: &Metadata) -> i64 {
    let since = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0)
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

fn media_type(path: &Path, file: &mut File) -> std::io::Result<&'static str> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
    if let Some((_, media)) = MEDIA_TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension)) {
        return Ok(media);
    }
    let mut start = Vec::new();
    file.by_ref().take(sniff::SNIFF_BYTES).read_to_end(&mut start)?;
    Ok(sniff::media_type(&start))
}

/// The content of a file, read when it is needed. A file that shrinks meanwhile ends the answer prematurely.
struct FileChunks {
    next: Next,
    left: u64,
}

enum Next {
    Idle(File),
    Reading(Reading),
    Ended,
}

type Reading = Pin<Box<dyn Future<Output = std::io::Result<(File, Bytes)>> + Send>>;

/// Reads the next chunk of a file, of this size at most.
async fn read_chunk(mut file: File, size: usize) -> std::io::Result<(File, Bytes)> {
    let read = move || {
        let mut chunk = vec![0; size];
        let length = file.read(&mut chunk)?;
        chunk.truncate(length);
        if chunk.is_empty() { Err(ErrorKind::UnexpectedEof.into()) } else { Ok((file, chunk.into())) }
    };
    blocking(read).await
}

impl Chunks for FileChunks {
    fn poll_chunk(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut reading: Reading = match std::mem::replace(&mut self.next, Next::Ended) {
            Next::Idle(file) => {
                let size = usize::try_from(self.left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
                Box::pin(read_chunk(file, size))
            }
            Next::Reading(reading) => reading,
            Next::Ended => return Poll::Ready(None),
        };
        match reading.as_mut().poll(cx) {
            Poll::Pending => {
                self.next = Next::Reading(reading);
                Poll::Pending
            }
            Poll::Ready(Ok((file, chunk))) => {
                self.left = self.left.saturating_sub(u64::try_from(chunk.len()).unwrap_or(0));
                self.next = Next::Idle(file);
                Poll::Ready(Some(Ok(chunk)))
            }
            Poll::Ready(Err(why)) => Poll::Ready(Some(Err(Aborted(why.to_string())))),
        }
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_outside_the_folder_are_not_served() {
        let folder = std::env::temp_dir();
        let (found, _) = look_up(&folder, "/../.././//").unwrap();
        assert_eq!(found, folder.join(""));
        assert!(look_up(Path::new("/dev"), "null").is_err());
    }

    #[tokio::test]
    async fn files_are_read_on_threads_that_may_block() {
        use http_body_util::BodyExt;
        let path = std::env::temp_dir().join(format!("pintle-logs-{}", std::process::id()));
        let text: Vec<u8> = (0..CHUNK_BYTES + 10).map(|at| b'a' + u8::try_from(at % 26).unwrap()).collect();
        std::fs::write(&path, &text).unwrap();
        let body = |left| {
            let next = Next::Idle(File::open(&path).unwrap());
            Body::Chunks(Box::pin(FileChunks { next, left }))
        };
        let all = body(text.len() as u64).collect().await.unwrap().to_bytes();
        assert_eq!(all, text);
        let shrunk = body(text.len() as u64 + 1).collect().await;
        assert!(shrunk.is_err(), "the file is shorter than announced");
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_number_of_readers_is_limited() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NOW: AtomicUsize = AtomicUsize::new(0);
        let read = || {
            let readers = NOW.fetch_add(1, Ordering::SeqCst) + 1;
            std::thread::sleep(std::time::Duration::from_millis(2));
            NOW.fetch_sub(1, Ordering::SeqCst);
            Ok(readers)
        };
        let all: Vec<_> = (0..4 * READERS_MAX).map(|_| tokio::spawn(blocking(read))).collect();
        for reader in all {
            assert!(reader.await.unwrap().unwrap() <= READERS_MAX);
        }
    }
}
