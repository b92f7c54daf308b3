//! Shard selectors of lists and watches (feature gate ShardedListAndWatch): ranges of the hash of an object's uid or
//! namespace, written as a CEL expression of which only calls of `shardRange` and `||` are allowed.

use pintle_cache::Object;
use pintle_cel::ast::{Expr, ExprKind, Literal, operators};
use pintle_cel::env::Env;
use pintle_kinds::features;
use pintle_meta::Status;
use pintle_value::quote::go_quoted;
use std::ops::Range;

/// The digits of a bound; only 2^64, which is exclusive, has one more.
const DIGITS: usize = 16;
const DIGITS_MAX: usize = DIGITS.saturating_add(1);
const END: &str = "0x10000000000000000";

/// The ranges of a shard selector.
#[derive(Clone)]
pub(crate) struct Shard {
    by: Key,
    ranges: Vec<Range<u128>>,
    text: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Key {
    Uid,
    Namespace,
}

impl Shard {
    /// Parses the selector of a request. Returns `None` if there is none or if the feature gate is off.
    pub(crate) fn of_request(text: &str) -> Result<Option<Shard>, Status> {
        if text.is_empty() || !features::is_enabled("ShardedListAndWatch") {
            return Ok(None);
        }
        let parsed = Shard::parse(text.trim());
        parsed.map(Some).map_err(|why| Status::unclassified(format!("invalid shard selector: {why}")))
    }

    fn parse(text: &str) -> Result<Shard, String> {
        if text.is_empty() {
            return Err(
                "empty shard selector is not allowed; omit the parameter for unfiltered lists".to_string()
            );
        }
        let parsed = Env::bare().parse(text).map_err(|issues| {
            let first = issues.list().first().map_or("", |issue| issue.message.as_str());
            format!("CEL parse error: {first}")
        })?;
        let mut calls = Vec::new();
        collect_calls(&parsed.root, &mut calls)?;
        let first = calls.first().map_or(Key::Uid, |(by, _)| *by);
        if let Some((other, _)) = calls.iter().find(|(by, _)| *by != first) {
            let (first, other) = (go_quoted(first.path()), go_quoted(other.path()));
            return Err(format!("all shard ranges must use the same field, got {first} and {other}"));
        }
        let print = |range: &Range<u128>| {
            format!("shardRange({}, '{:#018x}', '{:#018x}')", first.path(), range.start, range.end)
        };
        let ranges: Vec<Range<u128>> = calls.into_iter().map(|(_, range)| range).collect();
        let text = ranges.iter().map(print).collect::<Vec<String>>().join(" || ");
        Ok(Shard { by: first, ranges, text })
    }

    /// The selector in its canonical notation.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        let value = match self.by {
            Key::Uid => object.uid(),
            Key::Namespace => object.namespace().unwrap_or_default(),
        };
        let hash = u128::from(fnv1a(value));
        self.ranges.iter().any(|range| range.contains(&hash))
    }
}

impl Key {
    fn path(self) -> &'static str {
        match self {
            Key::Uid => "object.metadata.uid",
            Key::Namespace => "object.metadata.namespace",
        }
    }
}

fn collect_calls(expr: &Expr, calls: &mut Vec<(Key, Range<u128>)>) -> Result<(), String> {
    let ExprKind::Call { function, args, .. } = &expr.kind else {
        let kind = kind_number(expr);
        return Err(format!("unexpected expression kind {kind}; expected shardRange() call or || operator"));
    };
    match &**function {
        operators::OR => args.iter().try_for_each(|arg| collect_calls(arg, calls)),
        "shardRange" => {
            calls.push(range_of_call(args)?);
            Ok(())
        }
        other => {
            Err(format!("unsupported function {}; only shardRange() and || are allowed", go_quoted(other)))
        }
    }
}

fn range_of_call(args: &[Expr]) -> Result<(Key, Range<u128>), String> {
    let [path, start, end] = args else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", args.len()));
    };
    let path = field_path(path).map_err(|why| format!("shardRange() first argument: {why}"))?;
    let by = [Key::Uid, Key::Namespace].into_iter().find(|key| key.path() == path).ok_or_else(|| {
        let (uid, namespace) = (Key::Uid.path(), Key::Namespace.path());
        format!("unsupported field path {}; supported: {uid}, {namespace}", go_quoted(&path))
    })?;
    let (start, end) = (bound(start, "hexStart")?, bound(end, "hexEnd")?);
    if start >= end {
        return Err(format!("shard range start {start:#018x} must be less than end {end:#018x}"));
    }
    Ok((by, start..end))
}

fn field_path(expr: &Expr) -> Result<String, String> {
    match &expr.kind {
        ExprKind::Ident(name) => Ok(name.to_string()),
        ExprKind::Select { operand, field, .. } => Ok(format!("{}.{field}", field_path(operand)?)),
        _ => {
            let kind = kind_number(expr);
            Err(format!("expected field path (e.g. object.metadata.uid), got expression kind {kind}"))
        }
    }
}

/// Reads a bound: a string literal of sixteen hexadecimal digits behind `0x`, or 2^64.
fn bound(expr: &Expr, name: &str) -> Result<u128, String> {
    let ExprKind::Literal(literal) = &expr.kind else {
        let kind = kind_number(expr);
        return Err(format!("{name} must be a string literal (e.g. '0xff'), got expression kind {kind}"));
    };
    let Literal::String(text) = literal else {
        return Err(format!("{name} must be a string literal, got {}", go_type(literal)));
    };
    let quoted = go_quoted(text);
    let digits =
        text.strip_prefix("0x").ok_or_else(|| format!("{name} must have '0x' prefix, got {quoted}"))?;
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if digits.len() > DIGITS_MAX {
        let (count, digits) = (digits.len(), go_quoted(digits));
        return Err(format!("{name}: hex value too long ({count} chars, max {DIGITS_MAX}): {digits}"));
    }
    if let Some(other) = digits.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
        return Err(format!(
            "{name}: invalid hex character {} in {quoted}",
            go_quoted(other.encode_utf8(&mut [0; 4]))
        ));
    }
    if digits.len() == DIGITS_MAX && &**text != END {
        return Err(format!("{name}: 17-digit hex value must be '{END}' (2^64), got {quoted}"));
    }
    if digits.len() < DIGITS {
        return Err(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {quoted} (did you mean \"0x{digits:0>16}\"?)"
        ));
    }
    u128::from_str_radix(digits, 16).map_err(|why| why.to_string())
}

/// The number that cel-go assigns to the kind of an expression, which kube-apiserver prints.
fn kind_number(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Call { .. } => 1,
        ExprKind::Comprehension(_) => 2,
        ExprKind::Ident(_) => 3,
        ExprKind::List { .. } => 4,
        ExprKind::Literal(_) => 5,
        ExprKind::Map(_) => 6,
        ExprKind::Select { .. } => 7,
        ExprKind::Struct { .. } => 8,
    }
}

/// The Go type of a literal.
fn go_type(literal: &Literal) -> &'static str {
    match literal {
        Literal::Null => "structpb.NullValue",
        Literal::Bool(_) => "bool",
        Literal::Int(_) => "int64",
        Literal::Uint(_) => "uint64",
        Literal::Double(_) => "float64",
        Literal::String(_) => "string",
        Literal::Bytes(_) => "[]uint8",
    }
}

/// FNV-1a with 64 bits, with which clients and servers divide objects into shards.
fn fnv1a(text: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_have_a_canonical_notation() {
        for (text, expected) in [
            (
                r#" (shardRange(object . metadata.uid, "0x0000000000000000", r'0x00000000000000ff')) "#,
                "shardRange(object.metadata.uid, '0x0000000000000000', '0x00000000000000ff')",
            ),
            (
                "shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')",
                "shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')",
            ),
        ] {
            let got = Shard::parse(text.trim()).map(|shard| shard.text);
            assert_eq!(got.as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn hashes_are_those_of_go() {
        assert_eq!(fnv1a(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a("blue"), 0xc5cc_d29b_c2dd_a64d);
    }
}
