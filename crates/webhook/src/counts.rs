//! Metrics of calls, under the names of client-go.

use pintle_metrics::families;
use pintle_proxy::CertificateFlaw;
use std::time::Instant;

/// Counts a call when it is dropped; one that was not ended has failed or timed out.
pub(crate) struct CountedCall<'a> {
    host: &'a str,
    began: Instant,
    request_bytes: usize,
    answer: Option<(u16, usize)>,
}

impl<'a> CountedCall<'a> {
    /// Starts measuring a call of a configured host with a body of this size.
    pub(crate) fn begin(host: &'a str, request_bytes: usize) -> Self {
        CountedCall { host, began: Instant::now(), request_bytes, answer: None }
    }

    /// Ends the measurement; the answer has this code and size.
    pub(crate) fn end(mut self, answer: Option<(u16, usize)>) {
        self.answer = answer;
    }
}

impl Drop for CountedCall<'_> {
    #[expect(clippy::cast_precision_loss, reason = "sizes to be put in buckets")]
    fn drop(&mut self) {
        let code = self.answer.map_or_else(|| "<error>".to_string(), |(code, _)| code.to_string());
        families::CALL_REQUESTS.inc(&[&code, self.host, "POST"]);
        let labels = [self.host, "POST"];
        families::CALL_DURATION.observe(&labels, self.began.elapsed().as_secs_f64());
        families::CALL_REQUEST_BYTES.observe(&labels, self.request_bytes as f64);
        if let Some((_, bytes)) = self.answer {
            families::CALL_RESPONSE_BYTES.observe(&labels, bytes as f64);
        }
    }
}

/// Counts a connection that failed because of a flaw of the server's certificate.
pub(crate) fn connection_failed(why: &str) {
    match CertificateFlaw::of_error(why) {
        Some(CertificateFlaw::MissingSan) => families::WEBHOOK_MISSING_SAN.inc(&[]),
        Some(CertificateFlaw::InsecureSha1) => families::WEBHOOK_INSECURE_SHA1.inc(&[]),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_however_it_ends() {
        CountedCall::begin("a:443", 10).end(Some((200, 5)));
        CountedCall::begin("a:443", 10).end(None);
        drop(CountedCall::begin("a:443", 10));
        let text: String = pintle_metrics::Text::default().collect();
        for line in [
            r#"rest_client_requests_total{code="200",host="a:443",method="POST"} 1"#,
            r#"rest_client_requests_total{code="<error>",host="a:443",method="POST"} 2"#,
            r#"rest_client_request_duration_seconds_count{host="a:443",verb="POST"} 3"#,
            r#"rest_client_response_size_bytes_sum{host="a:443",verb="POST"} 5"#,
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line}");
        }
    }
}
