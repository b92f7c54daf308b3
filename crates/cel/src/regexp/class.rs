//! Sets of code points: ranges, POSIX and Perl groups, Unicode properties as Go names them, and case folding.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange, HirKind};

/// The largest code point.
pub(super) const CODE_MAX: u32 = 0x10_FFFF;

/// The last version of Unicode whose characters Go's tables know.
const GO_UNICODE_AGE: &str = "15.0";

/// A set of code points: disjoint ranges in order, first and last included. Surrogates may be members, as in Go;
/// they match no text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Class(Vec<(u32, u32)>);

impl Class {
    /// All code points.
    pub(super) fn any() -> Self {
        Class(vec![(0, CODE_MAX)])
    }

    /// All code points but the line feed.
    pub(super) fn not_line_feed() -> Self {
        Class(vec![(0, 0x09), (0x0B, CODE_MAX)])
    }

    /// The ranges in any order.
    pub(super) fn of(ranges: Vec<(u32, u32)>) -> Self {
        let mut class = Class(ranges);
        class.normalize();
        class
    }

    /// The ranges in order.
    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// The number of integers that Go needs for it.
    pub(super) fn runes(&self) -> usize {
        self.0.len().saturating_mul(2)
    }

    /// Whether `code` is a member.
    pub(super) fn contains(&self, code: u32) -> bool {
        let at = self.0.partition_point(|&(_, last)| last < code);
        self.0.get(at).is_some_and(|&(first, _)| first <= code)
    }

    /// All code points that are not members.
    pub(super) fn negated(&self) -> Self {
        let mut ranges = Vec::with_capacity(self.0.len().saturating_add(1));
        let mut next = 0;
        for &(first, last) in &self.0 {
            if next < first {
                ranges.push((next, first.saturating_sub(1)));
            }
            next = last.saturating_add(1);
        }
        if next <= CODE_MAX {
            ranges.push((next, CODE_MAX));
        }
        Class(ranges)
    }

    /// The members and all code points that differ from one of them only in case.
    pub(super) fn folded(&self) -> Self {
        let mut ranges = self.0.clone();
        for &(first, last) in &self.0 {
            let from = CASES.partition_point(|&(code, _)| code < first);
            let folds = CASES.get(from..).unwrap_or(&[]).iter().take_while(|&&(code, _)| code <= last);
            ranges.extend(folds.map(|&(_, other)| (other, other)));
        }
        Class::of(ranges)
    }

    /// The members that can occur in a text.
    pub(super) fn to_unicode(&self) -> ClassUnicode {
        let below = self.0.iter().map(|&(first, last)| (first, last.min(0xD7FF)));
        let above = self.0.iter().map(|&(first, last)| (first.max(0xE000), last));
        let ranges = below.chain(above).filter_map(|(first, last)| {
            let (first, last) = (char::from_u32(first)?, char::from_u32(last)?);
            (first <= last).then(|| ClassUnicodeRange::new(first, last))
        });
        ClassUnicode::new(ranges)
    }

    /// Sorts the ranges and joins those that touch.
    fn normalize(&mut self) {
        self.0.sort_unstable();
        self.0.dedup_by(|next, previous| {
            let touches = next.0 <= previous.1.saturating_add(1);
            if touches {
                previous.1 = previous.1.max(next.1);
            }
            touches
        });
    }
}

/// The code points that differ from others only in case, each with one of those, in order.
static CASES: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| {
    // No code point outside of this range has a case; Go checks this as well.
    let others = |code: u32| {
        let folded = char::from_u32(code).map(|c| {
            let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
            class.case_fold_simple();
            of_unicode(&class)
        });
        let codes = folded.unwrap_or_default().into_iter().flat_map(|(first, last)| first..=last);
        codes.filter(move |&other| other != code).map(move |other| (code, other))
    };
    (0x41..=0x1_E943).flat_map(others).collect()
});

fn of_unicode(class: &ClassUnicode) -> Vec<(u32, u32)> {
    class.ranges().iter().map(|range| (u32::from(range.start()), u32::from(range.end()))).collect()
}

/// The class of `\d`, `\s`, `\w` and their negations: ASCII only.
pub(super) fn perl(letter: char) -> Option<Class> {
    let class = match letter.to_ascii_lowercase() {
        'd' => posix("digit")?,
        's' => Class(vec![(0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20)]),
        'w' => posix("word")?,
        _ => return None,
    };
    Some(class)
}

/// The class of `[:name:]`.
pub(super) fn posix(name: &str) -> Option<Class> {
    let ranges: &[(char, char)] = match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "ascii" => &[('\0', '\x7F')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1F'), ('\x7F', '\x7F')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "word" => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    };
    Some(Class(ranges.iter().map(|&(first, last)| (u32::from(first), u32::from(last))).collect()))
}

/// Classes by their canonical names, with and without case.
type Tables = HashMap<(String, bool), Arc<Class>>;

/// The members of a category or script; `None` if Go does not have that name. Like Go, ignores case, blanks, underscores
/// and hyphens.
pub(super) fn property(name: &str, folded: bool) -> Option<Arc<Class>> {
    static TABLES: OnceLock<Mutex<Tables>> = OnceLock::new();
    let canonical: String =
        name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).map(|c| c.to_ascii_lowercase()).collect();
    if canonical.is_empty() || !canonical.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let tables = TABLES.get_or_init(Mutex::default);
    let key = (canonical, folded);
    if let Some(class) = tables.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Some(Arc::clone(class));
    }
    let class = lookup(&key.0)?;
    let class = Arc::new(if folded { class.folded() } else { class });
    // The table only contains existing names, so it is bounded.
    tables.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&class));
    Some(class)
}

/// The members of the category or script with this canonical name.
fn lookup(name: &str) -> Option<Class> {
    match name {
        "any" => return Some(Class::any()),
        "ascii" => return posix("ascii"),
        "assigned" => return Some(lookup("cn")?.negated()),
        // This category includes code points without characters, and private use and surrogates have no age.
        "c" | "other" => {
            return Some(Class::of(
                [lookup("cc")?, lookup("cf")?, lookup("cn")?]
                    .into_iter()
                    .flat_map(|class| class.0)
                    .chain([(0xD800, 0xDFFF)])
                    .chain(PRIVATE_USE)
                    .collect(),
            ));
        }
        "cs" | "surrogate" => return Some(Class(vec![(0xD800, 0xDFFF)])),
        "co" | "privateuse" => return Some(Class(PRIVATE_USE.to_vec())),
        // Code points that were assigned after Go's Unicode version count as unassigned.
        "cn" | "unassigned" => {
            let assigned = parsed(&format!(r"[\p{{Age={GO_UNICODE_AGE}}}--\p{{gc=Cn}}]"))?;
            let known = assigned.0.into_iter().chain([(0xD800, 0xDFFF)]).chain(PRIVATE_USE).collect();
            return Some(Class::of(known).negated());
        }
        _ => {}
    }
    let category = CATEGORIES.iter().find(|(short, alias)| *short == name || alias.contains(&name));
    let property = match category {
        Some((short, _)) => format!("gc={short}"),
        None if SCRIPTS.split(' ').any(|script| script == name) => format!("sc={name}"),
        None => return None,
    };
    parsed(&format!(r"[\p{{{property}}}&&\p{{Age={GO_UNICODE_AGE}}}]"))
}

/// The code points that are for private use.
const PRIVATE_USE: [(u32, u32); 3] = [(0xE000, 0xF8FF), (0xF_0000, 0xF_FFFD), (0x10_0000, 0x10_FFFD)];

/// The categories by their canonical names, with the aliases that Unicode gives them.
const CATEGORIES: [(&str, &[&str]); 34] = [
    ("cc", &["control", "cntrl"]),
    ("cf", &["format"]),
    ("l", &["letter"]),
    ("lc", &["casedletter"]),
    ("ll", &["lowercaseletter"]),
    ("lm", &["modifierletter"]),
    ("lo", &["otherletter"]),
    ("lt", &["titlecaseletter"]),
    ("lu", &["uppercaseletter"]),
    ("m", &["mark", "combiningmark"]),
    ("mc", &["spacingmark"]),
    ("me", &["enclosingmark"]),
    ("mn", &["nonspacingmark"]),
    ("n", &["number"]),
    ("nd", &["decimalnumber", "digit"]),
    ("nl", &["letternumber"]),
    ("no", &["othernumber"]),
    ("p", &["punctuation", "punct"]),
    ("pc", &["connectorpunctuation"]),
    ("pd", &["dashpunctuation"]),
    ("pe", &["closepunctuation"]),
    ("pf", &["finalpunctuation"]),
    ("pi", &["initialpunctuation"]),
    ("po", &["otherpunctuation"]),
    ("ps", &["openpunctuation"]),
    ("s", &["symbol"]),
    ("sc", &["currencysymbol"]),
    ("sk", &["modifiersymbol"]),
    ("sm", &["mathsymbol"]),
    ("so", &["othersymbol"]),
    ("z", &["separator"]),
    ("zl", &["lineseparator"]),
    ("zp", &["paragraphseparator"]),
    ("zs", &["spaceseparator"]),
];

/// The scripts of that version of Unicode by their canonical names. Go does not accept the short codes (`Latn`).
const SCRIPTS: &str = "\
    adlam ahom anatolianhieroglyphs arabic armenian avestan balinese bamum bassavah batak bengali bhaiksuki \
    bopomofo brahmi braille buginese buhid canadianaboriginal carian caucasianalbanian chakma cham cherokee \
    chorasmian common coptic cuneiform cypriot cyprominoan cyrillic deseret devanagari divesakuru dogra \
    duployan egyptianhieroglyphs elbasan elymaic ethiopic georgian glagolitic gothic grantha greek gujarati \
    gunjalagondi gurmukhi han hangul hanifirohingya hanunoo hatran hebrew hiragana imperialaramaic inherited \
    inscriptionalpahlavi inscriptionalparthian javanese kaithi kannada katakana kawi kayahli kharoshthi \
    khitansmallscript khmer khojki khudawadi lao latin lepcha limbu lineara linearb lisu lycian lydian \
    mahajani makasar malayalam mandaic manichaean marchen masaramgondi medefaidrin meeteimayek mendekikakui \
    meroiticcursive meroitichieroglyphs miao modi mongolian mro multani myanmar nabataean nagmundari \
    nandinagari newa newtailue nko nushu nyiakengpuachuehmong ogham olchiki oldhungarian olditalic \
    oldnortharabian oldpermic oldpersian oldsogdian oldsoutharabian oldturkic olduyghur oriya osage osmanya \
    pahawhhmong palmyrene paucinhau phagspa phoenician psalterpahlavi rejang runic samaritan saurashtra \
    sharada shavian siddham signwriting sinhala sogdian sorasompeng soyombo sundanese sylotinagri syriac \
    tagalog tagbanwa taile taitham taiviet takri tamil tangsa tangut telugu thaana thai tibetan tifinagh \
    tirhuta toto ugaritic vai vithkuqi wancho warangciti yezidi yi zanabazarsquare";

/// The members of a class in the syntax of `regex-syntax`.
fn parsed(pattern: &str) -> Option<Class> {
    match regex_syntax::parse(pattern).ok()?.into_kind() {
        HirKind::Class(regex_syntax::hir::Class::Unicode(class)) => Some(Class(of_unicode(&class))),
        // A class of one character is a literal there.
        HirKind::Literal(literal) => {
            let code = u32::from(std::str::from_utf8(&literal.0).ok()?.chars().next()?);
            Some(Class(vec![(code, code)]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_sets() {
        let class = Class::of(vec![(5, 9), (1, 2), (3, 3), (8, 12)]);
        assert_eq!(class.ranges(), [(1, 3), (5, 12)]);
        assert_eq!(class.negated().ranges(), [(0, 0), (4, 4), (13, CODE_MAX)]);
        assert_eq!(class.negated().negated(), class);
        assert!(class.contains(12) && !class.contains(4) && !class.contains(13));
        assert_eq!(Class::any().negated(), Class::default());
    }

    #[test]
    fn all_names_that_go_knows_have_members() {
        let names = CATEGORIES.iter().map(|(name, _)| *name).chain(SCRIPTS.split(' '));
        for name in names.chain(["c", "cn", "co", "cs"]) {
            assert!(property(name, false).is_some_and(|class| class.runes() > 0), "{name}");
            assert!(property(name, true).is_some(), "{name}");
        }
        for name in ["", "Latn", "Nope", "gc=L", "L&", "Age=15.0", "Alphabetic", "^L"] {
            assert!(property(name, false).is_none(), "{name}");
        }
        assert_eq!(property("Uppercase_Letter", false), property("lu", false));
    }

    #[test]
    fn case_is_folded_through_all_of_unicode() {
        let folded = |c: char| Class::of(vec![(u32::from(c), u32::from(c))]).folded();
        for (c, others) in [('k', "kK\u{212A}"), ('s', "sS\u{17F}"), ('ß', "ßẞ"), ('i', "iI"), ('1', "1")]
        {
            let mut expected: Vec<_> = others.chars().map(|c| (u32::from(c), u32::from(c))).collect();
            expected.sort_unstable();
            assert_eq!(folded(c), Class::of(expected), "{c}");
        }
    }
}
