//! Conditions and ranges of requests for documents and files, as Go's `http.ServeContent` evaluates them.

use crate::api::ApiResponse;
use crate::{headers, http_date, respond};
use http::{HeaderMap, Method};

/// The headers of a request that make its answer conditional, or a part of the content.
pub(crate) struct Conditions {
    /// Whether the method is GET or HEAD.
    is_read: bool,
    if_match: String,
    if_unmodified_since: Option<i64>,
    if_none_match: String,
    if_modified_since: Option<i64>,
    if_range: String,
    range: String,
}

/// The current state of the content, with which conditions are compared.
#[derive(Clone, Copy)]
pub(crate) struct Current<'a> {
    /// The entity tag in quotes; "" if there is none.
    pub(crate) tag: &'a str,
    /// When the document was modified, in seconds since 1970.
    pub(crate) modified: i64,
}

/// Whether the content is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// 412
    Failed,
    /// 304
    Unchanged,
    /// The content, or the part that is requested.
    Send { in_part: bool },
}

/// The part of the content that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// The first and the last byte.
    Part(u64, u64),
}

impl Conditions {
    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Conditions {
        let text = |name| headers::first(headers, name).into_owned();
        let date = |name| http_date::parse(&headers::first(headers, name));
        Conditions {
            is_read: matches!(*method, Method::GET | Method::HEAD),
            if_match: text("if-match"),
            if_unmodified_since: date("if-unmodified-since"),
            if_none_match: text("if-none-match"),
            if_modified_since: date("if-modified-since"),
            if_range: text("if-range"),
            range: text("range"),
        }
    }

    /// Compares the conditions with the current state. An entity tag takes precedence over a date.
    pub(crate) fn verdict(&self, current: Current<'_>) -> Verdict {
        let meets = match self.if_match.as_str() {
            "" => self.if_unmodified_since.is_none_or(|since| current.modified <= since),
            tags => names(tags, |tag| is_same(tag, current.tag)),
        };
        if !meets {
            return Verdict::Failed;
        }
        let has_it = match self.if_none_match.as_str() {
            "" => self.not_modified_since(current.modified),
            tags => names(tags, |tag| without_weakness(tag) == without_weakness(current.tag)),
        };
        if has_it {
            return if self.is_read { Verdict::Unchanged } else { Verdict::Failed };
        }
        let of_this_state = match (self.if_range.as_str(), leading_tag(&self.if_range)) {
            ("", _) => true,
            _ if !self.is_read => true,
            (_, Some((tag, _))) => is_same(tag, current.tag),
            (date, None) => http_date::parse(date) == Some(current.modified),
        };
        Verdict::Send { in_part: of_this_state && !self.range.is_empty() }
    }

    /// Whether only the date makes the answer 304, which is all that Go asks before it lists a folder.
    pub(crate) fn not_modified_since(&self, modified: i64) -> bool {
        self.is_read && self.if_modified_since.is_some_and(|since| modified <= since)
    }

    /// The requested part of content of this size, or the answer 416.
    pub(crate) fn extent(&self, size: u64) -> Result<Extent, ApiResponse> {
        extent(&self.range, size).map_err(|why| {
            let mut answer = respond::text(416, why);
            if why == NO_OVERLAP {
                answer.set_header("content-range", &format!("bytes */{size}"));
            }
            answer
        })
    }
}

/// Whether a list of entity tags has one that matches, or is `*`. What follows a malformed tag is ignored.
fn names(list: &str, matches: impl Fn(&str) -> bool) -> bool {
    let mut rest = list;
    loop {
        rest = rest.trim_matches([' ', '\t', '\n', '\r']);
        if let Some(after) = rest.strip_prefix(',') {
            rest = after;
            continue;
        }
        if rest.starts_with('*') {
            return true;
        }
        match leading_tag(rest) {
            Some((tag, _)) if matches(tag) => return true,
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
}

/// The entity tag that a text begins with, and the text after it.
fn leading_tag(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    let quoted = without_weakness(text).strip_prefix('"')?;
    let end = quoted.find(|c: char| c != '!' && !('#'..='~').contains(&c) && c < '\u{80}')?;
    let after = quoted.get(end..)?.strip_prefix('"')?;
    Some((text.get(..text.len().saturating_sub(after.len()))?, after))
}

fn without_weakness(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// The strong comparison: a weak tag is never the same.
fn is_same(tag: &str, current: &str) -> bool {
    tag == current && tag.starts_with('"')
}

const NO_OVERLAP: &str = "invalid range: failed to overlap";
const INVALID: &str = "invalid range";

/// Reads a `Range` header. Several ranges are answered with the whole content.
fn extent(range: &str, size: u64) -> Result<Extent, &'static str> {
    if range.is_empty() {
        return Ok(Extent::Whole);
    }
    let Some(given) = range.strip_prefix("bytes=") else { return Err(INVALID) };
    if given.contains(',') {
        return Ok(Extent::Whole);
    }
    let Some((first, last)) = given.trim().split_once('-') else { return Err(INVALID) };
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| INVALID);
    let end = size.saturating_sub(1);
    if first.trim().is_empty() {
        let suffix = number(last)?.min(size);
        return if suffix == 0 {
            Err(NO_OVERLAP)
        } else {
            Ok(Extent::Part(size.saturating_sub(suffix), end))
        };
    }
    let first = number(first)?;
    let last = if last.trim().is_empty() { end } else { number(last)?.min(end) };
    match first {
        _ if first >= size => Err(NO_OVERLAP),
        _ if first > last => Err(INVALID),
        _ => Ok(Extent::Part(first, last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_go_reads_them() {
        for (range, want) in [
            ("", Ok(Extent::Whole)),
            ("bytes=2-5", Ok(Extent::Part(2, 5))),
            ("bytes=-3", Ok(Extent::Part(14, 16))),
            ("bytes=5-", Ok(Extent::Part(5, 16))),
            ("bytes=0-99", Ok(Extent::Part(0, 16))),
            ("bytes=90-", Err(NO_OVERLAP)),
            ("bytes=-0", Err(NO_OVERLAP)),
            ("bytes=5-2", Err(INVALID)),
            ("bytes=x", Err(INVALID)),
            ("lines=1-2", Err(INVALID)),
            ("bytes=0-1,3-4", Ok(Extent::Whole)),
        ] {
            assert_eq!(extent(range, 17), want, "{range}");
        }
    }

    #[test]
    fn conditions_are_evaluated_as_go_evaluates_them() {
        const AT: &str = "Fri, 02 Jan 2026 03:04:05 GMT";
        const BEFORE: &str = "Fri, 02 Jan 2026 03:04:04 GMT";
        const LATER: &str = "Fri, 02 Jan 2026 03:04:06 GMT";
        let (whole, part) = (Verdict::Send { in_part: false }, Verdict::Send { in_part: true });
        let range = ("range", "bytes=0-1");
        for (given, want) in [
            (vec![], whole),
            (vec![("if-match", "\"a\"")], whole),
            (vec![("if-match", "\"x\", , \"a\"")], whole),
            (vec![("if-match", "W/\"a\"")], Verdict::Failed),
            (vec![("if-match", "\"b\"")], Verdict::Failed),
            (vec![("if-match", "*")], whole),
            (vec![("if-match", "a, \"a\"")], Verdict::Failed),
            (vec![("if-unmodified-since", BEFORE)], Verdict::Failed),
            (vec![("if-unmodified-since", AT)], whole),
            (vec![("if-match", "\"a\""), ("if-unmodified-since", BEFORE)], whole),
            (vec![("if-none-match", "W/\"a\"")], Verdict::Unchanged),
            (vec![("if-none-match", "\"b\""), ("if-modified-since", AT)], whole),
            (vec![("if-modified-since", AT)], Verdict::Unchanged),
            (vec![("if-modified-since", BEFORE)], whole),
            (vec![("if-modified-since", "yesterday")], whole),
            (vec![range], part),
            (vec![range, ("if-range", "\"a\"")], part),
            (vec![range, ("if-range", "W/\"a\"")], whole),
            (vec![range, ("if-range", "\"b\"")], whole),
            (vec![range, ("if-range", AT)], part),
            (vec![range, ("if-range", LATER)], whole),
        ] {
            let headers: HeaderMap = given
                .iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
                .collect();
            let current = Current { tag: "\"a\"", modified: http_date::parse(AT).unwrap() };
            assert_eq!(Conditions::of(&Method::GET, &headers).verdict(current), want, "{given:?}");
        }
    }
}
