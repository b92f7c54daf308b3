//! Makes a backup with many objects from a backup that has one of them, to measure a server with a million objects
//! without creating each of them:
//!
//!     multiply FROM TO KEY COUNT [NAMESPACES]
//!
//! Every copy gets a name, a namespace and a uid of its own. `pintle restore` makes a data folder from the result.

use pintle_store::{Entry, Key, Revision, Snapshot, read_backup, write_backup};
use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).map(String::as_str);
    let (Some(from), Some(to), Some(key), Some(count)) = (argument(0), argument(1), argument(2), argument(3))
    else {
        return Err("usage: multiply FROM TO KEY COUNT [NAMESPACES]".into());
    };
    let (count, namespaces): (u64, u64) = (count.parse()?, argument(4).unwrap_or("1").parse()?);
    let snapshot = read_backup(&mut BufReader::new(File::open(from)?))?;
    let entry = snapshot.get(key).ok_or("the backup has no such key")?;
    let copies = Copies::of(key, &entry.value)
        .ok_or("the key has no namespace, the value no uid, or a name has fewer than seven letters")?;
    let base = snapshot.revision().0;
    let old = snapshot.iter().map(|(key, entry)| (key.clone(), entry.clone()));
    let new = (0..count).map(|n| {
        let revision = Revision(base.saturating_add(n).saturating_add(1));
        let (key, value) = copies.copy(n, n % namespaces.max(1));
        (key, Entry { value: value.into(), created: revision, modified: revision })
    });
    let all = Snapshot::from_entries(Revision(base.saturating_add(count)), old.chain(new));
    let mut out = BufWriter::new(File::create(to)?);
    write_backup(&all, &mut out)?;
    Ok(out.flush()?)
}

/// The digits of the number that distinguishes a copy.
const NUMBER_DIGITS: usize = 7;

/// An object of which copies are made.
struct Copies {
    /// The key up to the namespace.
    prefix: String,
    namespace: String,
    name: String,
    uid: String,
    value: Vec<u8>,
}

impl Copies {
    fn of(key: &str, value: &[u8]) -> Option<Copies> {
        let (rest, name) = key.rsplit_once('/')?;
        let (prefix, namespace) = rest.rsplit_once('/')?;
        // A shorter name has no room for a number, and the values would no longer be JSON.
        if name.len().min(namespace.len()) < NUMBER_DIGITS {
            return None;
        }
        let text = String::from_utf8_lossy(value);
        let uid = text.split_once("\"uid\":\"")?.1.split('"').next()?;
        Some(Copies {
            prefix: prefix.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            value: value.to_vec(),
        })
    }

    /// Copy number `n`. All names, namespaces and uids have the length of the original ones, because the stored value
    /// begins with an offset into its JSON.
    fn copy(&self, n: u64, namespace: u64) -> (Key, Vec<u8>) {
        let name = numbered(&self.name, n);
        let namespace =
            if namespace == 0 { self.namespace.clone() } else { numbered(&self.namespace, namespace) };
        let mut value = self.value.clone();
        replace(&mut value, &format!("\"name\":\"{}\"", self.name), &format!("\"name\":\"{name}\""));
        let old = format!("\"namespace\":\"{}\"", self.namespace);
        replace(&mut value, &old, &format!("\"namespace\":\"{namespace}\""));
        replace(&mut value, &self.uid, &numbered(&self.uid, n));
        (Key::from(format!("{}/{namespace}/{name}", self.prefix)), value)
    }
}

/// The text with its end replaced by a number.
fn numbered(text: &str, n: u64) -> String {
    let number = format!("{n:0NUMBER_DIGITS$}");
    let keep = text.len().saturating_sub(number.len());
    format!("{}{number}", text.get(..keep).unwrap_or_default())
}

/// Replaces the first occurrence of `from` by `to`, which has the same length.
fn replace(value: &mut [u8], from: &str, to: &str) {
    let at = value.windows(from.len()).position(|window| window == from.as_bytes());
    if let Some(place) = at.and_then(|at| value.get_mut(at..at.saturating_add(to.len()))) {
        place.copy_from_slice(to.as_bytes());
    }
}
