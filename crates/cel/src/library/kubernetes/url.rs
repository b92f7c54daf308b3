//! `url()` and the functions of URLs.

pub(super) mod parse;

use std::sync::Arc;

use self::parse::Url;
use crate::decl::declare;
use crate::library::Library;
use crate::library::operand::{opaque, own, text};
use crate::types::Type;
use crate::value::{EvalError, Opaque, Value};

/// The name of the type.
pub const URL: &str = "kubernetes.URL";

impl Opaque for Url {
    fn cel_type(&self) -> Type {
        Type::Object(URL.into())
    }

    fn equals(&self, other: &Value<'_>) -> Result<bool, EvalError> {
        own::<Url>(other).map(|other| self.text == other.text).ok_or(EvalError::NoSuchOverload)
    }

    fn text(&self) -> String {
        self.text.to_string()
    }
}

/// Returns the error of Go's `url.Parse`, if it refuses the text.
pub fn check(text: &str) -> Result<(), String> {
    Url::check(text)
}

/// `url`, `isURL` and the accessors.
pub fn library() -> Library {
    let functions = declare(
        &[("url", Type::Object(URL.into()))],
        &[
            ("url", "string_to_url", "(string) -> url", |args| {
                Url::parse(text(args, 0)?).map(|url| Value::Opaque(Arc::new(url))).map_err(|error| {
                    EvalError::Failed(format!("URL parse error during conversion from string: {error}"))
                })
            }),
            ("isURL", "is_url_string", "(string) -> bool", |args| {
                Ok(Value::Bool(Url::parse_request(text(args, 0)?).is_ok()))
            }),
            ("getScheme", "url_get_scheme", "url.() -> string", |args| {
                Ok(opaque::<Url>(args, 0)?.scheme.clone().into())
            }),
            ("getHost", "url_get_host", "url.() -> string", |args| {
                Ok(opaque::<Url>(args, 0)?.host.clone().into())
            }),
            ("getHostname", "url_get_hostname", "url.() -> string", |args| {
                Ok(opaque::<Url>(args, 0)?.hostname().to_owned().into())
            }),
            ("getPort", "url_get_port", "url.() -> string", |args| {
                Ok(opaque::<Url>(args, 0)?.port().to_owned().into())
            }),
            ("getEscapedPath", "url_get_escaped_path", "url.() -> string", |args| {
                Ok(opaque::<Url>(args, 0)?.escaped_path.clone().into())
            }),
            ("getQuery", "url_get_query", "url.() -> map(string, list(string))", |args| {
                let query = opaque::<Url>(args, 0)?.query().into_iter().map(|(key, values)| {
                    let values = values.into_iter().map(Value::from).collect();
                    (Value::from(key), Value::list(values))
                });
                Ok(Value::map(query.collect()))
            }),
        ],
    );
    Library { functions, ..Library::default() }
}
