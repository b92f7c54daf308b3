//! Textual lists of indexes: `1,3-5`.

use pintle_meta::field::quoted;

/// Counts the indexes in a list; they must be ascending and below `completions`.
pub(super) fn count(list: &str, completions: i64) -> Result<i64, String> {
    if list.is_empty() {
        return Ok(0);
    }
    let mut last: Option<i64> = None;
    let mut total = 0_i64;
    for text in list.split(',') {
        let (first, end) = parse_interval(text, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total = end.saturating_sub(first).saturating_add(total).saturating_add(1);
        last = Some(end);
    }
    Ok(total)
}

fn parse_interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let number = |part: &str| {
        let value: i64 = part
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {}", quoted(part)))?;
        if value >= completions { Err(format!("too large index: {}", quoted(part))) } else { Ok(value) }
    };
    match text.split('-').collect::<Vec<_>>().as_slice() {
        [one] => number(one).map(|n| (n, n)),
        [first, end] => {
            let (first, end) = (number(first)?, number(end)?);
            if first >= end {
                return Err(format!("non-increasing order, previous: {first}, current: {end}"));
            }
            Ok((first, end))
        }
        _ => {
            let quoted_text = quoted(text);
            Err(format!(
                "the fragment {quoted_text} violates the requirement that an index interval can have at most two parts separated by '-'"
            ))
        }
    }
}

/// The first index in both lists. Unparsable parts are skipped.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    if completed.is_empty() || failed.is_empty() {
        return None;
    }
    let read = |list: &str| -> Vec<(i64, i64)> {
        list.split(',').filter_map(|text| parse_interval(text, completions).ok()).collect()
    };
    let (completed, failed) = (read(completed), read(failed));
    let (mut c, mut f) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((a, b)), Some((x, y))) = (c.peek(), f.peek()) {
        if a <= y && x <= b {
            return Some(*a.max(x));
        }
        if a <= x {
            c.next()
        } else {
            f.next()
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{count, overlap};

    #[test]
    fn lists_of_indexes() {
        assert_eq!(count("", 5), Ok(0));
        assert_eq!(count("0,2-4", 5), Ok(4));
        assert_eq!(count("5", 5), Err("too large index: \"5\"".to_string()));
        assert_eq!(count("3,1", 5), Err("non-increasing order, previous: 3, current: 1".to_string()));
        assert_eq!(count("a", 5), Err("cannot convert string to integer for index: \"a\"".to_string()));
        assert_eq!(overlap("0-3", "2", 5), Some(2));
        assert_eq!(overlap("0,4", "1-3", 5), None);
    }
}
