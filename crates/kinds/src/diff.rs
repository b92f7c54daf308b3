//! Unified diffs of texts, as kube-apiserver puts them into messages about forbidden changes.

/// Lines around a change that are shown too.
const CONTEXT: usize = 3;
/// Longest texts that are compared line by line; of longer ones only the ends that are the same are left out.
const COMPARED_LINES_MAX: usize = 2000;

/// One line of the result: kept, removed or added, by its index.
#[derive(Clone, Copy)]
enum Step {
    Keep(usize, usize),
    Remove(usize, usize),
    Add(usize, usize),
}

/// The difference of two texts without file names; empty if there is none.
pub(crate) fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let steps = steps(&old, &new);
    let changed = |s: &Step| !matches!(s, Step::Keep(..));
    let mut out = String::new();
    let mut at = 0;
    while let Some(first) = steps.iter().skip(at).position(changed).map(|p| p + at) {
        let start = first.saturating_sub(CONTEXT).max(at);
        let mut last = first;
        while let Some(next) = steps.iter().skip(last + 1).take(2 * CONTEXT + 1).position(changed) {
            last += next + 1;
        }
        let end = (last + 1 + CONTEXT).min(steps.len());
        hunk(steps.get(start..end).unwrap_or(&[]), &old, &new, &mut out);
        at = end;
    }
    out
}

fn hunk(steps: &[Step], old: &[&str], new: &[&str], out: &mut String) {
    let removed = steps.iter().filter(|s| !matches!(s, Step::Add(..))).count();
    let added = steps.iter().filter(|s| !matches!(s, Step::Remove(..))).count();
    let (from, to) = match steps.first() {
        Some(Step::Keep(a, b) | Step::Remove(a, b) | Step::Add(a, b)) => (*a, *b),
        None => (0, 0),
    };
    out.push_str(&format!("@@ -{} +{} @@\n", range(from, removed), range(to, added)));
    for step in steps {
        let (sign, line) = match step {
            Step::Keep(a, _) => (' ', old.get(*a)),
            Step::Remove(a, _) => ('-', old.get(*a)),
            Step::Add(_, b) => ('+', new.get(*b)),
        };
        out.push(sign);
        out.push_str(line.unwrap_or(&""));
        out.push('\n');
    }
}

fn range(start: usize, length: usize) -> String {
    match length {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        _ => format!("{},{length}", start + 1),
    }
}

/// The longest common subsequence, removals before additions.
fn steps(old: &[&str], new: &[&str]) -> Vec<Step> {
    let same = |i: usize, j: usize| old.get(i).is_some() && old.get(i) == new.get(j);
    let mut head = 0;
    while same(head, head) {
        head += 1;
    }
    let mut tail = 0;
    while tail < old.len().min(new.len()) - head && old.get(old.len() - 1 - tail) == new.get(new.len() - 1 - tail) {
        tail += 1;
    }
    let (rows, columns) = (old.len() - tail, new.len() - tail);
    let mut result: Vec<Step> = (0..head).map(|i| Step::Keep(i, i)).collect();
    if rows.max(columns) - head > COMPARED_LINES_MAX {
        result.extend((head..rows).map(|i| Step::Remove(i, head)));
        result.extend((head..columns).map(|j| Step::Add(rows, j)));
    } else {
        between(head, rows, columns, &same, &mut result);
    }
    result.extend((0..tail).map(|k| Step::Keep(rows + k, columns + k)));
    result
}

fn between(head: usize, rows: usize, columns: usize, same: &dyn Fn(usize, usize) -> bool, result: &mut Vec<Step>) {
    let width = columns - head + 1;
    let mut lengths = vec![0u32; (rows - head + 1) * width];
    let cell = |i: usize, j: usize| (i - head) * width + (j - head);
    let read = |lengths: &[u32], i: usize, j: usize| lengths.get(cell(i, j)).copied().unwrap_or(0);
    for i in (head..rows).rev() {
        for j in (head..columns).rev() {
            let best = if same(i, j) {
                read(&lengths, i + 1, j + 1) + 1
            } else {
                read(&lengths, i + 1, j).max(read(&lengths, i, j + 1))
            };
            if let Some(slot) = lengths.get_mut(cell(i, j)) {
                *slot = best;
            }
        }
    }
    let (mut i, mut j) = (head, head);
    while i < rows || j < columns {
        if i < rows && j < columns && same(i, j) {
            result.push(Step::Keep(i, j));
            (i, j) = (i + 1, j + 1);
        } else if i < rows && (j == columns || read(&lengths, i + 1, j) >= read(&lengths, i, j + 1)) {
            result.push(Step::Remove(i, j));
            i += 1;
        } else {
            result.push(Step::Add(i, j));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn changes_are_shown_with_their_surroundings() {
        let old = "{\n a\n b\n c\n d\n e\n f\n}";
        let new = "{\n a\n b\n c\n x\n e\n f\n}";
        assert_eq!(unified(old, new), "@@ -2,7 +2,7 @@\n  a\n  b\n  c\n- d\n+ x\n  e\n  f\n }\n");
        assert_eq!(unified("a", "a"), "");
        assert_eq!(unified("a\nb", "a"), "@@ -1,2 +1 @@\n a\n-b\n");
    }
}
