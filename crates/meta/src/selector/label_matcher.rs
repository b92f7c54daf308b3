//! `LabelMatcher`: a label selector in the form in which lists and watches apply it to objects. A request can have hundreds of
//! thousands of requirements, and a watch holds its selector and applies it to each event: requirements of the same key are
//! merged, and those about absent labels are found by the labels of the object.

use super::label::{LabelSelector, Operator, Requirement};
use pintle_value::Str;

/// The labels of an object, in ascending order of their keys.
type Labels = [(Str, Str)];

/// A label selector with its requirements merged. Each list is in ascending order and has no entry twice.
#[derive(Debug, Default)]
pub struct LabelMatcher {
    nothing: bool,
    /// Keys that must be present.
    required: Texts,
    /// Keys that must not be present.
    forbidden: Texts,
    /// Keys with the values that they must not have.
    excluded: Values,
    /// Keys that must be present with one of these values.
    allowed: Values,
    /// Keys that must be present with a number in this range.
    ranges: Vec<(Str, Range)>,
}

/// Texts one after another, in few bytes.
#[derive(Debug, Default)]
struct Texts {
    joined: String,
    ends: Vec<usize>,
}

/// Keys, each with its values.
#[derive(Debug, Default)]
struct Values {
    keys: Texts,
    values: Texts,
    /// For each key, where its values end.
    ends: Vec<usize>,
}

/// Numbers between two others, which are not in the range.
#[derive(Debug, Default)]
struct Range {
    above: Option<i64>,
    below: Option<i64>,
}

impl LabelMatcher {
    /// The matcher of a selector.
    pub fn of(selector: &LabelSelector) -> Self {
        let mut matcher = LabelMatcher { nothing: selector.is_nothing(), ..LabelMatcher::default() };
        for of_key in selector.requirements().chunk_by(|a, b| a.key() == b.key()) {
            matcher.add(of_key);
        }
        matcher
    }

    /// Adds the requirements of one key. The keys come in ascending order.
    fn add(&mut self, requirements: &[Requirement]) {
        let Some(key) = requirements.first().map(Requirement::key) else { return };
        let (mut excluded, mut allowed) = (Vec::new(), None::<Vec<&Str>>);
        let mut range = None::<Range>;
        let (mut is_required, mut is_forbidden) = (false, false);
        for requirement in requirements {
            let values = requirement.values();
            let number = || values.first().and_then(|value| value.parse::<i64>().ok());
            match requirement.operator() {
                Operator::Exists => is_required = true,
                Operator::DoesNotExist => is_forbidden = true,
                Operator::NotIn | Operator::NotEquals => excluded.extend(values),
                Operator::In | Operator::Equals | Operator::DoubleEquals => {
                    let mut values: Vec<&Str> = values.iter().collect();
                    values.sort_unstable();
                    values.dedup();
                    if let Some(allowed) = &allowed {
                        values.retain(|value| allowed.binary_search(value).is_ok());
                    }
                    allowed = Some(values);
                }
                Operator::GreaterThan => {
                    let range = range.get_or_insert_default();
                    range.above = range.above.max(Some(number().unwrap_or(i64::MAX)));
                }
                Operator::LessThan => {
                    let (range, number) = (range.get_or_insert_default(), number().unwrap_or(i64::MIN));
                    range.below = Some(range.below.map_or(number, |below| below.min(number)));
                }
            }
        }
        if is_required {
            self.required.push(key);
        }
        if is_forbidden {
            self.forbidden.push(key);
        }
        if !excluded.is_empty() {
            excluded.sort_unstable();
            excluded.dedup();
            self.excluded.push(key, &excluded);
        }
        if let Some(allowed) = allowed {
            self.allowed.push(key, &allowed);
        }
        self.ranges.extend(range.map(|range| (key.clone(), range)));
    }

    /// Whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        !self.nothing
            && self.required.len() == 0
            && self.forbidden.len() == 0
            && self.excluded.keys.len() == 0
            && self.allowed.keys.len() == 0
            && self.ranges.is_empty()
    }

    /// Whether the selector selects an object with these labels, which are in ascending order of their keys.
    pub fn matches(&self, labels: &Labels) -> bool {
        let value_of = |key: &str| {
            let at = labels.binary_search_by(|(label, _)| label.as_str().cmp(key)).ok()?;
            labels.get(at).map(|(_, value)| value.as_str())
        };
        // Keys that must be present are distinct, so an object with fewer labels lacks one of them.
        let has_room = |count: usize| count <= labels.len();
        !self.nothing
            && has_room(self.required.len())
            && has_room(self.allowed.keys.len())
            && has_room(self.ranges.len())
            && self.required.iter().all(|key| value_of(key).is_some())
            && (0..self.allowed.keys.len()).all(|place| {
                let value = self.allowed.keys.get(place).and_then(value_of);
                value.is_some_and(|value| self.allowed.contains(place, value))
            })
            && self.ranges.iter().all(|(key, range)| {
                let number = value_of(key).and_then(|value| value.parse().ok());
                number.is_some_and(|number| range.contains(number))
            })
            && !self.forbids_one_of(labels, value_of)
            && !self.excludes_one_of(labels, value_of)
    }

    fn forbids_one_of<'l>(&self, labels: &'l Labels, value_of: impl Fn(&str) -> Option<&'l str>) -> bool {
        if self.forbidden.len() <= labels.len() {
            self.forbidden.iter().any(|key| value_of(key).is_some())
        } else {
            labels.iter().any(|(key, _)| self.forbidden.find(key).is_some())
        }
    }

    fn excludes_one_of<'l>(&self, labels: &'l Labels, value_of: impl Fn(&str) -> Option<&'l str>) -> bool {
        let Values { keys, .. } = &self.excluded;
        if keys.len() <= labels.len() {
            (0..keys.len()).any(|place| {
                let value = keys.get(place).and_then(&value_of);
                value.is_some_and(|value| self.excluded.contains(place, value))
            })
        } else {
            let is_excluded = |(key, value): &(Str, Str)| {
                keys.find(key).is_some_and(|place| self.excluded.contains(place, value))
            };
            labels.iter().any(is_excluded)
        }
    }
}

impl Texts {
    fn push(&mut self, text: &str) {
        self.joined.push_str(text);
        self.ends.push(self.joined.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, place: usize) -> Option<&str> {
        let begin = place.checked_sub(1).map_or(Some(&0), |before| self.ends.get(before))?;
        self.joined.get(*begin..*self.ends.get(place)?)
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    fn find(&self, text: &str) -> Option<usize> {
        self.find_between(text, 0, self.len())
    }

    /// The place of a text among those from `low` up to `high`.
    fn find_between(&self, text: &str, mut low: usize, mut high: usize) -> Option<usize> {
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle)?.cmp(text) {
                std::cmp::Ordering::Less => low = middle.saturating_add(1),
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

impl Values {
    fn push(&mut self, key: &str, values: &[&Str]) {
        self.keys.push(key);
        values.iter().for_each(|value| self.values.push(value));
        self.ends.push(self.values.len());
    }

    /// Whether the key at this place has a value.
    fn contains(&self, place: usize, value: &str) -> bool {
        let begin = place.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(place).copied().unwrap_or(0);
        self.values.find_between(value, begin, end).is_some()
    }
}

impl Range {
    fn contains(&self, number: i64) -> bool {
        self.above.is_none_or(|above| number > above) && self.below.is_none_or(|below| number < below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::{Map, Value};

    fn pairs(labels: &[(&'static str, &'static str)]) -> (Map, Vec<(Str, Str)>) {
        let mut sorted: Vec<(Str, Str)> = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        sorted.sort_unstable();
        (labels.iter().map(|(k, v)| (*k, Value::from(*v))).collect(), sorted)
    }

    /// Each selector alone and each pair of them, for objects with few and many labels: the matcher agrees with the selector.
    #[test]
    fn a_matcher_selects_what_its_selector_selects() {
        let terms = [
            "",
            "a",
            "!a",
            "b",
            "!c",
            "a=1",
            "a==2",
            "a!=1",
            "a!=2",
            "a in (1,2)",
            "a in (2,3)",
            "a in ()",
            "a notin (1,3)",
            "b notin (1)",
            "a>1",
            "a>3",
            "a<2",
            "a<9",
            "b>0",
            "c in (x,y)",
            "a!=x",
        ];
        let objects = [
            &[][..],
            &[("a", "1")],
            &[("a", "2"), ("b", "1")],
            &[("a", "x"), ("b", ""), ("c", "y")],
            &[("a", ""), ("b", "5"), ("c", "x"), ("d", "1")],
            &[("a", "3"), ("e", "1"), ("f", "1"), ("g", "1"), ("h", "1")],
            &[("b", "1"), ("e", "1"), ("f", "1"), ("g", "1"), ("h", "1")],
        ]
        .map(pairs);
        for first in terms {
            for second in terms {
                let text =
                    [first, second].iter().filter(|t| !t.is_empty()).copied().collect::<Vec<_>>().join(",");
                let selector = LabelSelector::parse(&text).unwrap();
                let matcher = LabelMatcher::of(&selector);
                assert_eq!(matcher.is_empty(), selector.is_empty(), "{text}");
                for (map, sorted) in &objects {
                    assert_eq!(matcher.matches(sorted), selector.matches(Some(map)), "{text} {sorted:?}");
                }
            }
        }
        assert!(!LabelMatcher::of(&LabelSelector::nothing()).matches(&[]));
        assert!(!LabelMatcher::of(&LabelSelector::nothing()).is_empty());
    }

    #[test]
    fn requirements_that_say_the_same_are_held_once() {
        let text = ["a!=b", "a", "!c", "d in (x,y)", "e>1"].map(|term| [term; 1000].join(",")).join(",");
        let matcher = LabelMatcher::of(&LabelSelector::parse(&text).unwrap());
        let LabelMatcher { required, forbidden, excluded, allowed, ranges, nothing: _ } = &matcher;
        let counts = [required.len(), forbidden.len(), excluded.keys.len(), excluded.values.len()];
        assert_eq!((counts, allowed.keys.len(), allowed.values.len(), ranges.len()), ([1; 4], 1, 2, 1));
    }

    #[test]
    fn requirements_about_absent_labels_cost_nothing() {
        let time = |count: usize| {
            let text: Vec<_> = (0..count).map(|n| format!("!k{n},l{n}!=v,m!=v{n}")).collect();
            let matcher = LabelMatcher::of(&LabelSelector::parse(&text.join(",")).unwrap());
            let (_, labels) = pairs(&[("a", "1"), ("m", "w")]);
            let begin = std::time::Instant::now();
            assert!((0..1000).all(|_| matcher.matches(&labels)));
            begin.elapsed()
        };
        // One by one it takes a hundred times as long. Other processes may disturb some of the measurements.
        assert!((0..5).any(|_| time(20_000) < time(200) * 20));
    }
}
