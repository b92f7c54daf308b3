//! Compares the observations of clients with the history in etcd. The functions are pure.
//!
//! Clients know a revision from the moment of the first answer or event that contains it. A write or read that begins
//! later must have the same revision or a newer one; one that ended before a write began must have an older one.

use super::record::{Action, GetOp, History, ListOp, Moment, Outcome, Seen, Session, WatchItem, WriteOp};
use pintle_testkit::etcd::KeyChange;
use std::collections::BTreeMap;

/// The history of the keys in etcd.
pub(crate) struct Truth {
    changes: Vec<Change>,
    by_key: BTreeMap<String, Vec<usize>>,
}

#[derive(Debug, Clone)]
struct Change {
    revision: u64,
    key: String,
    /// The token that was written; `None` for a deletion.
    token: Option<String>,
}

impl Truth {
    pub(crate) fn new(prefix: &str, changes: &[KeyChange]) -> Truth {
        let read = |change: &KeyChange| Change {
            revision: change.revision,
            key: change.key.strip_prefix(prefix).unwrap_or(&change.key).to_owned(),
            token: change.value.as_deref().map(token_in),
        };
        let changes: Vec<Change> = changes.iter().map(read).collect();
        let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, change) in changes.iter().enumerate() {
            by_key.entry(change.key.clone()).or_default().push(index);
        }
        Truth { changes, by_key }
    }

    fn of_key(&self, key: &str) -> impl DoubleEndedIterator<Item = &Change> {
        self.by_key.get(key).into_iter().flatten().map(|index| &self.changes[*index])
    }

    /// The state of a key at a revision.
    fn state(&self, key: &str, revision: u64) -> Option<Seen> {
        let last = self.of_key(key).rev().find(|change| change.revision <= revision)?;
        Some(Seen { token: last.token.clone()?, revision: last.revision })
    }

    fn list(&self, revision: u64) -> BTreeMap<String, Seen> {
        self.by_key.keys().filter_map(|key| Some((key.clone(), self.state(key, revision)?))).collect()
    }

    /// Whether the key was in such a state at one of these revisions.
    fn any_state(&self, key: &str, (from, to): (u64, u64), wanted: impl Fn(Option<&Seen>) -> bool) -> bool {
        let later = self.of_key(key).filter(|change| change.revision > from && change.revision <= to);
        let revisions = std::iter::once(from).chain(later.map(|change| change.revision));
        revisions.into_iter().any(|revision| wanted(self.state(key, revision).as_ref()))
    }
}

/// Tokens are `<writer.number>`.
fn token_in(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let found = text.split('<').skip(1).find_map(|rest| {
        let (token, _) = rest.split_once('>')?;
        token.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then(|| format!("<{token}>"))
    });
    found.unwrap_or_default()
}

/// The revisions that clients know, by moment.
struct Known {
    /// By moment, the highest revision that was known then.
    seen: Vec<(Moment, u64)>,
    /// By the moment at which writes began, the lowest revision of those that began then or later.
    begun: Vec<(Moment, u64)>,
}

impl Known {
    fn new(history: &History) -> Known {
        let mut seen: Vec<(Moment, u64)> = Vec::new();
        let mut begun: Vec<(Moment, u64)> = Vec::new();
        for write in &history.writes {
            if let Outcome::Done(revision @ 1..) = write.outcome {
                seen.push((write.ended, revision));
                begun.push((write.began, revision));
            }
        }
        let gets = history.gets.iter();
        seen.extend(gets.filter_map(|get| Some((get.ended, get.found.as_ref()?.revision))));
        seen.extend(history.lists.iter().map(|list| (list.ended, list.revision)));
        for (item, moment) in history.sessions.iter().flat_map(|session| &session.items) {
            let (WatchItem::Bookmark(revision) | WatchItem::Event(_, _, Seen { revision, .. })) = item;
            seen.push((*moment, *revision));
        }
        seen.sort_unstable();
        let mut highest = 0;
        for (_, revision) in &mut seen {
            highest = highest.max(*revision);
            *revision = highest;
        }
        begun.sort_unstable();
        let mut lowest = u64::MAX;
        for (_, revision) in begun.iter_mut().rev() {
            lowest = lowest.min(*revision);
            *revision = lowest;
        }
        Known { seen, begun }
    }

    /// The revisions that an operation may have.
    fn range(&self, began: Moment, ended: Moment) -> (u64, u64) {
        let before = self.seen.partition_point(|(moment, _)| *moment < began);
        let after = self.begun.partition_point(|(moment, _)| *moment <= ended);
        let from = before.checked_sub(1).map_or(0, |index| self.seen[index].1);
        (from, self.begun.get(after).map_or(u64::MAX, |(_, revision)| revision - 1))
    }
}

/// The observations of clients that contradict the history, one line each.
pub(crate) fn violations(truth: &Truth, history: &History) -> Vec<String> {
    let known = Known::new(history);
    let mut out = Vec::new();
    check_writes(truth, history, &known, &mut out);
    check_changes(truth, history, &mut out);
    check_deletions(truth, history, &mut out);
    for get in &history.gets {
        out.extend(check_get(truth, get, &known));
    }
    for list in &history.lists {
        out.extend(check_list(truth, list, &known));
    }
    for session in &history.sessions {
        out.extend(check_session(truth, session));
    }
    out
}

fn check_writes(truth: &Truth, history: &History, known: &Known, out: &mut Vec<String>) {
    for write in &history.writes {
        let (from, to) = known.range(write.began, write.ended);
        match write.outcome {
            Outcome::Done(0) => {
                let deleted = truth
                    .of_key(&write.key)
                    .any(|change| change.token.is_none() && change.revision > from && change.revision <= to);
                if !deleted {
                    out.push(format!("lost deletion: {write:?} is not in etcd after {from}"));
                }
            }
            Outcome::Done(revision) => {
                let wanted = Seen { token: write.token.clone(), revision };
                if truth.state(&write.key, revision).as_ref() != Some(&wanted) {
                    out.push(format!("lost write: {write:?} is not in etcd"));
                }
                if revision <= from {
                    out.push(format!("write in the past: {write:?} began when {from} was known"));
                }
            }
            Outcome::Refused(status) => {
                if !is_refusal_true(truth, write, status, (from, to)) {
                    out.push(format!(
                        "refused for a state that was not there between {from} and {to}: {write:?}"
                    ));
                }
            }
            Outcome::Unknown => {}
        }
    }
}

/// Whether the key was in the state that the rejection claims.
fn is_refusal_true(truth: &Truth, write: &WriteOp, status: u16, range: (u64, u64)) -> bool {
    match (status, &write.action) {
        (409, Action::Create) => truth.any_state(&write.key, range, |state| state.is_some()),
        (409, Action::CompareAndSet(expected)) => {
            truth.any_state(&write.key, range, |state| state.is_none_or(|seen| seen.revision != *expected))
        }
        (404, Action::Replace | Action::CompareAndSet(_) | Action::Delete) => {
            truth.any_state(&write.key, range, |state| state.is_none())
        }
        _ => true,
    }
}

/// Checks that every change in etcd belongs to one write that may have been executed, once, and on the state that it
/// required.
fn check_changes(truth: &Truth, history: &History, out: &mut Vec<String>) {
    let by_token: BTreeMap<&str, &WriteOp> =
        history.writes.iter().map(|write| (write.token.as_str(), write)).collect();
    let mut carried_out: BTreeMap<&str, u64> = BTreeMap::new();
    for change in &truth.changes {
        // The object that ends the history has no token.
        let Some(token) = change.token.as_deref().filter(|token| !token.is_empty()) else { continue };
        if let Some(earlier) = carried_out.insert(token, change.revision) {
            out.push(format!("carried out twice: {token} at {earlier} and {}", change.revision));
        }
        let Some(write) = by_token.get(token) else {
            out.push(format!("phantom write: nobody wrote {token} that is in etcd at {}", change.revision));
            continue;
        };
        if let Outcome::Refused(_) = write.outcome {
            out.push(format!("phantom write: {write:?} is in etcd at {}", change.revision));
        }
        let before = truth.state(&change.key, change.revision - 1);
        let holds = match &write.action {
            Action::Create => before.is_none(),
            Action::Replace => before.is_some(),
            Action::CompareAndSet(expected) => before.is_some_and(|seen| seen.revision == *expected),
            Action::Delete => false,
        };
        if !holds || write.key != change.key {
            out.push(format!("overwritten unseen: {write:?} at {}", change.revision));
        }
    }
}

fn check_deletions(truth: &Truth, history: &History, out: &mut Vec<String>) {
    for key in truth.by_key.keys() {
        let own = history.writes.iter().filter(|write| write.action == Action::Delete && write.key == *key);
        let (mut done, mut unknown) = (0, 0);
        for write in own {
            match write.outcome {
                Outcome::Done(_) => done += 1,
                Outcome::Unknown => unknown += 1,
                Outcome::Refused(_) => {}
            }
        }
        let carried_out = truth.of_key(key).filter(|change| change.token.is_none()).count();
        if carried_out < done || carried_out > done + unknown {
            out.push(format!(
                "{key}: {carried_out} deletions in etcd, {done} acknowledged, {unknown} of unknown outcome"
            ));
        }
    }
}

fn check_get(truth: &Truth, get: &GetOp, known: &Known) -> Option<String> {
    let range = known.range(get.began, get.ended);
    let shown = truth.any_state(&get.key, range, |state| state == get.found.as_ref());
    (!shown).then(|| format!("stale or phantom read: {get:?} was not so between {} and {}", range.0, range.1))
}

fn check_list(truth: &Truth, list: &ListOp, known: &Known) -> Option<String> {
    let (from, to) = known.range(list.began, list.ended);
    if !list.exact && (list.revision < from || list.revision > to) {
        return Some(format!("stale list: {} though {from} was known (up to {to})", list.revision));
    }
    let wanted = truth.list(list.revision);
    if wanted == list.items {
        return None;
    }
    Some(format!("list at {} shows {:?} in place of {wanted:?}", list.revision, list.items))
}

fn check_session(truth: &Truth, session: &Session) -> Option<String> {
    let watch = || format!("watch {} from {}", session.watcher, session.from);
    let mut expected = truth.changes.iter().filter(|change| change.revision > session.from).peekable();
    for (item, _) in &session.items {
        match item {
            WatchItem::Bookmark(revision) => {
                if let Some(missed) = expected.peek().filter(|next| next.revision <= *revision) {
                    return Some(format!("{}: bookmark {revision} without {missed:?}", watch()));
                }
            }
            WatchItem::Event(kind, key, seen) => {
                let Some(change) = expected.next() else {
                    return Some(format!("{}: {item:?} is not in etcd", watch()));
                };
                let before = truth.state(&change.key, change.revision - 1);
                let (wanted_kind, token) = match (&before, &change.token) {
                    (None, Some(token)) => ("ADDED", token.clone()),
                    (Some(_), Some(token)) => ("MODIFIED", token.clone()),
                    (before, None) => ("DELETED", before.clone().map(|seen| seen.token).unwrap_or_default()),
                };
                let wanted = Seen { token, revision: change.revision };
                // The object that ends the history has no token.
                if kind != wanted_kind
                    || *key != change.key
                    || seen.revision != wanted.revision
                    || (!wanted.token.is_empty() && seen.token != wanted.token)
                {
                    return Some(format!("{}: {item:?} in place of {wanted_kind} {change:?}", watch()));
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(changes: &[(u64, &str, &str)]) -> Truth {
        let changes: Vec<KeyChange> = changes
            .iter()
            .map(|(revision, key, token)| KeyChange {
                revision: *revision,
                key: format!("/p/{key}"),
                value: (!token.is_empty()).then(|| format!("\u{1}{token}\u{2}").into_bytes()),
            })
            .collect();
        Truth::new("/p/", &changes)
    }

    fn write(key: &str, token: &str, action: Action, outcome: Outcome, at: (Moment, Moment)) -> WriteOp {
        WriteOp { key: key.into(), token: token.into(), action, outcome, began: at.0, ended: at.1 }
    }

    fn seen(token: &str, revision: u64) -> Seen {
        Seen { token: token.into(), revision }
    }

    fn event(kind: &str, key: &str, token: &str, revision: u64) -> (WatchItem, Moment) {
        (WatchItem::Event(kind.into(), key.into(), seen(token, revision)), 100)
    }

    /// `a` is created at 5 and replaced at 7, `b` is created at 6 and deleted at 9.
    fn base() -> (Truth, History) {
        let truth = truth(&[(5, "a", "<1.1>"), (6, "b", "<1.2>"), (7, "a", "<1.3>"), (9, "b", "")]);
        let writes = vec![
            write("a", "<1.1>", Action::Create, Outcome::Done(5), (10, 11)),
            write("b", "<1.2>", Action::Create, Outcome::Done(6), (20, 21)),
            write("a", "<1.3>", Action::CompareAndSet(5), Outcome::Done(7), (30, 31)),
            write("b", "", Action::Delete, Outcome::Done(0), (40, 41)),
        ];
        (truth, History { writes, ..History::default() })
    }

    fn check(change: impl FnOnce(&mut History)) -> Vec<String> {
        let (truth, mut history) = base();
        change(&mut history);
        violations(&truth, &history)
    }

    fn found(expected: &str, change: impl FnOnce(&mut History)) {
        let found = check(change);
        assert!(found.iter().any(|line| line.contains(expected)), "no {expected:?} in {found:#?}");
    }

    #[test]
    fn correct_histories_pass() {
        let items = [("a".to_owned(), seen("<1.1>", 5)), ("b".to_owned(), seen("<1.2>", 6))];
        let right = check(|history| {
            history.gets.push(GetOp { key: "b".into(), found: None, began: 50, ended: 51 });
            history.gets.push(GetOp { key: "a".into(), found: Some(seen("<1.1>", 5)), began: 25, ended: 35 });
            let items = items.clone().into_iter().collect();
            history.lists.push(ListOp { revision: 6, exact: false, items, began: 22, ended: 23 });
            let events = vec![
                event("ADDED", "b", "<1.2>", 6),
                event("MODIFIED", "a", "<1.3>", 7),
                (WatchItem::Bookmark(8), 100),
                event("DELETED", "b", "<1.2>", 9),
            ];
            history.sessions.push(Session { watcher: 0, from: 5, items: events });
        });
        assert_eq!(right, Vec::<String>::new());
    }

    #[test]
    fn violations_of_writes_are_found() {
        let add = |write: WriteOp| move |history: &mut History| history.writes.push(write);
        let done = Outcome::Done(8);
        found("lost write", add(write("c", "<2.1>", Action::Create, done, (60, 61))));
        found("write in the past", |history| history.writes[0].began = 45);
        found("phantom write", |history| history.writes[0].outcome = Outcome::Refused(429));
        found("overwritten unseen", |history| history.writes[2].action = Action::CompareAndSet(4));
        found("overwritten unseen", |history| history.writes[2].action = Action::Create);
        found("deletions in etcd", |history| drop(history.writes.pop()));
        found("lost deletion", add(write("a", "", Action::Delete, Outcome::Done(0), (60, 61))));
        let conflict = |action| write("a", "<2.2>", action, Outcome::Refused(409), (60, 61));
        found("refused for a state", add(conflict(Action::CompareAndSet(7))));
        let missing = write("a", "<2.3>", Action::Replace, Outcome::Refused(404), (60, 61));
        found("refused for a state", add(missing));
        let exists = write("b", "<2.4>", Action::Create, Outcome::Refused(409), (60, 61));
        found("refused for a state", |history| {
            // The deletion is known from this list on.
            let items = BTreeMap::from([("a".to_owned(), seen("<1.3>", 7))]);
            history.lists.push(ListOp { revision: 9, exact: false, items, began: 50, ended: 51 });
            history.writes.push(exists);
        });
        let twice = truth(&[(5, "a", "<1.1>"), (6, "a", "<1.1>")]);
        let lines = violations(&twice, &History::default());
        assert!(lines.iter().any(|line| line.contains("carried out twice")), "{lines:?}");
    }

    #[test]
    fn violations_of_reads_are_found() {
        let get = |found, began| GetOp { key: "a".into(), found, began, ended: began + 1 };
        found("stale or phantom read", |history| history.gets.push(get(Some(seen("<1.1>", 5)), 50)));
        found("stale or phantom read", |history| history.gets.push(get(None, 50)));
        found("stale or phantom read", |history| history.gets.push(get(Some(seen("<9.9>", 7)), 50)));
        let list = |revision, exact, began| ListOp {
            revision,
            exact,
            items: BTreeMap::from([("a".to_owned(), seen("<1.3>", 7))]),
            began,
            ended: began + 1,
        };
        found("stale list", |history| history.lists.push(list(6, false, 50)));
        found("stale list", |history| history.lists.push(list(9, false, 25)));
        found("list at 7 shows", |history| history.lists.push(list(7, true, 50)));
        assert_eq!(check(|history| history.lists.push(list(9, true, 50))), Vec::<String>::new());
    }

    #[test]
    fn violations_of_watches_are_found() {
        let session = |items| {
            move |history: &mut History| history.sessions.push(Session { watcher: 0, from: 5, items })
        };
        let b = || event("ADDED", "b", "<1.2>", 6);
        let a = || event("MODIFIED", "a", "<1.3>", 7);
        for (name, items) in [
            ("missed", vec![a()]),
            ("repeated", vec![b(), b()]),
            ("reordered", vec![a(), b()]),
            ("of another type", vec![event("MODIFIED", "b", "<1.2>", 6)]),
            ("another object", vec![event("ADDED", "b", "<1.1>", 6)]),
            ("too early a bookmark", vec![b(), (WatchItem::Bookmark(7), 100)]),
            ("invented", vec![b(), a(), event("DELETED", "b", "<1.2>", 9), event("ADDED", "c", "<3.1>", 10)]),
        ] {
            let found = check(session(items));
            assert!(found.iter().any(|line| line.contains("watch 0 from 5")), "{name}: {found:?}");
        }
    }
}
