//! Macros: calls that the parser rewrites.

/// A macro.
#[derive(Clone, Copy)]
pub struct Macro {
    /// The function's name.
    pub name: &'static str,
    /// Number of arguments; none for any number.
    pub args: Option<usize>,
    /// Whether it is written with a dot.
    pub receiver: bool,
}

/// has, all, exists, exists_one, existsOne, map, filter
pub const STANDARD: &[Macro] = &[];
/// all, exists, existsOne, transformList, transformMap, transformMapEntry over two variables
pub const TWO_VARIABLES: &[Macro] = &[];
/// cel.bind
pub const BINDINGS: &[Macro] = &[];
/// optMap, optFlatMap
pub const OPTIONAL: &[Macro] = &[];
/// sortBy
pub const LISTS: &[Macro] = &[];
/// math.greatest, math.least
pub const MATH: &[Macro] = &[];
