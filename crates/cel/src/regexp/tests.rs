//! Compares both engines with recorded results of Go's `regexp`.

use super::*;
use pintle_value::{Value, json};

/// Patterns and inputs with Go's results, written by `scripts/regexp-cases.go`. Each line is a list: the pattern and the
/// error, or the pattern, its number of groups, and inputs with the positions of the first match and its groups.
const CASES: &str = include_str!("../../tests/data/regexp-cases.jsonl");

/// One result in the form of the recording: positions of groups one after another, -1 for groups that did not
/// participate.
fn places(found: Option<Captures>, groups: usize) -> Vec<i64> {
    let Some(found) = found else { return Vec::new() };
    let group = |group| found.get(group).map_or([-1, -1], |at| [at.start as i64, at.end as i64]);
    (0..=groups.min(wide::GROUPS_MAX - 1)).flat_map(group).collect()
}

fn check_inputs(pattern: &str, expected_groups: i64, inputs: &[Value]) -> usize {
    let Parsed { tree, groups } = parse::parse(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
    assert_eq!(i64::from(groups), expected_groups, "{pattern}");
    let groups = groups as usize;
    let automaton = automaton::build(&tree).map(|regex| Regex { engine: Engine::Automaton(regex), groups });
    let wide = Regex { engine: Engine::Wide(wide::Program::of(&tree)), groups };
    for input in inputs {
        let [Value::String(text), Value::Array(expected)] = input.as_array().unwrap() else {
            panic!("{input:?}")
        };
        let mut expected: Vec<i64> = expected.iter().filter_map(Value::as_int).collect();
        expected.truncate(2 * wide::GROUPS_MAX);
        for regex in automaton.iter().chain([&wide]) {
            let engine = if matches!(regex.engine, Engine::Wide(_)) { "wide" } else { "automaton" };
            assert_eq!(places(regex.captures(text), groups), expected, "{pattern} in {text:?} ({engine})");
            assert_eq!(regex.is_match(text), !expected.is_empty(), "{pattern} in {text:?} ({engine})");
            assert_eq!(regex.find(text).is_some(), !expected.is_empty(), "{pattern} in {text:?} ({engine})");
        }
    }
    inputs.len()
}

#[test]
fn patterns_answer_as_go_does() {
    let (mut accepted, mut refused, mut answers) = (0, 0, 0);
    for line in CASES.lines() {
        let case = json::parse(line.as_bytes()).unwrap().value;
        match case.as_array().unwrap() {
            [Value::String(pattern), Value::String(why)] => {
                refused += 1;
                assert_eq!(error(pattern).as_deref(), Some(why.as_str()), "{pattern}");
            }
            [Value::String(pattern), Value::Int(groups), Value::Array(inputs)] => {
                accepted += 1;
                answers += check_inputs(pattern, *groups, inputs);
            }
            _ => panic!("{line}"),
        }
    }
    assert!(accepted >= 5000 && refused >= 500 && answers >= 15_000, "{accepted} {refused} {answers}");
}

#[test]
fn syntax_of_later_versions_of_go_is_accepted() {
    for (pattern, text, expected) in [
        (r"^(?<name>a)(?P<name>b)$", "ab", true),
        (r"^\p{Letter}\p{uppercase letter}\p{Cn}?\p{LC}$", "aBc", true),
        (r"^\p{greek}\P{Any}?$", "α", true),
        (r"^\p{Assigned}\p{ASCII}$", "éa", true),
        (r"(?i)^\p{ascii}$", "\u{212A}", true),
        (r"^\p{ASCII}$", "\u{212A}", false),
    ] {
        assert_eq!(error(pattern), None, "{pattern}");
        assert_eq!(is_match(pattern, text), expected, "{pattern}");
    }
}

#[test]
fn large_patterns_that_go_accepts_compile() {
    let letters = "é".repeat(1000);
    for pattern in [
        r"^\p{L}{1000}$".to_owned(),
        r"^(?i:[\p{L}\p{N}_]{1,1000})$".to_owned(),
        format!("^(?:{}){{1,9}}$", r"\p{L}".repeat(1000)),
        format!("^{}é+{}$", "(".repeat(900), ")".repeat(900)),
    ] {
        assert!(is_match(&pattern, &letters), "{}", &pattern[..20]);
        assert!(!is_match(&pattern, "-"), "{}", &pattern[..20]);
    }
    for (pattern, why) in [
        ("(".repeat(1001) + &")".repeat(1001), "expression nests too deeply"),
        (r"(?:x{1000}y{1000}z{1000}){1}".repeat(1200), "expression too large"),
    ] {
        assert_eq!(error(&pattern), Some(format!("error parsing regexp: {why}: `{pattern}`")));
    }
}

#[test]
fn matches_follow_each_other_as_in_go() {
    for (pattern, text, expected) in [
        ("a*", "baac", &[0..0, 1..3, 4..4][..]),
        ("", "aé", &[0..0, 1..1, 3..3]),
        (r"\B", "aéb", &[]),
        (r"a|\b", "aa b", &[0..1, 1..2, 3..3, 4..4]),
    ] {
        let Parsed { tree, .. } = parse::parse(pattern).unwrap();
        for engine in [Engine::of(&tree), Engine::Wide(wide::Program::of(&tree))] {
            let regex = Regex { engine, groups: 0 };
            let found: Vec<_> = regex.captures_iter(text).map(|found| found.whole()).collect();
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }
}
