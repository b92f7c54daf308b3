//! Libraries: lists of declarations for an environment. Each module has `library() -> Library`; if its functions were
//! added over time, it takes the version, as in cel-go.
//!
//! A function is data: its name, and for each overload an id, the signature, and the implementation.
//!
//! ```
//! use pintle_cel::decl::declare;
//! use pintle_cel::env::Env;
//! use pintle_cel::library::Library;
//! use pintle_cel::value::{EvalError, Value};
//!
//! let functions = declare(&[], &[("twice", "twice_int", "(int) -> int", |args| match args {
//!     [Value::Int(int)] => int.checked_mul(2).map(Value::Int).ok_or(EvalError::Failed("integer overflow".into())),
//!     _ => Err(EvalError::NoSuchOverload),
//! })]);
//! let library = Library { functions, ..Library::default() };
//! let program = Env::standard().with_library(library).compile("twice(21)").unwrap().plan().unwrap();
//! assert_eq!(program.eval(&[], None).result.unwrap().to_string(), "42");
//! ```

pub mod encoders;
pub mod kubernetes;
pub mod lists;
pub mod math;
mod operand;
pub mod optional;
mod price;
pub mod regex;
pub mod sets;
mod string_format;
pub mod strings;
pub mod two_variable;

pub use price::{Pricing, Tracker};

use crate::cost::Estimator;
use crate::decl::Function;
use crate::env::Checked;
use crate::parser::{Macro, macros};
use crate::types::Type;

mod standard;

/// The additions of a library to an environment.
#[derive(Clone, Default)]
pub struct Library {
    /// Functions; overloads of the same name are merged.
    pub functions: Vec<Function>,
    /// Macros; see `parser::macros` for the known ones.
    pub macros: Vec<Macro>,
    /// Types that an expression can use as values: `net.IP`.
    pub types: Vec<(&'static str, Type)>,
    /// Checks of the typed tree.
    pub validators: Vec<Validator>,
    /// Functions whose list and map arguments may mix types in spite of the validator of homogeneous literals.
    pub mixed_arguments: Vec<&'static str>,
    /// Static costs by the overload's id.
    pub estimators: Vec<(&'static str, Estimator)>,
    /// Actual costs by the overload's id; they take precedence over all others.
    pub trackers: Vec<(&'static str, Tracker)>,
    /// Actual costs by function, used after `trackers`.
    pub pricing: Option<Pricing>,
    /// Whether `a.?b`, `a[?b]`, `{?a: b}` and `[?a]` are allowed.
    pub optional_syntax: bool,
}

/// Checks a typed tree and reports errors: the node's id and the message.
pub type Validator = fn(&Checked, &mut dyn FnMut(crate::ast::Id, String));

/// The standard library of the language.
pub(crate) fn standard() -> Library {
    Library { functions: standard::functions(), macros: macros::STANDARD.to_vec(), ..Library::default() }
}

/// `cel.bind`, which Kubernetes has only for device selectors.
pub fn bindings() -> Library {
    Library { macros: macros::BINDINGS.to_vec(), ..Library::default() }
}

/// `cel.block` and its variables by number, which Kubernetes does not have.
pub fn blocks() -> Library {
    Library { macros: macros::BLOCKS.to_vec(), ..Library::default() }
}

/// The libraries that Kubernetes 1.36 adds to the standard library.
pub(crate) fn kubernetes() -> Vec<Library> {
    let mut libraries = vec![
        Library {
            functions: vec![standard::whole_milliseconds()],
            validators: crate::validate::KUBERNETES.to_vec(),
            ..Library::default()
        },
        optional::library(u32::MAX),
        strings::library(2),
        sets::library(),
        two_variable::library(),
        lists::library(3),
    ];
    libraries.extend(kubernetes::libraries());
    libraries
}
