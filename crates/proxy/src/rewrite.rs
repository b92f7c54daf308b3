//! Rewrites the links of proxied pages, so that links to the backend's root point below the path of the proxy. Pages are
//! rewritten while they are streamed; only the current tag is in memory.

mod tags;

use crate::url::{Url, join};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder, GzEncoder, MultiGzDecoder};
use std::io::Write;
use tags::Tokens;

/// How many compressed bytes are unpacked at once; they expand at most about a thousandfold.
const COMPRESSED_BYTES: usize = 1024;
/// How many bytes of a page that is not compressed are rewritten at once.
const PLAIN_BYTES: usize = 64 << 10;

/// The position of a proxy, which determines how links are rewritten.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// Scheme and host that clients use; "" if the links stay on their host.
    pub scheme: String,
    /// See `scheme`.
    pub host: String,
    /// The path prefix of the backend's own paths.
    pub prefix: String,
    /// The address of the backend, as `host:port`.
    pub backend: String,
    /// The host of the request.
    pub request_host: String,
}

impl Links {
    /// The rewritten link; the error says why it is not a URL.
    pub fn rewrite(&self, link: &str) -> Result<String, String> {
        let mut url = Url::parse(link)?;
        let is_elsewhere = !url.host.is_empty() && url.host != self.backend && url.host != self.request_host;
        if is_elsewhere || !url.path.starts_with('/') {
            return Ok(url.text());
        }
        let is_own_host = url.host == self.request_host && self.scheme.is_empty() && self.host.is_empty();
        if !is_own_host {
            url.scheme.clone_from(&self.scheme);
            url.host.clone_from(&self.host);
        }
        if !url.path.starts_with(&self.prefix) {
            let mut path = join(&[&self.prefix, &url.path]);
            if url.path.ends_with('/') && !path.ends_with('/') {
                path.push('/');
            }
            url.set_path(path);
        }
        Ok(url.text())
    }
}

/// How a page is compressed.
enum Coding {
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>, Box<GzEncoder<Vec<u8>>>),
    Deflate(Box<DeflateDecoder<Vec<u8>>>, Box<DeflateEncoder<Vec<u8>>>),
}

/// Rewrites a page piece by piece.
pub struct Page {
    links: Links,
    coding: Coding,
    tokens: Tokens,
}

impl Page {
    /// A rewriter for a page with this `Content-Encoding`; `None` for unsupported encodings.
    pub fn new(links: Links, encoding: &str) -> Option<Self> {
        let coding = match encoding {
            "" => Coding::Plain,
            "gzip" => Coding::Gzip(
                Box::new(MultiGzDecoder::new(Vec::new())),
                Box::new(GzEncoder::new(Vec::new(), Compression::default())),
            ),
            "deflate" => Coding::Deflate(
                Box::new(DeflateDecoder::new(Vec::new())),
                Box::new(DeflateEncoder::new(Vec::new(), Compression::best())),
            ),
            _ => return None,
        };
        Some(Page { links, coding, tokens: Tokens::default() })
    }

    /// How many bytes the caller may push at once; then it must let other tasks run.
    pub(crate) fn bytes_at_once(&self) -> usize {
        match self.coding {
            Coding::Plain => PLAIN_BYTES,
            Coding::Gzip(..) | Coding::Deflate(..) => COMPRESSED_BYTES,
        }
    }

    /// Rewrites the next chunk. An incomplete tag is returned with a later chunk.
    pub fn push(&mut self, piece: &[u8]) -> std::io::Result<Bytes> {
        self.push_piece(piece).map_err(decoding_error)
    }

    fn push_piece(&mut self, piece: &[u8]) -> std::io::Result<Bytes> {
        let Page { links, coding, tokens } = self;
        match coding {
            Coding::Plain => Ok(tokens.push(piece, links)),
            Coding::Gzip(decoder, encoder) => {
                decoder.write_all(piece)?;
                let plain = std::mem::take(decoder.get_mut());
                encoder.write_all(&tokens.push(&plain, links))?;
                Ok(std::mem::take(encoder.get_mut()).into())
            }
            Coding::Deflate(decoder, encoder) => {
                decoder.write_all(piece)?;
                let plain = std::mem::take(decoder.get_mut());
                encoder.write_all(&tokens.push(&plain, links))?;
                Ok(std::mem::take(encoder.get_mut()).into())
            }
        }
    }

    /// Returns the remaining bytes at the end of the page.
    pub fn finish(self) -> std::io::Result<Bytes> {
        let Page { links, coding, mut tokens } = self;
        match coding {
            Coding::Plain => Ok(tokens.finish()),
            Coding::Gzip(mut decoder, mut encoder) => {
                decoder.try_finish()?;
                let plain = std::mem::take(decoder.get_mut());
                encoder.write_all(&tokens.push(&plain, &links))?;
                encoder.write_all(&tokens.finish())?;
                Ok((*encoder).finish()?.into())
            }
            Coding::Deflate(mut decoder, mut encoder) => {
                decoder.try_finish()?;
                let plain = std::mem::take(decoder.get_mut());
                encoder.write_all(&tokens.push(&plain, &links))?;
                encoder.write_all(&tokens.finish())?;
                Ok((*encoder).finish()?.into())
            }
        }
    }
}

/// Go's error for a page that is not compressed as its header states.
fn decoding_error(error: std::io::Error) -> std::io::Error {
    match error.to_string().as_str() {
        "invalid gzip header" => std::io::Error::other("errorf making gzip reader: gzip: invalid header"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn links() -> Links {
        Links {
            prefix: "/api/v1/namespaces/n/pods/p/proxy".into(),
            backend: "10.244.0.9:8080".into(),
            request_host: "server:6443".into(),
            ..Links::default()
        }
    }

    fn rewritten(page: &str, step: usize) -> String {
        let mut rewriter = Page::new(links(), "").unwrap();
        let mut out = Vec::new();
        for piece in page.as_bytes().chunks(step) {
            out.extend_from_slice(&rewriter.push(piece).unwrap());
        }
        out.extend_from_slice(&rewriter.finish().unwrap());
        String::from_utf8(out).unwrap()
    }

    const PAGE: &str = "<!DOCTYPE html><!-- <a href=\"/c\"> --><HTML><a HREF='/x?a=1&amp;b=2'>x</a><a href=rel>r</a>\
        <img src=\"/i.png\"/><script>if (a<b) { '<a href=\"/s\">' }</script><a href=\"http://server:6443/own\">o</a>\
        <a href=\"//10.244.0.9:8080/back\">b</a><p title=\"a>b\">1 < 2</p><a href=\"https://e.com/\">e";

    #[test]
    fn links_of_a_page_lead_through_the_proxy() {
        let whole = rewritten(PAGE, PAGE.len());
        expect![[r#"<!DOCTYPE html><!-- <a href="/c"> --><html><a href="/api/v1/namespaces/n/pods/p/proxy/x?a=1&amp;b=2">x</a><a href="rel">r</a><img src="/api/v1/namespaces/n/pods/p/proxy/i.png"/><script>if (a<b) { '<a href="/s">' }</script><a href="http://server:6443/api/v1/namespaces/n/pods/p/proxy/own">o</a><a href="/api/v1/namespaces/n/pods/p/proxy/back">b</a><p title="a&gt;b">1 < 2</p><a href="https://e.com/">e"#]].assert_eq(&whole);
        for step in [1, 2, 3, 7] {
            assert_eq!(rewritten(PAGE, step), whole, "in pieces of {step}");
        }
    }

    #[test]
    fn tags_are_read_as_by_go() {
        for (page, want) in [
            ("<p a=1 A=2>x <a href=\"/y", r#"<p a="1">x "#),
            (
                "<noscript><a href=/x></noscript><plaintext><a href=/y></plaintext>",
                "<noscript><a href=/x></noscript><plaintext><a href=/y></plaintext>",
            ),
            ("<p a=\"1\r\n2\r\0&eacute;&no;\">\r", "<p a=\"1\n2\n\u{fffd}é&amp;no;\">\r"),
            ("a </ b", "a </ b"),
            ("a </b", "a "),
        ] {
            assert_eq!(rewritten(page, page.len()), want, "{page}");
        }
    }

    #[test]
    fn compressed_pages_stay_compressed() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"<a href=\"/x\">").unwrap();
        let zipped = encoder.finish().unwrap();
        let mut rewriter = Page::new(links(), "gzip").unwrap();
        let mut out = rewriter.push(&zipped).unwrap().to_vec();
        out.extend_from_slice(&rewriter.finish().unwrap());
        let mut decoder = MultiGzDecoder::new(Vec::new());
        decoder.write_all(&out).unwrap();
        let plain = decoder.finish().unwrap();
        assert_eq!(plain, b"<a href=\"/api/v1/namespaces/n/pods/p/proxy/x\">");
        assert!(Page::new(links(), "br").is_none());
    }

    #[test]
    fn redirects_of_the_backend_stay_below_the_proxy() {
        let links = links();
        for (from, to) in [
            ("/there?x=1", Some("/api/v1/namespaces/n/pods/p/proxy/there?x=1")),
            ("there", Some("there")),
            ("https://example.com/x", Some("https://example.com/x")),
            ("http://10.244.0.9:8080/own", Some("/api/v1/namespaces/n/pods/p/proxy/own")),
            (":bad", None),
        ] {
            assert_eq!(links.rewrite(from).ok().as_deref(), to, "{from}");
        }
    }
}
