//! The diff that kube-apiserver prints for a changed immutable spec: a unified diff of indented JSON, as Python's
//! `difflib` makes it.

#![cfg_attr(
    not(test),
    expect(
        clippy::arithmetic_side_effects,
        reason = "positions and lengths within two lists of at most LINES_MAX lines"
    )
)]

use std::collections::HashMap;

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;
/// In longer texts, frequent lines are not used for matching.
const POPULAR_LINES_MIN: usize = 200;
/// Longer texts are not compared.
const LINES_MAX: usize = 20_000;
/// How many pairs of lines are compared. The algorithm takes the cube of the number of lines in the worst case; what is not
/// compared is printed as changed.
const STEPS_MAX: usize = 1_000_000;

/// The diff of two values in compact JSON.
pub(crate) fn unified(old: &str, new: &str) -> String {
    let (old, new) = (indent(old), indent(new));
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    if old.len().max(new.len()) > LINES_MAX {
        return String::new();
    }
    let mut out = String::new();
    for group in groups(&matches(&old, &new, &mut 0), old.len(), new.len()) {
        write_group(&group, &old, &new, &mut out);
    }
    out
}

/// Indents compact JSON with one member per line and one space per level.
fn indent(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let (mut in_text, mut escaped) = (false, false);
    let mut chars = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    };
    while let Some(c) = chars.next() {
        if in_text {
            out.push(c);
            in_text = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '{' | '[' => {
                out.push(c);
                if !matches!(chars.peek(), Some('}' | ']')) {
                    depth += 1;
                    line(&mut out, depth);
                } else if let Some(close) = chars.next() {
                    out.push(close);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_text = c == '"';
                out.push(c);
            }
        }
    }
    out
}

/// A run of equal lines: its start in both texts, and its length.
#[derive(Clone, Copy)]
struct Match {
    old: usize,
    new: usize,
    len: usize,
}

/// The equal runs in order, adjacent ones joined. Adds the compared lines to `steps`.
fn matches(old: &[&str], new: &[&str], steps: &mut usize) -> Vec<Match> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(at);
    }
    if new.len() >= POPULAR_LINES_MIN {
        places.retain(|_, at| at.len() <= new.len() / 100 + 1);
    }
    let mut found = Vec::new();
    let mut open = vec![(0, old.len(), 0, new.len())];
    while let Some((old_from, old_to, new_from, new_to)) = open.pop() {
        if *steps > STEPS_MAX {
            break;
        }
        let best = longest(old, new, &places, (old_from, old_to, new_from, new_to), steps);
        if best.len == 0 {
            continue;
        }
        open.push((old_from, best.old, new_from, best.new));
        open.push((best.old + best.len, old_to, best.new + best.len, new_to));
        found.push(best);
    }
    found.sort_by_key(|m| (m.old, m.new));
    let mut joined: Vec<Match> = Vec::new();
    for next in found {
        match joined.last_mut() {
            Some(last) if last.old + last.len == next.old && last.new + last.len == next.new => {
                last.len += next.len
            }
            _ => joined.push(next),
        }
    }
    joined
}

/// The longest run within both ranges, the first of equally long ones. Adds the compared lines to `steps`.
fn longest(
    old: &[&str],
    new: &[&str],
    places: &HashMap<&str, Vec<usize>>,
    (old_from, old_to, new_from, new_to): (usize, usize, usize, usize),
    steps: &mut usize,
) -> Match {
    let mut best = Match { old: old_from, new: new_from, len: 0 };
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (i, line) in old.iter().enumerate().take(old_to).skip(old_from) {
        let mut next = HashMap::new();
        *steps += 1 + places.get(line).map_or(0, Vec::len);
        for j in places.get(line).into_iter().flatten().copied().filter(|j| (new_from..new_to).contains(j)) {
            let before = j.checked_sub(1).and_then(|j| lengths.get(&j)).copied().unwrap_or(0);
            next.insert(j, before + 1);
            if before + 1 > best.len {
                best = Match { old: i - before, new: j - before, len: before + 1 };
            }
        }
        lengths = next;
    }
    // Frequent lines were ignored above; at the ends of a run they count.
    while best.old > old_from && best.new > new_from && old.get(best.old - 1) == new.get(best.new - 1) {
        best = Match { old: best.old - 1, new: best.new - 1, len: best.len + 1 };
    }
    while best.old + best.len < old_to
        && best.new + best.len < new_to
        && old.get(best.old + best.len) == new.get(best.new + best.len)
    {
        best.len += 1;
    }
    best
}

/// A part of both texts, equal or different.
#[derive(Clone, Copy)]
struct Part {
    equal: bool,
    old: (usize, usize),
    new: (usize, usize),
}

fn diff_parts(matches: &[Match], old_len: usize, new_len: usize) -> Vec<Part> {
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    let end = Match { old: old_len, new: new_len, len: 0 };
    for m in matches.iter().chain([&end]) {
        if i < m.old || j < m.new {
            out.push(Part { equal: false, old: (i, m.old), new: (j, m.new) });
        }
        (i, j) = (m.old + m.len, m.new + m.len);
        if m.len > 0 {
            out.push(Part { equal: true, old: (m.old, i), new: (m.new, j) });
        }
    }
    out
}

/// Changes with context lines; nearby changes form one group.
fn groups(matches: &[Match], old_len: usize, new_len: usize) -> Vec<Vec<Part>> {
    let tail = |p: Part| Part {
        old: (p.old.0.max(p.old.1.saturating_sub(CONTEXT)), p.old.1),
        new: (p.new.0.max(p.new.1.saturating_sub(CONTEXT)), p.new.1),
        ..p
    };
    let head = |p: Part| Part {
        old: (p.old.0, p.old.1.min(p.old.0 + CONTEXT)),
        new: (p.new.0, p.new.1.min(p.new.0 + CONTEXT)),
        ..p
    };
    let all = diff_parts(matches, old_len, new_len);
    let mut out = Vec::new();
    let mut group: Vec<Part> = Vec::new();
    for (at, part) in all.iter().copied().enumerate() {
        let (first, last) = (at == 0, at + 1 == all.len());
        let long = part.old.1 - part.old.0 > 2 * CONTEXT;
        match part {
            p if p.equal && first && last => {}
            p if p.equal && first => group.push(tail(p)),
            p if p.equal && last => group.push(head(p)),
            p if p.equal && long => {
                group.push(head(p));
                out.push(std::mem::take(&mut group));
                group.push(tail(p));
            }
            p => group.push(p),
        }
    }
    if group.iter().any(|p| !p.equal) {
        out.push(group);
    }
    out
}

fn write_group(group: &[Part], old: &[&str], new: &[&str], out: &mut String) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let (before, after) = (range(first.old.0, last.old.1), range(first.new.0, last.new.1));
    out.push_str(&format!("@@ -{before} +{after} @@\n"));
    let mut lines = |mark: char, text: &[&str], (from, to): (usize, usize)| {
        for line in text.get(from..to).unwrap_or(&[]) {
            out.push(mark);
            out.push_str(line);
            out.push('\n');
        }
    };
    for part in group {
        if part.equal {
            lines(' ', old, part.old);
        } else {
            lines('-', old, part.old);
            lines('+', new, part.new);
        }
    }
}

/// `start,length` in the format of unified diffs.
fn range(from: usize, to: usize) -> String {
    match to - from {
        1 => (from + 1).to_string(),
        0 => format!("{from},0"),
        length => format!("{},{length}", from + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_member_is_shown_between_its_neighbours() {
        assert_eq!(
            unified(
                r#"{"AccessModes":["ReadWriteOnce"],"Selector":null,"Resources":{"Limits":null},"E":{}}"#,
                r#"{"AccessModes":["ReadWriteMany"],"Selector":null,"Resources":{"Limits":null},"E":{}}"#
            ),
            "@@ -1,6 +1,6 @@\n {\n  \"AccessModes\": [\n-  \"ReadWriteOnce\"\n+  \"ReadWriteMany\"\n  ],\n  \"Selector\": null,\n  \"Resources\": {\n"
        );
    }

    #[test]
    fn distant_changes_form_two_groups() {
        let list = |first: &str, last: &str| {
            let middle = (0..9).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
            format!("[{first},{middle},{last}]")
        };
        assert_eq!(
            unified(&list("\"a\"", "\"b\""), &list("\"x\"", "\"y\"")),
            "@@ -1,5 +1,5 @@\n [\n- \"a\",\n+ \"x\",\n  0,\n  1,\n  2,\n@@ -9,5 +9,5 @@\n  6,\n  7,\n  8,\n- \"b\"\n+ \"y\"\n ]\n"
        );
        assert_eq!(unified("[1]", "[1]"), "");
    }

    #[test]
    fn long_texts_that_differ_in_many_places_take_limited_steps() {
        let text = |from: usize| {
            let items = (from..from + 4_000).map(|n| format!(r#"{{"A":{n},"B":{}}}"#, n % 300));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        };
        let (old, new) = (indent(&text(0)), indent(&text(1_000_000)));
        let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        let mut steps = 0;
        matches(&old, &new, &mut steps);
        assert!(steps < 2 * STEPS_MAX, "{steps} steps");
    }
}
