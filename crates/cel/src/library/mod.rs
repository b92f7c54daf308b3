//! Libraries: lists of declarations that an environment takes in. Each module offers `library() -> Library`.

use crate::cost::Estimator;
use crate::decl::Function;
use crate::env::Checked;
use crate::parser::{Macro, macros};
use crate::types::Type;

mod standard;

/// What a library adds to an environment.
#[derive(Clone, Default)]
pub struct Library {
    /// Functions; overloads of one name are put together.
    pub functions: Vec<Function>,
    /// Macros; see `parser::macros` for the known ones.
    pub macros: Vec<Macro>,
    /// Types that an expression can name as values: `net.IP`.
    pub types: Vec<(&'static str, Type)>,
    /// Checks of the typed tree.
    pub validators: Vec<Validator>,
    /// Functions whose list and map arguments may mix types in spite of the validator of homogeneous literals.
    pub mixed_arguments: Vec<&'static str>,
    /// Static costs by the overload's id.
    pub estimators: Vec<(&'static str, Estimator)>,
    /// Whether `a.?b`, `a[?b]`, `{?a: b}` and `[?a]` can be written.
    pub optional_syntax: bool,
}

/// Looks over a typed tree and reports mistakes: the node's id and the message.
pub type Validator = fn(&Checked, &mut dyn FnMut(crate::ast::Id, String));

/// The standard library of the language.
pub(crate) fn standard() -> Library {
    Library { functions: standard::functions(), macros: macros::STANDARD.to_vec(), ..Library::default() }
}

/// What Kubernetes adds to the standard library.
pub(crate) fn kubernetes() -> Vec<Library> {
    vec![
        Library { validators: crate::validate::KUBERNETES.to_vec(), ..Library::default() },
        Library { macros: macros::OPTIONAL.to_vec(), optional_syntax: true, ..Library::default() },
        Library { macros: macros::TWO_VARIABLES.to_vec(), ..Library::default() },
    ]
}
