//! Static tokens from a CSV file: `token,user,uid,"group1,group2"`, parsed as Go's CSV reader does.

use crate::UserInfo;
use std::collections::HashMap;
use std::sync::Arc;

/// Static tokens and their users.
#[derive(Default)]
pub struct TokenFile(HashMap<String, Arc<UserInfo>>);

/// A record of the file is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// A record has fewer columns than token, user and uid.
    #[error("must have at least 3 columns (token, user name, user uid), found {0}")]
    TooFewColumns(usize),
    /// A quote is out of place.
    #[error("{0}")]
    Quote(QuoteError),
}

/// The position of a misplaced quote. Columns count bytes.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}parse error on line {line}, column {column}: {why}", self.read_record())]
pub struct QuoteError {
    start_line: usize,
    line: usize,
    column: usize,
    why: &'static str,
}

impl QuoteError {
    fn read_record(&self) -> String {
        if self.start_line == self.line {
            String::new()
        } else {
            format!("record on line {}; ", self.start_line)
        }
    }
}

const BARE_QUOTE: &str = "bare \" in non-quoted-field";
const MISSING_QUOTE: &str = "extraneous or missing \" in quoted-field";

impl TokenFile {
    /// Reads the text of a token file.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut users = HashMap::new();
        let mut reader = Reader::new(text);
        while let Some(record) = reader.read_record().map_err(TokenFileError::Quote)? {
            let [token, name, uid, rest @ ..] = record.as_slice() else {
                return Err(TokenFileError::TooFewColumns(record.len()));
            };
            if token.is_empty() {
                tracing::warn!("an empty token has been found in the token file");
                continue;
            }
            let groups = rest.first().map(|groups| groups.split(',').map(str::to_string).collect());
            let user = UserInfo {
                name: name.clone(),
                uid: uid.clone(),
                groups: groups.unwrap_or_default(),
                ..UserInfo::default()
            };
            users.insert(token.clone(), Arc::new(user.with_authenticated_group()));
        }
        Ok(TokenFile(users))
    }

    /// The user of a token, groups completed.
    pub fn get(&self, token: &str) -> Option<&Arc<UserInfo>> {
        self.0.get(token)
    }
}

/// Reads records; a quoted column may span several lines.
struct Reader<'a> {
    lines: std::str::SplitInclusive<'a, char>,
    line: usize,
}

/// A place in a line.
struct Cursor {
    line: String,
    at: usize,
}

impl Cursor {
    fn rest(&self) -> &str {
        self.line.get(self.at..).unwrap_or("")
    }

    fn skip(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    /// The column `ahead` bytes further, counted from 1.
    fn column(&self, ahead: usize) -> usize {
        self.at.saturating_add(ahead).saturating_add(1)
    }
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Reader { lines: text.split_inclusive('\n'), line: 0 }
    }

    /// The next line with its line end, which is always `\n`.
    fn next_line(&mut self) -> Option<Cursor> {
        let line = self.lines.next()?;
        self.line = self.line.saturating_add(1);
        let line = match (line.strip_suffix("\r\n"), line.strip_suffix('\r')) {
            (Some(text), _) => format!("{text}\n"),
            // Only the last line may lack a line end.
            (None, Some(text)) => text.to_string(),
            (None, None) => line.to_string(),
        };
        Some(Cursor { line, at: 0 })
    }

    fn read_record(&mut self) -> Result<Option<Vec<String>>, QuoteError> {
        let mut cursor = loop {
            match self.next_line() {
                None => return Ok(None),
                Some(cursor) if matches!(cursor.rest(), "\n" | "") => {}
                Some(cursor) => break cursor,
            }
        };
        let start_line = self.line;
        let mut columns = Vec::new();
        loop {
            if cursor.rest().starts_with('"') {
                cursor.skip(1);
                let (column, is_last) = self.quoted(&mut cursor, start_line)?;
                columns.push(column);
                if is_last {
                    return Ok(Some(columns));
                }
                continue;
            }
            let (field, is_last) = match cursor.rest().split_once(',') {
                Some((field, _)) => (field, false),
                None => (cursor.rest().trim_end_matches('\n'), true),
            };
            if let Some(quote) = field.find('"') {
                let column = cursor.column(quote);
                return Err(QuoteError { start_line, line: self.line, column, why: BARE_QUOTE });
            }
            let bytes = field.len();
            columns.push(field.to_string());
            if is_last {
                return Ok(Some(columns));
            }
            cursor.skip(bytes.saturating_add(1));
        }
    }

    /// Reads a column after its opening quote, and returns whether the record ends with it. Two quotes stand for one.
    fn quoted(&mut self, cursor: &mut Cursor, start_line: usize) -> Result<(String, bool), QuoteError> {
        let fault = |line, column| QuoteError { start_line, line, column, why: MISSING_QUOTE };
        let mut out = String::new();
        loop {
            let Some((part, behind)) = cursor.rest().split_once('"') else {
                out.push_str(cursor.rest());
                let end = cursor.column(cursor.rest().len());
                *cursor = self.next_line().ok_or_else(|| fault(self.line, end))?;
                continue;
            };
            out.push_str(part);
            let next = behind.bytes().next();
            let bytes = part.len().saturating_add(1);
            cursor.skip(bytes);
            match next {
                Some(b'"') => {
                    out.push('"');
                    cursor.skip(1);
                }
                Some(b',') => {
                    cursor.skip(1);
                    return Ok((out, false));
                }
                None | Some(b'\n') => return Ok((out, true)),
                // The column of the quote itself.
                Some(_) => return Err(fault(self.line, cursor.at)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_token_file() {
        let file = TokenFile::parse(
            "t1,alice,a,dev\r\n\nt2,\"bob \"\"b\"\"\",b,\"g1,g2\"\n,nobody,n\nt3,carl,c\nt5,\"two\nlines\",u,",
        )
        .unwrap();
        let groups = |token| file.get(token).map(|u| (u.name.as_str(), u.groups.join(" ")));
        assert_eq!(groups("t1"), Some(("alice", "dev system:authenticated".into())));
        assert_eq!(groups("t2"), Some(("bob \"b\"", "g1 g2 system:authenticated".into())));
        assert_eq!(groups("t3"), Some(("carl", "system:authenticated".into())));
        assert_eq!(groups("t5"), Some(("two\nlines", " system:authenticated".into())));
        assert_eq!(groups("t4"), None);
        assert_eq!(groups(""), None);
    }

    #[test]
    fn files_that_are_refused() {
        for (bad, want) in [
            ("t,u", "must have at least 3 columns (token, user name, user uid), found 2"),
            (" \n", "must have at least 3 columns (token, user name, user uid), found 1"),
            ("a,b,c,\"d\n", "parse error on line 1, column 10: extraneous or missing \" in quoted-field"),
            ("a,b\"c,d\n", "parse error on line 1, column 4: bare \" in non-quoted-field"),
            ("t,\"u\"x,y", "parse error on line 1, column 5: extraneous or missing \" in quoted-field"),
            (
                "a,b,c\nd,\"e\nf\"g",
                "record on line 2; parse error on line 3, column 2: extraneous or missing \" in quoted-field",
            ),
        ] {
            assert_eq!(TokenFile::parse(bad).err().map(|e| e.to_string()).as_deref(), Some(want), "{bad}");
        }
    }
}
