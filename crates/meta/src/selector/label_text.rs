//! The text form of label selectors: a lexer and a parser with the errors of kube-apiserver's.

use super::label::{Operator, Requirement, check_key};
use crate::FieldErrors;
use pintle_value::{Path, Str};

const EXPECTED_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Error,
    End,
    ClosedPar,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    OpenPar,
}

fn parse_keyword(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::ClosedPar,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "in" => Token::In,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "notin" => Token::NotIn,
        "(" => Token::OpenPar,
        _ => return None,
    })
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// The first token of a text, and what follows it. A NUL between tokens ends the text.
fn lex(text: &str) -> (Token, &str, &str) {
    let rest = text.trim_start_matches(is_space);
    let Some(first) = rest.chars().next().filter(|c| *c != '\0') else { return (Token::End, "", "") };
    let (token, literal, used) = if is_symbol(first) { symbol(rest) } else { lex_word(rest) };
    (token, literal, rest.get(used..).unwrap_or(""))
}

fn lex_word(rest: &str) -> (Token, &str, usize) {
    let end = rest.find(|c| c == '\0' || is_symbol(c) || is_space(c)).unwrap_or(rest.len());
    let literal = rest.get(..end).unwrap_or(rest);
    // A NUL that ends a word is consumed with it.
    let used = end.saturating_add(usize::from(rest.get(end..).is_some_and(|r| r.starts_with('\0'))));
    (parse_keyword(literal).unwrap_or(Token::Identifier), literal, used)
}

/// The longest operator at the start of `rest`: reads symbols while they extend it.
fn symbol(rest: &str) -> (Token, &str, usize) {
    let mut found = (Token::Error, 0);
    // Every single symbol is an operator, so the first symbol that does not extend one ends it.
    for (at, _) in rest.char_indices().take_while(|(_, c)| is_symbol(*c)) {
        match parse_keyword(rest.get(..=at).unwrap_or("")) {
            Some(token) => found = (token, at.saturating_add(1)),
            None => break,
        }
    }
    let (token, end) = found;
    // A NUL that ends an operator is consumed with it, too.
    let used = end.saturating_add(usize::from(rest.get(end..).is_some_and(|r| r.starts_with('\0'))));
    (token, rest.get(..end).unwrap_or(""), used.max(1))
}

/// Reads tokens one by one: a list of them would take many times the memory of the text.
struct Parser<'a> {
    /// The current token as it was read.
    current: (Token, &'a str),
    rest: &'a str,
}

/// The requirements in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let (token, literal, rest) = lex(text);
    Parser { current: (token, literal), rest }.run()
}

impl<'a> Parser<'a> {
    /// The current token; `in` and `notin` are ordinary words where values are expected.
    fn current_token(&self) -> (Token, &'a str) {
        match self.current {
            (Token::In | Token::NotIn, literal) => (Token::Identifier, literal),
            other => other,
        }
    }

    fn take(&mut self) -> (Token, &'a str) {
        let taken = self.current_token();
        self.advance();
        taken
    }

    fn advance(&mut self) {
        let (token, literal, rest) = lex(self.rest);
        (self.current, self.rest) = ((token, literal), rest);
    }

    fn run(mut self) -> Result<Vec<Requirement>, String> {
        let mut out = Vec::new();
        loop {
            match self.current_token() {
                (Token::Identifier | Token::Not, _) => {
                    let requirement = self.parse_requirement();
                    out.push(requirement.map_err(|e| format!("unable to parse requirement: {e}"))?);
                    if self.after_requirement()? {
                        return Ok(out);
                    }
                }
                (Token::End, _) => return Ok(out),
                (_, literal) => {
                    return Err(format!("found '{literal}', expected: !, identifier, or 'end of string'"));
                }
            }
        }
    }

    /// Returns whether the text ends here.
    fn after_requirement(&mut self) -> Result<bool, String> {
        match self.take() {
            (Token::End, _) => Ok(true),
            (Token::Comma, _) => match self.current_token() {
                (Token::Identifier | Token::Not, _) => Ok(false),
                (_, literal) => Err(format!("found '{literal}', expected: identifier after ','")),
            },
            (_, literal) => Err(format!("found '{literal}', expected: ',' or 'end of string'")),
        }
    }

    fn parse_requirement(&mut self) -> Result<Requirement, String> {
        let (key, unary) = self.key()?;
        let (operator, values) = match unary {
            Some(operator) => (operator, Vec::new()),
            None => {
                let operator = self.parse_operator()?;
                let mut values = match operator {
                    Operator::In | Operator::NotIn => self.parse_values()?,
                    _ => vec![self.exact_value()?],
                };
                values.sort_unstable();
                values.dedup();
                (operator, values)
            }
        };
        Requirement::new(key, operator, values, None).map_err(|errors| errors.aggregate_message())
    }

    /// Parses the key, and the operator if it is one that takes no values.
    fn key(&mut self) -> Result<(&'a str, Option<Operator>), String> {
        let (mut token, mut literal) = self.take();
        let mut operator = None;
        if token == Token::Not {
            operator = Some(Operator::DoesNotExist);
            (token, literal) = self.take();
        }
        if token != Token::Identifier {
            return Err(format!("found '{literal}', expected: identifier"));
        }
        let mut errors = FieldErrors::new();
        // kube-apiserver passes no path here, and Go prints that as <nil>.
        check_key(literal, &Path::of("<nil>"), &mut errors);
        if !errors.is_empty() {
            return Err(errors.aggregate_message());
        }
        if operator.is_none() && matches!(self.current_token().0, Token::End | Token::Comma) {
            operator = Some(Operator::Exists);
        }
        Ok((literal, operator))
    }

    fn parse_operator(&mut self) -> Result<Operator, String> {
        let (token, literal) = self.current;
        self.advance();
        Ok(match token {
            Token::In => Operator::In,
            Token::NotIn => Operator::NotIn,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::NotEquals => Operator::NotEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            _ => return Err(format!("found '{literal}', expected: {EXPECTED_OPERATORS}")),
        })
    }

    fn parse_values(&mut self) -> Result<Vec<Str>, String> {
        let (token, literal) = self.take();
        if token != Token::OpenPar {
            return Err(format!("found '{literal}' expected: '('"));
        }
        match self.current_token() {
            (Token::Identifier | Token::Comma, _) => {
                let values = self.identifiers()?;
                self.advance();
                Ok(values)
            }
            (Token::ClosedPar, _) => {
                self.advance();
                Ok(vec![Str::default()])
            }
            (_, literal) => Err(format!("found '{literal}', expected: ',', ')' or identifier")),
        }
    }

    /// Parses words and commas up to the closing parenthesis; missing words are empty values.
    fn identifiers(&mut self) -> Result<Vec<Str>, String> {
        let mut out: Vec<Str> = Vec::new();
        loop {
            match self.take() {
                (Token::Identifier, literal) => {
                    out.push(literal.into());
                    match self.current_token() {
                        (Token::Comma, _) => {}
                        (Token::ClosedPar, _) => return Ok(out),
                        (_, literal) => return Err(format!("found '{literal}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    let next = self.current_token().0;
                    if out.is_empty() || matches!(next, Token::ClosedPar | Token::Comma) {
                        out.push(Str::default());
                    }
                    if next == Token::ClosedPar {
                        return Ok(out);
                    }
                }
                (_, literal) => return Err(format!("found '{literal}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<Str, String> {
        match self.current_token().0 {
            Token::End | Token::Comma => Ok(Str::default()),
            token => {
                let (_, literal) = self.take();
                match token {
                    Token::Identifier => Ok(literal.into()),
                    _ => Err(format!("found '{literal}', expected: identifier")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::selector::LabelSelector;

    #[test]
    fn a_long_run_of_symbols_is_read_once() {
        let text = format!("a {}", "!=".repeat(100_000));
        assert!(LabelSelector::parse(&text).is_err());
    }

    fn read(text: &str) -> String {
        LabelSelector::parse(text).map_or_else(|e| e, |s| s.to_string())
    }

    #[test]
    fn texts_are_read_and_written_sorted_by_key() {
        for (text, expected) in [
            ("", ""),
            (" ", ""),
            ("c!=d, a = b", "a=b,c!=d"),
            ("e in (y,x,y),!f,g notin (z),h>1,i<2", "e in (x,y),!f,g notin (z),h>1,i<2"),
            ("x in (),y in (,),z in (a,,b)", "x in (),y in (),z in (,a,b)"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("a==b", "a==b"),
            ("a=,b", "a=,b"),
            ("!a,b", "!a,b"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn errors_read_as_kube_apiserver_writes_them() {
        for (text, expected) in [
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("a==b c", "found 'c', expected: ',' or 'end of string'"),
            ("a=(", "unable to parse requirement: found '(', expected: identifier"),
            ("a in", "unable to parse requirement: found '' expected: '('"),
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (b,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert!(read("a=-x").starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"-x\": a valid label must"
        ));
        assert!(read("-a=x").starts_with(
            "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist"
        ));
        for (text, expected) in [
            ("a\0", "a"),
            ("a=\0b", "a=b"),
            ("a in(\0b,\0c)\0,d", "a in (b,c),d"),
            ("a \0,b", "a"),
            ("!\0a", "!a"),
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
        let _ = read("é in (\u{0}é,)>=");
    }
}
