//! Compresses large answers with gzip for clients that accept it.

use crate::body::{Aborted, Body, Chunks};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Answers up to this size are not compressed.
const THRESHOLD_BYTES: u64 = 128 * 1024;
/// Compressed output is forwarded in pieces of about this size.
const PIECE_BYTES: usize = 16 * 1024;

/// Returns whether an `Accept-Encoding` header contains gzip.
pub(crate) fn asked_for(accept_encoding: &str) -> bool {
    accept_encoding.split(',').any(|token| token.trim() == "gzip")
}

/// Returns whether an `Accept-Encoding` header prefers gzip to no encoding, by quality. Prometheus' library reads it so; without a
/// preference it does not compress.
pub(crate) fn preferred(accept_encoding: &str) -> bool {
    let quality = |encoding: &str| {
        let specs = accept_encoding.split(',').filter_map(|spec| {
            let (name, parameters) = spec.split_once(';').unwrap_or((spec, ""));
            let q = parameters.trim().strip_prefix("q=").map_or(Ok(1.0), |q| q.trim().parse::<f32>());
            let name = name.trim();
            (name == encoding || name == "*").then_some(q.unwrap_or(0.0))
        });
        specs.fold(-1.0, f32::max)
    };
    let gzip = quality("gzip");
    gzip > 0.0 && gzip > quality("identity")
}

/// Returns whether a body is large enough for compression.
pub(crate) fn worth_it(body: &mut Body) -> bool {
    body.has_more_than(THRESHOLD_BYTES)
}

/// Returns the body, compressed while it is sent.
pub(crate) fn gzip(body: Body) -> Body {
    if let Body::Chunks(chunks) = &body
        && let Some(compressed) = chunks.compressed()
    {
        return Body::Chunks(compressed);
    }
    let encoder = Some(GzEncoder::new(Vec::with_capacity(PIECE_BYTES), Compression::fast()));
    Body::Chunks(Box::pin(Gzip { body, encoder }))
}

struct Gzip {
    body: Body,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Chunks for Gzip {
    fn poll_chunk(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        let this = &mut *self;
        let Some(encoder) = &mut this.encoder else { return Poll::Ready(None) };
        loop {
            let next = match &mut this.body {
                Body::Full(bytes) if bytes.is_empty() => None,
                Body::Full(bytes) => Some(Ok(bytes.split_to(bytes.len().min(PIECE_BYTES)))),
                Body::Chunks(chunks) => match chunks.as_mut().poll_chunk(cx) {
                    Poll::Ready(next) => next,
                    Poll::Pending => return Poll::Pending,
                },
            };
            match next {
                Some(Ok(chunk)) => {
                    if let Err(e) = encoder.write_all(&chunk) {
                        return Poll::Ready(Some(Err(Aborted(e.to_string()))));
                    }
                    if encoder.get_ref().len() >= PIECE_BYTES {
                        let piece = std::mem::replace(encoder.get_mut(), Vec::with_capacity(PIECE_BYTES));
                        return Poll::Ready(Some(Ok(piece.into())));
                    }
                }
                Some(Err(e)) => return Poll::Ready(Some(Err(e))),
                None => {
                    let finished = this.encoder.take().map(GzEncoder::finish);
                    return Poll::Ready(finished.map(|f| match f {
                        Ok(rest) => Ok(Bytes::from(rest)),
                        Err(e) => Err(Aborted(e.to_string())),
                    }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[test]
    fn gzip_is_preferred_by_quality() {
        for (header, want) in [
            ("", false),
            ("gzip", true),
            ("deflate, gzip;q=0.5", true),
            ("gzip, identity", false),
            ("gzip;q=0.9, identity;q=0.5", true),
            ("*", false),
            ("*;q=0.1, gzip", true),
            ("gzip;q=0", false),
        ] {
            assert_eq!(preferred(header), want, "{header}");
        }
    }
    use std::io::Read;

    #[tokio::test]
    async fn compressed_bodies_can_be_decompressed() {
        let text: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        let pieces: Vec<Bytes> = text.chunks(7_000).map(Bytes::copy_from_slice).collect();
        let total = Some(text.len() as u64);
        let lazy = |total| Body::lazy(pieces.clone().into_iter(), total);
        for mut body in [Body::from(text.clone()), lazy(total), lazy(None)] {
            assert!(worth_it(&mut body));
            let packed = gzip(body).collect().await.unwrap().to_bytes();
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, text);
        }
    }

    #[test]
    fn only_the_exact_word_asks_for_it() {
        assert!(asked_for("deflate, gzip"));
        assert!(!asked_for("gzip;q=1.0"));
        assert!(!asked_for(""));
    }
}
