//! Static tokens of a CSV file: `token,user,uid,"group1,group2"`.

use crate::UserInfo;
use std::collections::HashMap;

/// Static tokens and their users.
#[derive(Default)]
pub struct TokenFile(HashMap<String, UserInfo>);

/// A line of the file is not understood.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// Less than token, user and uid.
    #[error("line {0}: at least 3 columns are needed (token, user name, user uid)")]
    TooFewColumns(usize),
    /// A quote that is not closed, or stands inside of a bare column.
    #[error("line {0}: a quote is out of place")]
    Quote(usize),
}

impl TokenFile {
    /// Reads the text of a token file.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut users = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let columns = columns(line).ok_or(TokenFileError::Quote(index.saturating_add(1)))?;
            let mut columns = columns.into_iter();
            let (Some(token), Some(name), Some(uid)) = (columns.next(), columns.next(), columns.next())
            else {
                return Err(TokenFileError::TooFewColumns(index.saturating_add(1)));
            };
            let groups =
                columns.next().map(|g| g.split(',').map(str::to_string).collect()).unwrap_or_default();
            if !token.is_empty() {
                users.insert(token, UserInfo { name, uid, groups, ..UserInfo::default() });
            }
        }
        Ok(TokenFile(users))
    }

    /// The user of a token.
    pub fn get(&self, token: &str) -> Option<&UserInfo> {
        self.0.get(token)
    }
}

/// The columns of a CSV line; `None` where its quotes do not fit.
fn columns(line: &str) -> Option<Vec<String>> {
    let mut out = Vec::new();
    let mut rest = line;
    loop {
        let (column, tail) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_column(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (column, tail) = rest.split_at_checked(end)?;
                if column.contains('"') {
                    return None;
                }
                (column.to_string(), tail)
            }
        };
        out.push(column);
        match tail.strip_prefix(',') {
            Some(tail) => rest = tail,
            None if tail.is_empty() => return Some(out),
            None => return None,
        }
    }
}

/// A column up to its closing quote; two quotes are one.
fn quoted_column(text: &str) -> Option<(String, &str)> {
    let mut column = String::new();
    let mut rest = text;
    loop {
        let (part, tail) = rest.split_once('"')?;
        column.push_str(part);
        match tail.strip_prefix('"') {
            Some(tail) => {
                column.push('"');
                rest = tail;
            }
            None => return Some((column, tail)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_token_file() {
        let file =
            TokenFile::parse("t1,alice,a,dev\n\nt2,\"bob \"\"b\"\"\",b,\"g1,g2\"\nt3,carl,c\n").unwrap();
        let groups = |token| file.get(token).map(|u| (u.name.as_str(), u.groups.join(" ")));
        assert_eq!(groups("t1"), Some(("alice", "dev".into())));
        assert_eq!(groups("t2"), Some(("bob \"b\"", "g1 g2".into())));
        assert_eq!(groups("t3"), Some(("carl", String::new())));
        assert_eq!(groups("t4"), None);
        for bad in ["t,u", "t,\"u,x,y", "t,u\"x,y", "t,\"u\"x,y"] {
            assert!(TokenFile::parse(bad).is_err(), "{bad}");
        }
    }
}
