//! `Sessions`: one-time codes, and the session tokens they are exchanged for.
//!
//! `pintle console` requests a code with the user's own credentials and prints a link that has it in the fragment, which
//! browsers never send. The page posts the code once and gets a session token. A session holds the credentials that
//! requested the code, and each request with its token is authenticated with them again: it never outlives a certificate
//! that expires, a token that is revoked or an account that is deleted.
//!
//! Only SHA-256 digests of codes and tokens are stored. The clock is passed in.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The prefix of session tokens, so that other tokens need no lookup.
pub const TOKEN_PREFIX: &str = "pintle-console.";
/// How long a code can be exchanged.
pub const CODE_LIFE: Duration = Duration::from_secs(60);
/// The longest lifetime of a session.
pub const SESSION_LIFE: Duration = Duration::from_secs(8 * 3600);
/// The maximum number of codes and the most sessions of one user. A new one replaces the user's oldest.
const PER_USER_MAX: usize = 8;
/// The maximum number of codes and the most sessions of all users. Beyond that, new ones are rejected until others expire.
const TOTAL_MAX: usize = 1024;
/// The number of random bytes of a code or token.
const SECRET_BYTES: usize = 32;

/// Why no code was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Too many exist.
    #[error("too many links or sessions of the console are open; try again later")]
    Full,
    /// The system returned no random bytes.
    #[error("no random bytes are available")]
    Random,
}

/// Codes and sessions. `C` holds the credentials of a user.
pub struct Sessions<C> {
    codes: Mutex<Vec<Entry<C>>>,
    sessions: Mutex<Vec<Entry<C>>>,
}

struct Entry<C> {
    digest: [u8; 32],
    user: String,
    until: Instant,
    credentials: C,
}

/// The session of an exchanged code.
#[derive(Debug)]
pub struct Session {
    /// The bearer token.
    pub token: String,
    /// The session's lifetime.
    pub life: Duration,
}

impl<C> Default for Sessions<C> {
    fn default() -> Self {
        Sessions { codes: Mutex::default(), sessions: Mutex::default() }
    }
}

impl<C: Clone> Sessions<C> {
    /// Issues a code for `user`, who authenticated with `credentials`.
    pub fn issue(&self, user: &str, credentials: C, now: Instant) -> Result<String, SessionError> {
        let code = random_text()?;
        let until = now.checked_add(CODE_LIFE).ok_or(SessionError::Full)?;
        let entry = Entry { digest: hash(&code), user: user.to_string(), until, credentials };
        add(&mut lock(&self.codes), entry, now)?;
        Ok(code)
    }

    /// Exchanges a code for a session, once. `Ok(None)` if there is no such code any more.
    pub fn redeem(&self, code: &str, now: Instant) -> Result<Option<Session>, SessionError> {
        let wanted = hash(code);
        let found = {
            let mut codes = lock(&self.codes);
            // All codes are compared, each in constant time.
            let mut found = None;
            for (index, entry) in codes.iter().enumerate() {
                if verify_slices_are_equal(&entry.digest, &wanted).is_ok() {
                    found = Some(index);
                }
            }
            found.map(|index| codes.swap_remove(index))
        };
        let Some(entry) = found.filter(|entry| now < entry.until) else { return Ok(None) };
        let token = format!("{TOKEN_PREFIX}{}", random_text()?);
        let until = now.checked_add(SESSION_LIFE).ok_or(SessionError::Full)?;
        let entry = Entry { digest: hash(&token), until, ..entry };
        add(&mut lock(&self.sessions), entry, now)?;
        Ok(Some(Session { token, life: SESSION_LIFE }))
    }

    /// The credentials of a session token.
    pub fn credentials(&self, token: &str, now: Instant) -> Option<C> {
        let wanted = hash(token);
        let sessions = lock(&self.sessions);
        // A comparison of digests reveals nothing about the stored tokens, so it need not take constant time.
        let entry = sessions.iter().find(|entry| entry.digest == wanted)?;
        (now < entry.until).then(|| entry.credentials.clone())
    }

    /// Ends a session.
    pub fn end(&self, token: &str) {
        let wanted = hash(token);
        lock(&self.sessions).retain(|entry| entry.digest != wanted);
    }
}

/// Adds an entry: removes expired ones, then the user's oldest if there are too many.
fn add<C>(entries: &mut Vec<Entry<C>>, entry: Entry<C>, now: Instant) -> Result<(), SessionError> {
    entries.retain(|known| now < known.until);
    let own = entries.iter().filter(|known| known.user == entry.user).count();
    if own >= PER_USER_MAX {
        let oldest = entries.iter().enumerate().filter(|(_, known)| known.user == entry.user);
        if let Some(index) = oldest.min_by_key(|(_, known)| known.until).map(|(index, _)| index) {
            entries.swap_remove(index);
        }
    }
    if entries.len() >= TOTAL_MAX {
        return Err(SessionError::Full);
    }
    entries.push(entry);
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hash(secret: &str) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
    out
}

fn random_text() -> Result<String, SessionError> {
    let mut bytes = [0u8; SECRET_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| SessionError::Random)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_good_once_and_for_a_minute() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let code = sessions.issue("ann", 7, now).unwrap();
        assert_eq!(code.len(), 43);
        assert!(sessions.redeem("", now).unwrap().is_none());
        assert!(sessions.redeem(&code[1..], now).unwrap().is_none());
        let session = sessions.redeem(&code, now).unwrap().unwrap();
        assert!(sessions.redeem(&code, now).unwrap().is_none(), "a second time");
        assert_eq!(sessions.credentials(&session.token, now), Some(7));
        assert_eq!(sessions.credentials(&code, now), None);
        assert_eq!(sessions.credentials(&session.token, now + SESSION_LIFE), None);

        let late = sessions.issue("ann", 7, now).unwrap();
        assert!(sessions.redeem(&late, now + CODE_LIFE).unwrap().is_none());
        sessions.end(&session.token);
        assert_eq!(sessions.credentials(&session.token, now), None);
    }

    #[test]
    fn nobody_takes_the_place_of_others() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let first = sessions.issue("ann", 1, now).unwrap();
        let of_others = sessions.issue("bob", 2, now).unwrap();
        for second in 1..=PER_USER_MAX {
            let later = now + Duration::from_millis(second as u64);
            sessions.issue("ann", 1, later).unwrap();
        }
        assert!(sessions.redeem(&first, now).unwrap().is_none(), "the oldest code of the same user is gone");
        assert!(sessions.redeem(&of_others, now).unwrap().is_some());
    }

    #[test]
    fn there_is_a_limit_for_all_that_heals() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        for user in 0..TOTAL_MAX {
            sessions.issue(&user.to_string(), (), now).unwrap();
        }
        assert_eq!(sessions.issue("one more", (), now), Err(SessionError::Full));
        assert!(sessions.issue("one more", (), now + CODE_LIFE).is_ok());
    }
}
