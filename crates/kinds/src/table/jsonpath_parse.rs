//! Parses JSONPath as client-go does, including its quirks.

use super::jsonpath::{Slice, Step};
use pintle_value::{Str, Value};

/// The deepest nesting of unions and filters.
const NESTING_MAX: usize = 16;

/// Parses a path without the braces around it into one list of steps per action; `None` if it is invalid.
pub(super) fn parse(path: &str) -> Option<Vec<Vec<Step>>> {
    template(&format!("{{{path}}}"), 0)
}

/// Parses actions in braces and the text between them.
fn template(text: &str, nesting: usize) -> Option<Vec<Vec<Step>>> {
    if nesting > NESTING_MAX {
        return None;
    }
    let mut actions = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some(brace) = rest.find('{') else {
            actions.push(vec![Step::Literal(rest.into())]);
            break;
        };
        let (before, action) = rest.split_at(brace);
        if !before.is_empty() {
            actions.push(vec![Step::Literal(before.into())]);
        }
        let mut parser = Parser { rest: action.get(1..)?, steps: Vec::new(), nesting };
        parser.action()?;
        actions.push(parser.steps);
        rest = parser.rest;
    }
    Some(actions)
}

/// The steps of a part in brackets.
fn part(text: &str, nesting: usize) -> Option<Vec<Step>> {
    template(&format!("{{{text}}}"), nesting.saturating_add(1))?.into_iter().next()
}

struct Parser<'a> {
    rest: &'a str,
    steps: Vec<Step>,
    nesting: usize,
}

impl<'a> Parser<'a> {
    /// Parses up to the closing brace.
    fn action(&mut self) -> Option<()> {
        loop {
            if let Some(rest) = self.rest.strip_prefix('}') {
                self.rest = rest;
                return Some(());
            }
            if let Some(rest) = self.rest.strip_prefix("[?(") {
                self.rest = rest;
                self.filter()?;
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix("..") {
                self.rest = rest;
                self.parse_recursive()?;
                continue;
            }
            let next = self.rest.chars().next()?;
            match next {
                ' ' | '@' | '$' => self.advance(1),
                '[' => self.brackets()?,
                '"' | '\'' => self.quoted(next)?,
                '.' => {
                    self.advance(1);
                    self.field();
                }
                '+' | '-' => self.parse_number()?,
                _ if next.is_ascii_digit() => self.parse_number()?,
                _ if next == '_' || next.is_alphanumeric() => self.parse_word(),
                _ => return None,
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
    }

    /// Takes the bytes before `end`.
    fn take(&mut self, end: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn parse_recursive(&mut self) -> Option<()> {
        if self.steps.last() == Some(&Step::Recursive) {
            return None;
        }
        self.steps.push(Step::Recursive);
        if self.rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
            self.field();
        }
        Some(())
    }

    /// Consumes a name up to the next terminator; a backslash escapes the next character.
    fn field(&mut self) {
        let mut end = self.rest.len();
        let mut chars = self.rest.char_indices();
        while let Some((at, char)) = chars.next() {
            if char == '\\' {
                chars.next();
            } else if is_terminator(char) {
                end = at;
                break;
            }
        }
        let step = match self.take(end) {
            "*" => Step::Wildcard,
            name => Step::Field(Str::from(name.replace('\\', ""))),
        };
        self.steps.push(step);
    }

    fn parse_word(&mut self) {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let step = match self.take(end) {
            "true" => Step::Literal(Value::Bool(true)),
            "false" => Step::Literal(Value::Bool(false)),
            _ => Step::Word,
        };
        self.steps.push(step);
    }

    fn parse_number(&mut self) -> Option<()> {
        let digits = self.rest.get(1..)?.find(|c: char| c != '.' && !c.is_ascii_digit());
        let text = self.take(digits.map_or(self.rest.len(), |end| end.saturating_add(1)));
        let value = match text.parse::<i64>() {
            Ok(int) => Value::Int(int),
            Err(_) => Value::Float(text.parse().ok()?),
        };
        self.steps.push(Step::Literal(value));
        Some(())
    }

    /// Consumes a quoted string with backslash escapes.
    fn quoted(&mut self, quote: char) -> Option<()> {
        let mut end = 1_usize;
        loop {
            end = self.rest.get(end..)?.find(['\n', quote])?.checked_add(end)?.checked_add(1)?;
            let taken = self.rest.get(..end)?;
            if taken.ends_with('\n') {
                return None;
            }
            if taken.as_bytes().get(end.saturating_sub(2)) != Some(&b'\\') {
                break;
            }
        }
        let text = self.take(end);
        let inner = text.get(1..text.len().saturating_sub(1))?;
        self.steps.push(Step::Literal(Value::String(Str::from(unquoted(inner)?))));
        Some(())
    }

    /// An index, slice, name or union in brackets.
    fn brackets(&mut self) -> Option<()> {
        let end = self.rest.find(['\n', ']']).filter(|end| self.rest.as_bytes().get(*end) == Some(&b']'))?;
        let inner = self.take(end.saturating_add(1)).get(1..end)?;
        let inner = if inner == "*" { ":" } else { inner };
        if inner.contains(',') {
            let parts =
                inner.split(',').map(|text| part(&format!("[{}]", text.trim_matches(' ')), self.nesting));
            self.steps.push(Step::Union(parts.collect::<Option<_>>()?));
            return Some(());
        }
        let name =
            inner.strip_prefix('\'').and_then(|inner| inner.strip_suffix('\'')).filter(|n| !n.contains('\''));
        match name {
            Some(name) => self.steps.extend(part(&format!(".{name}"), self.nesting)?),
            None => self.steps.push(Step::Slice(slice(inner)?)),
        }
        Some(())
    }

    /// Consumes a filter whose opening has been consumed.
    fn filter(&mut self) -> Option<()> {
        let end = filter_end(self.rest)?;
        let text = self.take(end);
        self.rest = self.rest.strip_prefix(")]")?;
        let step = match comparison(text) {
            None => Step::Exists(part(text, self.nesting)?),
            Some((left, operator, right)) => Step::Filter {
                left: part(left, self.nesting)?,
                operator: operator.into(),
                right: part(right, self.nesting)?,
            },
        };
        self.steps.push(step);
        Some(())
    }
}

/// The end of a filter's parenthesis, which is not inside its quoted string.
fn filter_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut closed = false;
    let mut before = '(';
    for (at, char) in text.char_indices() {
        match char {
            '\n' => return None,
            '"' | '\'' => match quote {
                None => quote = Some(char),
                Some(open) => closed |= before != '\\' && open == char,
            },
            ')' if quote.is_some() == closed => return Some(at),
            _ => {}
        }
        before = char;
    }
    None
}

/// Splits a comparison into left side, operator and right side.
fn comparison(text: &str) -> Option<(&str, &str, &str)> {
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let start = text.find(is_operator).filter(|start| *start > 0)?;
    let after = text.get(start..)?;
    let length = after.find(|c| !is_operator(c)).unwrap_or(after.len());
    // Something must remain for the right side, if necessary a part of the operator.
    let length = if length == after.len() { length.saturating_sub(1) } else { length };
    let (operator, right) = after.split_at_checked(length).filter(|(operator, _)| !operator.is_empty())?;
    Some((text.get(..start)?, operator, right))
}

/// `from:to:step`, each of them optional.
fn slice(text: &str) -> Option<Slice> {
    let mut parts = text.split(':');
    let mut number = || match parts.next() {
        None => Some(None),
        Some("") => Some(Some(None)),
        Some(digits) if digits.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse().ok().map(|number: i64| Some(Some(number)))
        }
        Some(_) => None,
    };
    let (from, to, step) = (number()?.flatten(), number()?, number()?.flatten());
    if parts.next().is_some() {
        return None;
    }
    Some(Slice { from, to: to.flatten(), single: to.is_none(), step })
}

fn is_terminator(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Resolves the escapes of a quoted string.
fn unquoted(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.push(char);
            continue;
        }
        out.push(match chars.next()? {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            plain @ ('\\' | '\'' | '"') => plain,
            'x' => code(&mut chars, 2)?,
            'u' => code(&mut chars, 4)?,
            'U' => code(&mut chars, 8)?,
            _ => return None,
        });
    }
    Some(out)
}

/// The character given by so many hexadecimal digits.
fn code(chars: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let digits: String = chars.take(digits).collect();
    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)
}
