//! `--vmodule`: the verbosity of single source files, `pattern=N` with `*` and `?`.

/// The verbosity by file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VModule {
    patterns: Vec<(String, u32)>,
}

/// Why a value of the flag is invalid, with klog's message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum VModuleError {
    /// Not `pattern=number`.
    #[error("\"{0}\" does not have the pattern=N format")]
    Form(String),
    /// The verbosity is not a number.
    #[error("parsing verbosity in \"{0}\": strconv.ParseUint: parsing \"{1}\": invalid syntax")]
    Number(String, String),
}

/// The maximum number of patterns, and of the characters of each.
const PATTERNS_MAX: usize = 1000;
const PATTERN_BYTES_MAX: usize = 256;

impl VModule {
    /// Parses `pattern=N,pattern=N`.
    pub fn parse(text: &str) -> Result<Self, VModuleError> {
        let mut patterns = Vec::new();
        for item in text.split(',').filter(|item| !item.is_empty()).take(PATTERNS_MAX) {
            let form = || VModuleError::Form(item.to_string());
            let (pattern, number) = item.split_once('=').ok_or_else(form)?;
            if pattern.is_empty() || number.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
                return Err(form());
            }
            let verbosity =
                number.parse().map_err(|_| VModuleError::Number(item.to_string(), number.to_string()))?;
            patterns.push((pattern.to_string(), verbosity));
        }
        Ok(VModule { patterns })
    }

    /// The verbosity of a file, by its name without the ending, or by its path for patterns with a slash.
    pub(crate) fn verbosity_of(&self, file: &str) -> Option<u32> {
        if self.patterns.is_empty() {
            return None;
        }
        let path = file.strip_suffix(".rs").unwrap_or(file);
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let fits = |(pattern, _): &&(String, u32)| {
            is_match(pattern.as_bytes(), if pattern.contains('/') { path } else { name }.as_bytes())
        };
        self.patterns.iter().find(fits).map(|(_, verbosity)| *verbosity)
    }

    /// The highest verbosity of any file.
    pub(crate) fn highest(&self) -> u32 {
        self.patterns.iter().map(|(_, verbosity)| *verbosity).max().unwrap_or(0)
    }
}

/// `*` matches any text, `?` any character.
fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at_pattern, mut at_text) = (0, 0);
    // The position of the last `*`, and the end of the text that it matches so far.
    let mut star: Option<(usize, usize)> = None;
    while at_text < text.len() {
        match pattern.get(at_pattern) {
            Some(b'*') => {
                star = Some((at_pattern, at_text));
                at_pattern += 1;
            }
            Some(byte) if *byte == b'?' || text.get(at_text) == Some(byte) => {
                at_pattern += 1;
                at_text += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    at_pattern = at + 1;
                    at_text = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(at_pattern..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_verbosity_of_the_first_pattern_that_fits() {
        let modules = VModule::parse("chain=5,hea*=3,crates/auth/*=7").unwrap();
        for (file, want) in [
            ("crates/http/src/chain.rs", Some(5)),
            ("crates/http/src/health.rs", Some(3)),
            ("crates/auth/src/impersonate.rs", Some(7)),
            ("crates/http/src/route.rs", None),
        ] {
            assert_eq!(modules.verbosity_of(file), want, "{file}");
        }
        assert_eq!(modules.highest(), 7);
    }

    #[test]
    fn wrong_values_are_refused_with_the_texts_of_klog() {
        for (text, want) in [
            ("chain", "\"chain\" does not have the pattern=N format"),
            ("=1", "\"=1\" does not have the pattern=N format"),
            ("a=x", "parsing verbosity in \"a=x\": strconv.ParseUint: parsing \"x\": invalid syntax"),
        ] {
            assert_eq!(VModule::parse(text).unwrap_err().to_string(), want);
        }
    }
}
