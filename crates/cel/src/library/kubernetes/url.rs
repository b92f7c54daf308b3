//! `url()` and the functions of URLs.

pub(super) mod parse;

use std::any::Any;
use std::sync::Arc;

use self::parse::Url;
use crate::decl::{Function, Overload, Run};
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

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns the error of Go's `url.Parse`, if it refuses the text.
pub fn check(text: &str) -> Result<(), String> {
    Url::check(text)
}

/// `url`, `isURL` and the accessors.
pub fn library() -> Library {
    let url = Type::Object(URL.into());
    let get =
        |name, id, run: Run| Function::new(name, [Overload::method(id, [url.clone()], Type::String, run)]);
    Library {
        functions: vec![
            Function::new(
                "url",
                [Overload::function("string_to_url", [Type::String], url.clone(), |args| {
                    Url::parse(text(args, 0)?).map(|url| Value::Opaque(Arc::new(url))).map_err(|error| {
                        EvalError::Failed(format!("URL parse error during conversion from string: {error}"))
                    })
                })],
            ),
            Function::new(
                "isURL",
                [Overload::function("is_url_string", [Type::String], Type::Bool, |args| {
                    Ok(Value::Bool(Url::parse_request(text(args, 0)?).is_ok()))
                })],
            ),
            get("getScheme", "url_get_scheme", |args| Ok(opaque::<Url>(args, 0)?.scheme.clone().into())),
            get("getHost", "url_get_host", |args| Ok(opaque::<Url>(args, 0)?.host.clone().into())),
            get("getHostname", "url_get_hostname", |args| {
                Ok(opaque::<Url>(args, 0)?.hostname().to_owned().into())
            }),
            get("getPort", "url_get_port", |args| Ok(opaque::<Url>(args, 0)?.port().to_owned().into())),
            get("getEscapedPath", "url_get_escaped_path", |args| {
                Ok(opaque::<Url>(args, 0)?.escaped_path.clone().into())
            }),
            Function::new(
                "getQuery",
                [Overload::method(
                    "url_get_query",
                    [url.clone()],
                    Type::map(Type::String, Type::list(Type::String)),
                    |args| {
                        let query = opaque::<Url>(args, 0)?.query().into_iter().map(|(key, values)| {
                            let values = values.into_iter().map(Value::from).collect();
                            (Value::from(key), Value::list(values))
                        });
                        Ok(Value::map(query.collect()))
                    },
                )],
            ),
        ],
        ..Library::default()
    }
}
