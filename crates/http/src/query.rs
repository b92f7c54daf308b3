//! Percent-encoding and query strings, parsed as Go's `net/url` does.

use pintle_value::percent;

/// The maximum number of parameters of a query. Go reads nothing of a query that has more.
const PARAMETERS_MAX: usize = 10_000;

/// Percent-decodes; `None` if the text is malformed. `plus` decodes `+` as a space.
pub fn unescape(text: &str, plus: bool) -> Option<String> {
    let has_plus = plus && text.contains('+');
    match (has_plus, text.contains('%')) {
        (false, false) => Some(text.to_string()),
        (false, true) => percent::decode(text).ok(),
        (true, _) => percent::decode(&text.replace('+', " ")).ok(),
    }
}

/// The parameters of a query, in order. Malformed pairs, and pairs with a semicolon, are dropped.
pub fn parse(query: &str) -> Vec<(String, String)> {
    if query.bytes().filter(|byte| *byte == b'&').count() >= PARAMETERS_MAX {
        return Vec::new();
    }
    let pair = |part: &str| {
        if part.is_empty() || part.contains(';') {
            return None;
        }
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        Some((unescape(key, true)?, unescape(value, true)?))
    };
    query.split('&').filter_map(pair).collect()
}

/// The first value of a parameter.
pub fn first<'a>(query: &'a [(String, String)], key: &str) -> Option<&'a str> {
    query.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_as_go_reads_them() {
        let pairs = |q| parse(q).into_iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ");
        assert_eq!(pairs("a=1&b=x+y%2F&a=2&=&c"), "a=1 b=x y/ a=2 = c=");
        assert_eq!(pairs("a=%zz&b=1;c=2&d=3"), "d=3");
        assert_eq!(parse(&"a&".repeat(9_999)).len(), 9_999);
        assert_eq!(parse(&"a&".repeat(10_000)), []);
        assert_eq!(unescape("a+b%2Fc", false).as_deref(), Some("a+b/c"));
        assert_eq!(unescape("%2", false), None);
    }
}
