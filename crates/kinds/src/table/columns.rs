//! The columns of built-in kinds, from `data/columns.txt`.

use crate::Column;
use pintle_value::Str;
use std::collections::HashMap;
use std::sync::OnceLock;

const COLUMNS: &str = include_str!("../../data/columns.txt");

/// The parsed table: descriptions by name, columns by kind.
struct Loaded {
    texts: HashMap<&'static str, Str>,
    kinds: HashMap<&'static str, Vec<Column>>,
}

/// The columns of a kind, given as group and kind.
pub(super) fn of(kind: &str) -> Vec<Column> {
    loaded_columns().kinds.get(kind).cloned().unwrap_or_default()
}

/// The columns of kinds that have no columns of their own.
pub(super) fn plain() -> Vec<Column> {
    vec![name(), make_column("Created At", "date", described("@age"))]
}

/// The first column of every table.
pub(super) fn name() -> Column {
    Column { format: "name".into(), ..make_column("Name", "string", described("@name")) }
}

/// A shared description.
pub(super) fn described(name: &str) -> Str {
    loaded_columns().texts.get(name).cloned().unwrap_or_default()
}

pub(super) fn make_column(name: &str, type_: &str, description: Str) -> Column {
    Column {
        name: name.into(),
        type_: type_.into(),
        format: Str::default(),
        description,
        priority: 0,
        path: Str::default(),
    }
}

fn loaded_columns() -> &'static Loaded {
    static LOADED: OnceLock<Loaded> = OnceLock::new();
    LOADED.get_or_init(|| load(COLUMNS))
}

fn load(table: &'static str) -> Loaded {
    let mut loaded = Loaded { texts: HashMap::new(), kinds: HashMap::new() };
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        match line.split('\t').collect::<Vec<_>>().as_slice() {
            [key, description] => {
                loaded.texts.insert(key, unescaped(description));
            }
            [kind, name, type_, format, priority, description] => {
                let shared = loaded.texts.get(description).cloned();
                let mut column = make_column(name, type_, shared.unwrap_or_else(|| unescaped(description)));
                column.format = if *format == "-" { Str::default() } else { Str::from(*format) };
                column.priority = priority.parse().unwrap_or(0);
                loaded.kinds.entry(kind).or_default().push(column);
            }
            _ => {}
        }
    }
    loaded
}

/// Line breaks stand in the table as `\n`.
fn unescaped(text: &str) -> Str {
    Str::from(text.replace("\\n", "\n").replace("\\\\", "\\"))
}
