//! The media type of a body without one, guessed from its first bytes as Go's `http.DetectContentType` does. Go's server adds it to
//! responses of backends that have none.

/// The number of bytes that are considered.
pub const SNIFF_BYTES: u64 = 512;

/// The media type of a body that begins with these bytes.
pub fn media_type(start: &[u8]) -> &'static str {
    let end = usize::try_from(SNIFF_BYTES).unwrap_or(usize::MAX);
    let start = start.get(..end).unwrap_or(start);
    let is_space = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ');
    let first = start.iter().position(|byte| !is_space(byte)).unwrap_or(start.len());
    let text = start.get(first..).unwrap_or_default();
    if HTML.iter().any(|tag| is_tag(text, tag)) {
        return "text/html; charset=utf-8";
    }
    if text.starts_with(b"<?xml") {
        return "text/xml; charset=utf-8";
    }
    if let Some((_, media)) = SIGNATURES.iter().find(|(pattern, _)| matches_pattern(start, pattern)) {
        return media;
    }
    if is_mp4(start) {
        return "video/mp4";
    }
    let is_binary = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    if text.iter().any(is_binary) { "application/octet-stream" } else { "text/plain; charset=utf-8" }
}

/// Tags that begin an HTML page.
const HTML: &[&str] = &[
    "<!DOCTYPE HTML",
    "<HTML",
    "<HEAD",
    "<SCRIPT",
    "<IFRAME",
    "<H1",
    "<DIV",
    "<FONT",
    "<TABLE",
    "<A",
    "<STYLE",
    "<TITLE",
    "<B",
    "<BODY",
    "<BR",
    "<P",
    "<!--",
];

/// First bytes and media types. A dot in a pattern matches any byte.
const SIGNATURES: &[(&[u8], &str)] = &[
    (b"%PDF-", "application/pdf"),
    (b"%!PS-Adobe-", "application/postscript"),
    (b"\xfe\xff..", "text/plain; charset=utf-16be"),
    (b"\xff\xfe..", "text/plain; charset=utf-16le"),
    (b"\xef\xbb\xbf.", "text/plain; charset=utf-8"),
    (b"\0\0\x01\0", "image/x-icon"),
    (b"\0\0\x02\0", "image/x-icon"),
    (b"BM", "image/bmp"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"RIFF....WEBPVP", "image/webp"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"FORM....AIFF", "audio/aiff"),
    (b"ID3", "audio/mpeg"),
    (b"OggS\0", "application/ogg"),
    (b"MThd\0\0\0\x06", "audio/midi"),
    (b"RIFF....AVI ", "video/avi"),
    (b"RIFF....WAVE", "audio/wave"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
    (b"..................................LP", "application/vnd.ms-fontobject"),
    (b"\0\x01\0\0", "font/ttf"),
    (b"OTTO", "font/otf"),
    (b"ttcf", "font/collection"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"\x1f\x8b\x08", "application/x-gzip"),
    (b"PK\x03\x04", "application/zip"),
    (b"Rar!\x1a\x07\0", "application/x-rar-compressed"),
    (b"Rar!\x1a\x07\x01\0", "application/x-rar-compressed"),
    (b"\0asm", "application/wasm"),
];

fn matches_pattern(start: &[u8], pattern: &[u8]) -> bool {
    start.len() >= pattern.len()
        && start.iter().zip(pattern).all(|(byte, wanted)| *wanted == b'.' || byte == wanted)
}

/// Whether a text begins with this tag, which a space or `>` ends.
fn is_tag(text: &[u8], tag: &str) -> bool {
    text.get(..tag.len()).is_some_and(|head| head.eq_ignore_ascii_case(tag.as_bytes()))
        && text.get(tag.len()).is_some_and(|end| matches!(end, b' ' | b'>'))
}

/// A box of type `ftyp` with a brand that begins with `mp4`.
fn is_mp4(start: &[u8]) -> bool {
    let Some((size, _)) = start.split_first_chunk::<4>().filter(|_| start.len() >= 12) else { return false };
    let size = usize::try_from(u32::from_be_bytes(*size)).unwrap_or(usize::MAX);
    if start.get(4..8) != Some(b"ftyp") || size > start.len() || !size.is_multiple_of(4) {
        return false;
    }
    let brands = start.get(8..size).unwrap_or_default().chunks(4).enumerate();
    // The second word is the version of the first brand.
    brands.filter(|(index, _)| *index != 1).any(|(_, brand)| brand.starts_with(b"mp4"))
}

#[cfg(test)]
mod tests {
    use super::media_type;

    #[test]
    fn media_types_are_guessed() {
        for (start, want) in [
            (&b""[..], "text/plain; charset=utf-8"),
            (b"{}", "text/plain; charset=utf-8"),
            (b"  <html>", "text/html; charset=utf-8"),
            (b"<!doctype html>", "text/html; charset=utf-8"),
            (b"<ahref", "text/plain; charset=utf-8"),
            (b"\n<?xml version", "text/xml; charset=utf-8"),
            (b"\x00\x01\x02", "application/octet-stream"),
            (b"\x89PNG\r\n\x1a\nx", "image/png"),
            (b"RIFF1234WEBPVP8", "image/webp"),
            (b"\x00\x00\x00\x10ftypmp42\x00\x00\x00\x00", "video/mp4"),
            (b"\x1f\x8b\x08\x00", "application/x-gzip"),
            (b"\xff\xfeab", "text/plain; charset=utf-16le"),
        ] {
            assert_eq!(media_type(start), want, "{start:?}");
        }
    }
}
