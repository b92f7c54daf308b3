//! The error of a certificate and key that do not match, with the texts of Go's `tls.X509KeyPair`, as far as their PEM
//! shows it.

use pintle_value::base64;

/// How many PEM blocks are looked at.
const BLOCKS_MAX: usize = 1000;

/// The first error of a pair of PEM texts.
pub(super) fn key_pair_error(certificate: &[u8], key: &[u8]) -> Option<String> {
    let blocks = block_types(certificate);
    if !blocks.iter().any(|b| b == "CERTIFICATE") {
        return Some(certificate_error(&blocks));
    }
    let blocks = block_types(key);
    let is_key = |b: &String| b == "PRIVATE KEY" || b.ends_with(" PRIVATE KEY");
    if blocks.iter().any(is_key) { None } else { Some(key_error(&blocks)) }
}

fn certificate_error(skipped: &[String]) -> String {
    match skipped {
        [] => "tls: failed to find any PEM data in certificate input".to_string(),
        [one] if one.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_string()
        }
        many => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
            many.join(" ")
        ),
    }
}

fn key_error(skipped: &[String]) -> String {
    match skipped {
        [] => "tls: failed to find any PEM data in key input".to_string(),
        [one] if one == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_string()
        }
        many => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
            many.join(" ")
        ),
    }
}

/// The types of all decodable PEM blocks.
fn block_types(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let mut types = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines().map(str::trim_end) {
        let label = |prefix: &str| line.strip_prefix(prefix).and_then(|rest| rest.strip_suffix("-----"));
        if let Some(label) = label("-----BEGIN ") {
            open = Some((label.to_string(), String::new()));
        } else if let Some(label) = label("-----END ") {
            if let Some((name, body)) = open.take()
                && name == label
                && base64::decode(&body).is_ok()
                && types.len() < BLOCKS_MAX
            {
                types.push(name);
            }
        } else if let Some((_, body)) = &mut open {
            // Skip headers.
            if !line.contains(':') {
                body.push_str(line.trim());
            }
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_key_pairs_name_the_wrong_pem_block() {
        let cert = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".as_slice();
        let key = b"-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n".as_slice();
        assert_eq!(key_pair_error(cert, key), None);
        for (cert, key, expected) in [
            (b"".as_slice(), b"".as_slice(), "tls: failed to find any PEM data in certificate input"),
            (cert, b"", "tls: failed to find any PEM data in key input"),
            (cert, cert, "tls: found a certificate rather than a key in the PEM for the private key"),
            (
                key,
                key,
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
            ),
        ] {
            assert_eq!(key_pair_error(cert, key).as_deref(), Some(expected));
        }
    }
}
