//! The tag of an image reference, by the grammar of container image references.

/// The longest allowed tag.
const TAG_BYTES_MAX: usize = 128;
/// The longest allowed repository name.
const NAME_BYTES_MAX: usize = 255;
/// The minimum number of hexadecimal digits of a digest.
const DIGEST_DIGITS_MIN: usize = 32;

/// The tag of a reference: its own, or `latest` without tag and digest. Empty for a reference with only a digest, and
/// for an invalid one.
pub(crate) fn tag(reference: &str) -> &str {
    parse(reference).unwrap_or("")
}

/// The length of a repository's name: official images are in `library/`.
fn name_bytes(domain: Option<&str>, path: &str) -> usize {
    let official = domain.is_none() && !path.contains('/');
    path.len().saturating_add(if official { "library/".len() } else { 0 })
}

fn parse(reference: &str) -> Option<&str> {
    if reference.len() == 64 && reference.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return None;
    }
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    if digest.is_some_and(|d| !is_digest(d)) {
        return None;
    }
    let (domain, remainder) = split_domain(rest);
    let (path, tag) = match remainder.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (remainder, None),
    };
    if tag.is_some_and(|t| !is_tag(t)) || name_bytes(domain, path) > NAME_BYTES_MAX {
        return None;
    }
    if !domain.is_none_or(is_domain) || !path.split('/').all(is_path_component) {
        return None;
    }
    Some(match (tag, digest) {
        (Some(tag), _) => tag,
        (None, Some(_)) => "",
        (None, None) => "latest",
    })
}

/// The part before the first slash is only a domain if it looks like one.
fn split_domain(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.chars().any(char::is_uppercase) =>
        {
            (Some(first), rest)
        }
        _ => (None, name),
    }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) if port.starts_with(':') => (host, port.strip_prefix(':')),
            _ => return false,
        },
        None => match domain.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (domain, None),
        },
    };
    let host_fine = if domain.starts_with('[') {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_hexdigit() || b == b':')
    } else {
        host.split('.').all(is_domain_component)
    };
    host_fine && port.is_none_or(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

fn is_domain_component(part: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    edge(part.bytes().next())
        && edge(part.bytes().last())
        && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Runs of lower-case letters and digits, between them one `.`, one or two `_`, or any number of `-`.
fn is_path_component(part: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let edges = part.bytes().next().is_some_and(plain) && part.bytes().last().is_some_and(plain);
    edges && part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).all(is_separator)
}

fn is_separator(text: &str) -> bool {
    matches!(text, "" | "." | "_" | "__") || text.bytes().all(|b| b == b'-')
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= TAG_BYTES_MAX
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let digits = match algorithm {
        "sha256" => hex.len() == 64,
        "sha384" => hex.len() == 96,
        "sha512" => hex.len() == 128,
        _ => false,
    };
    digits
        && hex.len() >= DIGEST_DIGITS_MIN
        && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn the_tag_of_a_reference() {
        let digest = format!("nginx@sha256:{}", "0".repeat(64));
        let both = format!("nginx:1@sha256:{}", "0".repeat(64));
        for (reference, expected) in [
            ("nginx", "latest"),
            ("nginx:1.25", "1.25"),
            ("registry.k8s.io/pause:3.9", "3.9"),
            ("localhost:5000/a/b", "latest"),
            ("localhost:5000/a/b:v1", "v1"),
            ("a__b/c-d.e", "latest"),
            ("Nginx:latest", ""),
            ("nginx:", ""),
            ("", ""),
            (" nginx", ""),
            ("a//b", ""),
            ("UPPER/a:latest", "latest"),
            (&digest, ""),
            (&both, "1"),
            ("nginx@sha256:00", ""),
        ] {
            assert_eq!(tag(reference), expected, "{reference}");
        }
    }
}
