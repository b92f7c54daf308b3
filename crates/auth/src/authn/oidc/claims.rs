//! The claims of a provider's token that are checked, decoded as kube-apiserver's OpenID library does: a value of a wrong type makes
//! the token unusable.

use crate::authn::jwt::json_kind;
use pintle_meta::Timestamp;
use pintle_meta::field::quoted;
use pintle_value::{Str, Value};

/// How far in the future a token's `nbf` may be.
const NOT_BEFORE_LEEWAY_SECONDS: i64 = 60;
/// Seconds from the year 1, where Go's times begin, to 1970.
const UNIX_TO_GO_SECONDS: i64 = 62_135_596_800;

/// The names of the claims below; Go matches them without regard to case.
const NAMES: [&str; 10] =
    ["iss", "sub", "aud", "exp", "iat", "nbf", "nonce", "at_hash", "_claim_names", "_claim_sources"];

/// Claims with a meaning of their own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) issuer: String,
    pub(super) audiences: Vec<String>,
    expiry: Option<i64>,
    not_before: Option<i64>,
}

impl Registered {
    /// Decodes the claims; the error is that of Go's decoder. `repeated` are the keys that come more than once.
    pub(super) fn decode(claims: &Value, repeated: &[Str]) -> Result<Self, String> {
        let mut out = Registered::default();
        let mut seen: Vec<&str> =
            NAMES.into_iter().filter(|name| repeated.iter().any(|key| key == name)).collect();
        for (key, value) in claims.as_object().into_iter().flat_map(|map| map.iter()) {
            let Some(name) = NAMES.into_iter().find(|name| name.eq_ignore_ascii_case(key)) else { continue };
            // Go checks the types of all duplicates and uses the last one. No provider sends duplicates on purpose.
            if seen.contains(&name) {
                return Err(format!("claim {name} is ambiguous"));
            }
            seen.push(name);
            match name {
                "iss" => out.issuer = claim_text(name, value)?,
                "aud" => out.audiences = claim_audiences(value)?,
                "exp" => out.expiry = Some(seconds(name, value)?),
                "nbf" if value.is_null() => {}
                "nbf" => out.not_before = Some(seconds(name, value)?),
                "iat" => _ = seconds(name, value)?,
                "_claim_names" => check_names(value)?,
                "_claim_sources" => check_sources(value)?,
                _ => _ = claim_text(name, value)?,
            }
        }
        Ok(out)
    }

    /// Checks that the token has not ended, and has begun.
    pub(super) fn check_times(&self, now: i64) -> Result<(), String> {
        let in_go = |at: i64| at.wrapping_add(UNIX_TO_GO_SECONDS);
        if self.expiry.is_none_or(|at| in_go(at) <= in_go(now)) {
            let at = self.expiry.map_or("0001-01-01 00:00:00 +0000 UTC".to_string(), go_time);
            return Err(format!("oidc: token is expired (Token Expiry: {at})"));
        }
        match self.not_before {
            Some(at) if in_go(now.saturating_add(NOT_BEFORE_LEEWAY_SECONDS)) < in_go(at) => Err(format!(
                "oidc: current time {} before the nbf (not before) time: {}",
                go_time(now),
                go_time(at)
            )),
            _ => Ok(()),
        }
    }

    /// Checks that the token is for one of these audiences.
    pub(super) fn check_audience(&self, wanted: &[String]) -> Result<(), String> {
        if wanted.iter().any(|audience| self.audiences.contains(audience)) {
            return Ok(());
        }
        let got = go_list(&self.audiences);
        match wanted {
            [one] => Err(format!("oidc: expected audience {} got {got}", quoted(one))),
            many => {
                let mut sorted = many.to_vec();
                sorted.sort();
                Err(format!("oidc: expected audience in {} got {got}", go_list(&sorted)))
            }
        }
    }
}

/// Checks that each distributed claim has a source.
pub(super) fn check_distributed(claims: &Value) -> Result<(), String> {
    let Some(names) = claims.get("_claim_names").and_then(Value::as_object) else { return Ok(()) };
    for (_, source) in names.iter() {
        let source = source.as_str().unwrap_or("");
        if source.is_empty() {
            return Err("oidc: failed to obtain source from claim name".to_string());
        }
        if claims.at(&["_claim_sources", source]).is_none() {
            return Err("oidc: source does not exist".to_string());
        }
    }
    Ok(())
}

fn wrong_field(value: &Value, field: &str, wanted: &str) -> String {
    let kind = json_kind(value);
    format!("json: cannot unmarshal {kind} into Go struct field idToken.{field} of type {wanted}")
}

fn claim_text(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.to_string()),
        Value::Null => Ok(String::new()),
        other => Err(wrong_field(other, name, "string")),
    }
}

fn claim_audiences(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(_) | Value::Null => Ok(vec![claim_text("aud", value)?]),
        Value::Array(all) => all.iter().map(|one| claim_text("aud", one)).collect(),
        other => Err(wrong_field(other, "aud", "[]string")),
    }
}

/// A time in seconds: a number, also as a string. A number that does not fit is converted as on amd64.
fn seconds(name: &str, value: &Value) -> Result<i64, String> {
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked; fractions do not count")]
    let of_float = |at: f64| if at < 9_223_372_036_854_775_808.0 { at as i64 } else { i64::MIN };
    match value {
        Value::Int(at) => Ok(*at),
        Value::Float(at) if at.is_finite() => Ok(of_float(*at)),
        Value::String(text) => {
            let bad = || {
                format!(
                    "json: invalid number literal, trying to unmarshal {} into Number",
                    quoted(&quoted(text))
                )
            };
            match pintle_value::json::parse(text.as_bytes()).map(|parsed| parsed.value) {
                Ok(number @ (Value::Int(_) | Value::Float(_))) if text.trim() == text => {
                    seconds(name, &number)
                }
                _ => Err(bad()),
            }
        }
        Value::Null => Err("strconv.ParseFloat: parsing \"\": invalid syntax".to_string()),
        other => Err(wrong_field(other, name, "json.Number")),
    }
}

fn check_names(value: &Value) -> Result<(), String> {
    match value {
        Value::Null => Ok(()),
        Value::Object(names) => {
            names.iter().try_for_each(|(_, name)| claim_text("_claim_names", name).map(drop))
        }
        other => Err(wrong_field(other, "_claim_names", "map[string]string")),
    }
}

fn check_sources(value: &Value) -> Result<(), String> {
    let fields = ["endpoint", "access_token"];
    let check = |source: &Value| {
        match source {
        Value::Null => Ok(()),
        Value::Object(_) => fields.iter().try_for_each(|field| match source.get(field) {
            None | Some(Value::Null | Value::String(_)) => Ok(()),
            Some(other) => Err(format!(
                "json: cannot unmarshal {} into Go struct field claimSource._claim_sources.{field} of type string",
                json_kind(other)
            )),
        }),
        other => Err(wrong_field(other, "_claim_sources", "oidc.claimSource")),
    }
    };
    match value {
        Value::Null => Ok(()),
        Value::Object(sources) => sources.iter().try_for_each(|(_, source)| check(source)),
        other => Err(wrong_field(other, "_claim_sources", "map[string]oidc.claimSource")),
    }
}

/// A time as Go prints it.
fn go_time(seconds: i64) -> String {
    let text = Timestamp { seconds, nanos: 0 }.rfc3339().to_string();
    format!("{} +0000 UTC", text.trim_end_matches('Z').replace('T', " "))
}

/// Strings in Go's `%q` list format.
pub(super) fn go_list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    const NOW: i64 = 1_800_000_000;

    fn outcome(claims: &str) -> Result<(), String> {
        let parsed = json::parse(claims.as_bytes()).unwrap();
        let registered = Registered::decode(&parsed.value, &parsed.duplicates)?;
        registered.check_audience(&["a".to_string()])?;
        registered.check_times(NOW)
    }

    #[test]
    fn times_as_go_reads_them() {
        for (exp, is_good) in [
            ("1800000001", true),
            ("1800000000", false),
            ("1800000001.9", true),
            ("1.8e9", false),
            ("1.9e9", true),
            ("\"1800000001\"", true),
            ("\" 1800000001\"", false),
            ("\"soon\"", false),
            ("null", false),
            ("true", false),
            ("[1800000001]", false),
            // Times that overflow count as past.
            ("9223372036854775807", false),
            ("9223372036854775808", false),
            ("1e300", false),
            ("253402300800", true),
        ] {
            assert_eq!(outcome(&format!(r#"{{"aud":"a","exp":{exp}}}"#)).is_ok(), is_good, "{exp}");
        }
        for (nbf, is_good) in [
            ("1800000060", true),
            ("1800000061", false),
            ("null", true),
            ("\"x\"", false),
            ("9223372036854775807", true),
        ] {
            let claims = format!(r#"{{"aud":"a","exp":1900000000,"nbf":{nbf}}}"#);
            assert_eq!(outcome(&claims).is_ok(), is_good, "{nbf}");
        }
    }

    #[test]
    fn claims_of_a_wrong_type() {
        for (claims, is_good) in [
            (r#""aud":["b","a"]"#, true),
            (r#""aud":["a",5]"#, false),
            (r#""aud":{"a":1}"#, false),
            (r#""aud":null"#, false),
            (r#""AUD":"a""#, true),
            (r#""aud":"a","Aud":"b""#, false),
            (r#""aud":"a","aud":"a""#, false),
            (r#""aud":"a","x":1,"x":2"#, true),
            (r#""aud":"a","nonce":5"#, false),
            (r#""aud":"a","nonce":null"#, true),
            (r#""aud":"a","at_hash":[]"#, false),
            (r#""aud":"a","iat":"never""#, false),
            (r#""aud":"a","iat":4000000000"#, true),
            (r#""aud":"a","sub":5"#, false),
            (r#""aud":"a","_claim_names":["groups"]"#, false),
            (r#""aud":"a","_claim_names":{"groups":1}"#, false),
            (r#""aud":"a","_claim_sources":{"x":{"endpoint":1}}"#, false),
        ] {
            assert_eq!(outcome(&format!(r#"{{"exp":1900000000,{claims}}}"#)).is_ok(), is_good, "{claims}");
        }
    }
}
