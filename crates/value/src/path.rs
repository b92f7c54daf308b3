//! `Path`: where in an object something is, written as Kubernetes writes it (`spec.containers[0].name`).

use crate::Str;
use std::fmt;

/// A path that borrows its parent, so that descending does not allocate.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The object itself.
    pub const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    /// The path of a field of the object, or of a field below it: `spec`, `spec.selector`.
    pub const fn of(name: &'a str) -> Path<'a> {
        Path { parent: None, step: Step::Field(name) }
    }

    /// The path of a field, or of a field below it: `.name`, `.name.name`.
    pub const fn field(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Field(name) }
    }

    /// Appends `[index]`.
    pub const fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    /// `[key]`, as Kubernetes writes an entry of a map
    pub const fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }

    /// Whether this is the object itself.
    pub fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    /// The path as text.
    pub fn to_str(&self) -> Str {
        let mut out = Str::default();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Str) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        match self.step {
            Step::Root => {}
            Step::Field(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Step::Index(index) => {
                out.push('[');
                out.push_str(itoa::Buffer::new().format(index));
                out.push(']');
            }
            Step::Key(key) => {
                out.push('[');
                out.push_str(key);
                out.push(']');
            }
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_kubernetes_writes_it() {
        let containers = Path::of("spec.containers");
        let first = containers.index(0);
        assert_eq!(first.field("name").to_string(), "spec.containers[0].name");
        let labels = Path::ROOT;
        let labels = labels.field("labels");
        assert_eq!(labels.key("a/b").to_string(), "labels[a/b]");
    }
}
