//! The table of all flags, from `data/flags.txt`: kube-apiserver's names and types, and a few of our own. Parser and help
//! derive from it.

use std::sync::LazyLock;

const FILE: &str = include_str!("../../data/flags.txt");

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// `true` or `false`; the flag alone means `true`.
    Bool,
    /// Any text.
    Text,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// A Go duration: `1m30s`.
    Duration,
    /// An IP address.
    Ip,
    /// Texts, comma separated; the flag may be repeated.
    List,
    /// Texts; the flag may be repeated, and commas belong to the text.
    Values,
    /// Whole numbers, comma separated.
    IntList,
    /// `key=value`, comma separated; the flag may be repeated.
    Map,
}

/// The types: their names in the table, and in help and manual, where a flag that needs no value has none.
const TYPES: [(Type, &str, &str); 10] = [
    (Type::Bool, "bool", ""),
    (Type::Text, "string", "string"),
    (Type::Int, "int", "int"),
    (Type::Float, "float", "float"),
    (Type::Duration, "duration", "duration"),
    (Type::Ip, "ip", "ip"),
    (Type::List, "strings", "strings"),
    (Type::Values, "values", "value"),
    (Type::IntList, "ints", "ints"),
    (Type::Map, "map", "key=value,..."),
];

impl Type {
    /// The name of a value in help and manual; "" for flags that need none.
    pub(crate) fn name(self) -> &'static str {
        TYPES.iter().find(|(known, ..)| *known == self).map_or("", |(_, _, name)| name)
    }
}

/// One flag.
pub(crate) struct Flag {
    /// Name without dashes.
    pub(crate) name: &'static str,
    /// The type of the flag's value.
    pub(crate) type_: Type,
    /// The default value; "" means none.
    pub(crate) default: &'static str,
    /// The flag's help text; `None` if it is only accepted for compatibility and has no effect.
    pub(crate) help: Option<&'static str>,
}

impl Flag {
    /// Parses a row of the table; `None` if it has no known type.
    fn parse(row: &'static str) -> Option<Flag> {
        let (row, help) = row.split_once(" : ").map_or((row, None), |(row, help)| (row, Some(help)));
        let mut words = row.split(' ');
        let (name, type_name) = (words.next()?, words.next()?);
        let (type_, ..) = TYPES.iter().find(|(_, known, _)| *known == type_name)?;
        Some(Flag { name, type_: *type_, default: words.next().unwrap_or(""), help })
    }

    /// The help text.
    pub(crate) fn text(&self) -> &'static str {
        self.help.unwrap_or("Accepted for kube-apiserver's command lines, without effect")
    }
}

/// A section of `--help`.
pub(crate) struct Section {
    /// The section's name, without `flags`.
    pub(crate) name: &'static str,
    /// Its flags, by name.
    pub(crate) flags: Vec<Flag>,
}

/// All sections, in the order in which they are printed: ours, then kube-apiserver's.
pub(crate) static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    let mut sections: Vec<Section> = Vec::new();
    for line in FILE.lines().filter(|line| !line.starts_with('#')) {
        match (line.strip_prefix('['), sections.last_mut()) {
            (Some(name), _) => {
                sections.push(Section { name: name.trim_end_matches(']'), flags: Vec::new() });
            }
            (None, Some(section)) => section.flags.extend(Flag::parse(line)),
            (None, None) => {}
        }
    }
    sections
});

/// All flags.
pub(crate) fn flags() -> impl Iterator<Item = &'static Flag> {
    SECTIONS.iter().flat_map(|section| &section.flags)
}

/// Returns whether a flag is one that kube-apiserver does not have.
pub(crate) fn is_own(name: &str) -> bool {
    SECTIONS.first().is_some_and(|own| own.flags.iter().any(|flag| flag.name == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_valid_unique_and_sorted() {
        let rows = FILE.lines().filter(|line| !line.starts_with(['#', '['])).count();
        assert_eq!(flags().count(), rows);
        for section in SECTIONS.iter() {
            assert!(section.flags.is_sorted_by_key(|flag| flag.name), "{}", section.name);
        }
        let names: std::collections::HashSet<&str> = flags().map(|flag| flag.name).collect();
        assert_eq!(names.len(), rows);
        assert!(is_own("data-dir") && !is_own("secure-port"));
    }
}
