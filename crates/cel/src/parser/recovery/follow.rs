//! Follow sets: the tokens that can come next within a rule, after it, and at which the parser can continue after an
//! error.

use super::super::lexer::Kind;
use super::Recovery;
use super::network::{Edge, Set, StateId};

impl Recovery<'_> {
    /// The tokens that can come at the current state, given the callers.
    pub(super) fn expected(&self) -> Set {
        let mut following = self.look(self.state);
        let mut expected = following;
        for caller in self.callers.iter().rev() {
            let Some(follow) = caller.and_then(|caller| self.network.follow(caller)) else { break };
            if !following.end_of_rule {
                break;
            }
            following = self.look(follow);
            expected = expected.and(following);
        }
        expected.end_of_rule = false;
        if following.end_of_rule { expected.and(Set::of(&[Kind::End])) } else { expected }
    }

    /// The tokens that can come after any of the active rules.
    pub(super) fn recovery_set(&self) -> Set {
        let follows = self.callers.iter().filter_map(|caller| self.network.follow((*caller)?));
        follows.fold(Set::default(), |set, follow| set.and(self.look(follow)))
    }

    /// The first tokens of each alternative of a choice.
    pub(super) fn alternative_sets(&self, choice: StateId) -> Vec<Set> {
        let target = |edge: &Edge| match edge {
            Edge::Epsilon(to) => Some(*to),
            _ => None,
        };
        self.network.edges(choice).iter().filter_map(target).map(|to| self.look(to)).collect()
    }

    /// The tokens that can come next within the rule.
    pub(super) fn look(&self, state: StateId) -> Set {
        self.network.looks.get(state).copied().unwrap_or_default()
    }

    /// The tokens that can come after the active rule.
    pub(super) fn after_rule(&self) -> Set {
        self.return_to_callers(Set { end_of_rule: true, ..Set::default() })
    }

    /// The tokens that can come next, if rules that end return to their callers.
    pub(super) fn look_in_context(&self, state: StateId) -> Set {
        self.return_to_callers(self.look(state))
    }

    pub(super) fn return_to_callers(&self, mut set: Set) -> Set {
        for caller in self.callers.iter().rev() {
            if !std::mem::take(&mut set.end_of_rule) {
                return set;
            }
            match caller.and_then(|caller| self.network.follow(caller)) {
                Some(follow) => set = set.and(self.look(follow)),
                None => return set.and(Set::of(&[Kind::End])),
            }
        }
        set
    }
}
