//! `format.dns1123Label().validate(text)` and similar: named formats and the errors of a text.

pub(super) mod names;

use std::sync::Arc;

use crate::decl::{Function, Overload, declare};
use crate::library::Library;
use crate::library::operand::{Outcome, opaque, own, text};
use crate::types::Type;
use crate::value::{EvalError, Opaque, Value};

/// The name of the type.
pub const FORMAT: &str = "kubernetes.NamedFormat";

/// A format as a value.
#[derive(Debug)]
pub(super) struct Format {
    /// The name; `format.` followed by it is the function that returns the format.
    name: &'static str,
    function: &'static str,
    mistakes: fn(&str) -> Vec<String>,
    /// The length of the format's pattern, for costs.
    pub(super) pattern_size: u64,
    run: for<'a> fn(&[Value<'a>]) -> Outcome<'a>,
}

/// A row of the table of formats.
macro_rules! formats {
    ($(($index:literal, $name:literal, $mistakes:path, $size:literal)),* $(,)?) => {
        [$(Format {
            name: $name,
            function: concat!("format.", $name),
            mistakes: $mistakes,
            pattern_size: $size,
            run: |_| Ok(named($index)),
        }),*]
    };
}

static FORMATS: [Format; 13] = formats![
    (0, "dns1123Label", names::dns1123_label, 30),
    (1, "dns1123Subdomain", names::dns1123_subdomain, 60),
    (2, "dns1035Label", names::dns1035_label, 30),
    (3, "qualifiedName", names::qualified_name, 60),
    (4, "dns1123LabelPrefix", names::dns1123_label_prefix, 30),
    (5, "dns1123SubdomainPrefix", names::dns1123_subdomain_prefix, 60),
    (6, "dns1035LabelPrefix", names::dns1035_label_prefix, 30),
    (7, "labelValue", names::label_value, 40),
    (8, "uri", names::uri, 1103),
    (9, "uuid", names::uuid, 70),
    (10, "byte", names::byte, 84),
    (11, "date", names::date, 71),
    (12, "datetime", names::datetime, 71),
];

/// A format of the table as an opaque value: an index, so that nothing is copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named(usize);

impl Named {
    pub(super) fn format(self) -> Option<&'static Format> {
        FORMATS.get(self.0)
    }
}

impl Opaque for Named {
    fn cel_type(&self) -> Type {
        Type::Object(FORMAT.into())
    }

    fn equals(&self, other: &Value<'_>) -> Result<bool, EvalError> {
        own::<Named>(other).map(|other| self.0 == other.0).ok_or(EvalError::NoSuchOverload)
    }
}

fn named<'a>(index: usize) -> Value<'a> {
    Value::Opaque(Arc::new(Named(index)))
}

/// One function per format, `format.named` and `validate`.
pub fn library() -> Library {
    let format = Type::Object(FORMAT.into());
    let mut functions: Vec<Function> = FORMATS
        .iter()
        .map(|known| {
            Function::new(known.function, [Overload::function(known.function, [], format.clone(), known.run)])
        })
        .collect();
    functions.extend(declare(
        &[("format", format)],
        &[
            ("format.named", "format-named", "(string) -> optional(format)", |args| {
                let name = text(args, 0)?;
                let found = FORMATS.iter().position(|known| known.name == name);
                Ok(found.map_or(Value::Optional(None), |index| Value::some(named(index))))
            }),
            ("validate", "format-validate", "format.(string) -> optional(list(string))", |args| {
                let format = opaque::<Named>(args, 0)?.format().ok_or(EvalError::NoSuchOverload)?;
                let mistakes = (format.mistakes)(text(args, 1)?);
                if mistakes.is_empty() {
                    return Ok(Value::Optional(None));
                }
                Ok(Value::some(Value::list(mistakes.into_iter().map(Value::from).collect())))
            }),
        ],
    ));
    Library { functions, ..Library::default() }
}
