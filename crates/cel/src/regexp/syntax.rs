//! What Go's regular expressions do not take, as far as a look at brackets and repetitions tells.

/// What is wrong with a pattern, in Go's words.
pub fn error(pattern: &str) -> Option<String> {
    let mut scan = Scan { pattern, at: 0, open: 0, repeatable: false, repeated_from: None };
    while let Some(c) = scan.peek() {
        if let Some(why) = scan.step(c) {
            return Some(why);
        }
    }
    (scan.open > 0).then(|| format!("missing closing ): `{pattern}`"))
}

struct Scan<'a> {
    pattern: &'a str,
    at: usize,
    /// How many groups are open.
    open: usize,
    /// Whether a repetition may follow.
    repeatable: bool,
    /// Where the repetition that was just read begins.
    repeated_from: Option<usize>,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a str {
        self.pattern.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Reads what begins with `c`; answers with what is wrong with it.
    fn step(&mut self, c: char) -> Option<String> {
        let repeated_from = self.repeated_from.take();
        match c {
            '\\' => return self.escape(),
            '[' => return self.class(),
            '(' => return self.group(),
            ')' => {
                if self.open == 0 {
                    return Some(format!("unexpected ): `{}`", self.pattern));
                }
                self.open -= 1;
                self.at += 1;
                self.repeatable = true;
            }
            '*' | '+' | '?' => return self.repetition(repeated_from),
            '|' => {
                self.at += 1;
                self.repeatable = false;
            }
            _ => {
                self.at += c.len_utf8();
                self.repeatable = true;
            }
        }
        None
    }

    fn repetition(&mut self, repeated_from: Option<usize>) -> Option<String> {
        let start = self.at;
        self.at += 1;
        if !self.repeatable {
            return Some(format!(
                "missing argument to repetition operator: `{}`",
                self.pattern.get(start..self.at)?
            ));
        }
        if self.peek() == Some('?') {
            self.at += 1;
        }
        if let Some(from) = repeated_from {
            return Some(format!(
                "invalid nested repetition operator: `{}`",
                self.pattern.get(from..self.at)?
            ));
        }
        self.repeated_from = Some(start);
        None
    }

    fn escape(&mut self) -> Option<String> {
        self.at += 1;
        let Some(c) = self.peek() else {
            return Some("trailing backslash at end of expression: ``".to_string());
        };
        self.at += c.len_utf8();
        self.repeatable = true;
        let known = "aftnrvdDsSwWbBAzCQEpPx01234567".contains(c)
            || !(c.is_ascii_alphanumeric() || c == '_') && c.is_ascii();
        (!known).then(|| format!("invalid escape sequence: `\\{c}`"))
    }

    fn class(&mut self) -> Option<String> {
        let start = self.at;
        self.at += 1;
        if self.peek() == Some('^') {
            self.at += 1;
        }
        let mut first = true;
        while let Some(c) = self.peek() {
            if c == ']' && !first {
                self.at += 1;
                self.repeatable = true;
                return None;
            }
            first = false;
            if c == '[' && self.rest().starts_with("[:") {
                self.at += self.rest().find(":]").map_or(1, |end| end + 2);
            } else if c == '\\' {
                if let Some(why) = self.escape() {
                    return Some(why);
                }
            } else {
                self.at += c.len_utf8();
            }
        }
        Some(format!("missing closing ]: `{}`", self.pattern.get(start..)?))
    }

    fn group(&mut self) -> Option<String> {
        self.open += 1;
        self.at += 1;
        self.repeatable = false;
        let rest = self.rest().strip_prefix('?')?;
        let named = ["P<", "<"].into_iter().find_map(|open| rest.strip_prefix(open));
        if let Some(name) = named.filter(|name| !name.starts_with(['=', '!'])) {
            let length = name.find('>').map_or(name.len(), |end| end + 1);
            self.at += 1 + (rest.len() - name.len()) + length;
            return None;
        }
        let flags = rest.find(|c: char| !matches!(c, 'i' | 'm' | 's' | 'U' | '-')).unwrap_or(rest.len());
        match rest.get(flags..).and_then(|after| after.chars().next()) {
            Some(':') => self.at += flags + 2,
            Some(')') => {
                self.at += flags + 2;
                self.open -= 1;
            }
            next => {
                let length = 1 + flags + next.map_or(0, char::len_utf8);
                return Some(format!(
                    "invalid or unsupported Perl syntax: `({}`",
                    self.rest().get(..length)?
                ));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_go_does_not_take() {
        let cases = [
            ("^[a-z]([-a-z0-9]*[a-z0-9])?$", None),
            (r"^\d{1,3}(?:\.\d+)?(?P<x>[[:alpha:]]]*)(?i)x$", None),
            ("a(b", Some("missing closing ): `a(b`")),
            ("a)b", Some("unexpected ): `a)b`")),
            ("^(?!x)", Some("invalid or unsupported Perl syntax: `(?!`")),
            ("a[b", Some("missing closing ]: `[b`")),
            ("*a", Some("missing argument to repetition operator: `*`")),
            ("a**", Some("invalid nested repetition operator: `**`")),
            (r"\k", Some(r"invalid escape sequence: `\k`")),
        ];
        for (pattern, expected) in cases {
            assert_eq!(error(pattern).as_deref(), expected, "{pattern}");
        }
    }
}
