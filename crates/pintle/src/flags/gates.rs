//! The feature gates of version 1.36 and of the earlier versions that can be emulated, from `data/gates.txt`.

use std::sync::LazyLock;

const FILE: &str = include_str!("../../data/gates.txt");

/// The stage of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Does not exist yet in the emulated version.
    PreAlpha,
    /// Off by default.
    Alpha,
    /// Mostly on by default.
    Beta,
    /// Always on, or on by default.
    Ga,
    /// To be removed.
    Deprecated,
}

/// A feature gate.
pub(crate) struct Gate {
    pub(crate) name: &'static str,
    state: State,
    /// How it was until a minor version, the latest one first.
    earlier: Vec<(u64, State)>,
    /// The gates without which it cannot be on, except those that were always on since 1.33.
    pub(crate) needs: Vec<&'static str>,
}

/// A gate in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) stage: Stage,
    pub(crate) default: bool,
    /// Whether it is locked to the default.
    pub(crate) locked: bool,
}

impl State {
    /// Parses `beta on`, `ga on locked` or `absent`.
    fn parse(text: &str) -> Option<State> {
        let mut words = text.split(' ');
        let stage = match words.next()? {
            "absent" => Stage::PreAlpha,
            "alpha" => Stage::Alpha,
            "beta" => Stage::Beta,
            "ga" => Stage::Ga,
            "deprecated" => Stage::Deprecated,
            _ => return None,
        };
        Some(State { stage, default: words.next() == Some("on"), locked: words.next() == Some("locked") })
    }
}

impl Gate {
    fn parse(row: &'static str) -> Option<Gate> {
        let mut parts = row.split(", ");
        let (name, state) = parts.next()?.split_once(' ')?;
        let mut gate = Gate { name, state: State::parse(state)?, earlier: Vec::new(), needs: Vec::new() };
        for part in parts {
            if let Some(names) = part.strip_prefix("needs ") {
                gate.needs = names.split(' ').collect();
                continue;
            }
            let (minor, state) = part.strip_prefix("until 1.")?.split_once(' ')?;
            gate.earlier.push((minor.parse().ok()?, State::parse(state)?));
        }
        Some(gate)
    }

    /// The gate as it is in a minor version.
    pub(crate) fn at(&self, minor: u64) -> State {
        let earlier = self.earlier.iter().rev().find(|(last, _)| *last >= minor);
        earlier.map_or(self.state, |(_, state)| *state)
    }
}

/// All gates in order of their names.
pub(crate) static GATES: LazyLock<Vec<Gate>> =
    LazyLock::new(|| FILE.lines().filter(|line| !line.starts_with('#')).filter_map(Gate::parse).collect());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_valid_and_sorted() {
        assert_eq!(GATES.len(), FILE.lines().filter(|line| !line.starts_with('#')).count());
        assert!(GATES.is_sorted_by_key(|gate| gate.name));
        for gate in GATES.iter() {
            assert!(gate.earlier.is_sorted_by(|(later, _), (earlier, _)| later > earlier), "{}", gate.name);
            assert!(gate.needs.iter().all(|name| GATES.iter().any(|g| g.name == *name)), "{}", gate.name);
        }
    }

    #[test]
    fn emulated_versions_have_the_gates_of_their_time() {
        let gate = GATES.iter().find(|gate| gate.name == "CRDObservedGenerationTracking").unwrap();
        let off = State { stage: Stage::Beta, default: false, locked: false };
        assert_eq!(gate.at(36), State { default: true, ..off });
        assert_eq!(gate.at(35), off);
        assert_eq!([33, 34].map(|minor| gate.at(minor).stage), [Stage::PreAlpha; 2]);
    }
}
