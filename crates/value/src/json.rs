//! JSON as Go's `encoding/json` and `sigs.k8s.io/json` read and write it: same numbers, same escapes, same errors.

mod duplicates;
mod indent;
mod lex;
mod parse;
mod parts;
mod print;

pub use crate::parsed::{ParseError, Parsed};
pub use indent::{Indenter, indent};
pub use parse::{DEPTH_MAX, parse, parse_unbounded};
pub use parts::{Parts, compact, is_compact, values_at_most};
pub use print::{bytes, print, print_pretty, text, write_float, write_int, write_string};

#[cfg(test)]
mod tests;
