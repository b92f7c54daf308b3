//! The network of states that ANTLR generates from the grammar, and the steps of its parser through it.

use super::super::lexer::Kind;
use super::grammar::Part::{
    OneOf, Optional, Plus, PlusPredicted, Precedence, Recursive, Star, StarPredicted, Token,
};
use super::grammar::{Alternatives, Part, RULES, Rule, is_recursive};

/// A set of token kinds, and whether it includes the end of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) kinds: u64,
    pub(super) end_of_rule: bool,
}

impl Set {
    pub(super) fn of(kinds: &[Kind]) -> Set {
        Set { kinds: kinds.iter().fold(0, |set, kind| set | 1 << (*kind as u64)), end_of_rule: false }
    }

    pub(super) fn has(self, kind: Kind) -> bool {
        self.kinds & (1 << (kind as u64)) != 0
    }

    pub(super) fn and(self, other: Set) -> Set {
        Set { kinds: self.kinds | other.kinds, end_of_rule: self.end_of_rule || other.end_of_rule }
    }

    /// The kinds in the order of messages.
    pub(super) fn names(self) -> String {
        let names: Vec<String> =
            Kind::ALL.iter().filter(|kind| self.has(**kind)).map(Kind::to_string).collect();
        if names.len() == 1 { names.concat() } else { format!("{{{}}}", names.join(", ")) }
    }
}

pub(super) type StateId = usize;

/// A transition from a state to another.
#[derive(Clone, Debug)]
pub(super) enum Edge {
    Epsilon(StateId),
    Tokens(Set, StateId),
    /// Enters a rule, which returns to `follow`.
    Call {
        rule: Rule,
        precedence: u8,
        follow: StateId,
    },
    Precedence(u8, StateId),
    /// From the end of a rule to the state after a call of it; and whether that call began the recursion of a
    /// left-recursive rule.
    Return {
        to: StateId,
        outermost: bool,
    },
}

/// The role of a state in error recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateKind {
    Plain,
    /// The start of alternatives, or the entry of a loop.
    Choice,
    LoopBack,
    RuleEnd,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) kind: StateKind,
    pub(super) rule: Rule,
    pub(super) edges: Vec<Edge>,
}

/// A part of a rule with its parser states.
pub(super) enum Step {
    /// A token, with the states before and after it.
    Match(Set, StateId, StateId),
    Call(Rule, u8, StateId),
    /// The state of the choice, and the optional part.
    Optional(StateId, Vec<Step>),
    Loop(Loop),
}

pub(super) struct Loop {
    /// The entry of a star, or the start of the body of a plus.
    pub(super) entry: StateId,
    /// The end of the body; the decision of a plus.
    pub(super) back: StateId,
    pub(super) body: Choice,
    pub(super) at_least_once: bool,
    pub(super) predicted: bool,
}

/// Alternatives at a state.
pub(super) struct Choice {
    pub(super) state: StateId,
    pub(super) alternatives: Vec<Vec<Step>>,
    /// Whether the alternatives do not begin with different tokens.
    pub(super) predicted: bool,
}

/// The network.
pub(super) struct Network {
    pub(super) states: Vec<State>,
    starts: Vec<StateId>,
    pub(super) rules: Vec<Choice>,
    /// The tokens that can come next at each state, within its rule.
    pub(super) looks: Vec<Set>,
}

impl Network {
    pub(super) fn new() -> Network {
        let mut network =
            Network { states: Vec::new(), starts: Vec::new(), rules: Vec::new(), looks: Vec::new() };
        let ends: Vec<StateId> = RULES
            .iter()
            .map(|(rule, _)| {
                let start = network.add_state(StateKind::Plain, *rule);
                network.starts.push(start);
                network.add_state(StateKind::RuleEnd, *rule)
            })
            .collect();
        for ((rule, alternatives), end) in RULES.iter().zip(&ends) {
            let choice = network.add_state(StateKind::Choice, *rule);
            network.add_edge(network.start(*rule), Edge::Epsilon(choice));
            let choice = network.add_choice(*rule, choice, alternatives, *end);
            network.rules.push(choice);
        }
        network.looks = (0..network.states.len()).map(|state| network.tokens_from(state)).collect();
        network.return_everywhere(&ends);
        network
    }

    fn tokens_from(&self, state: StateId) -> Set {
        if self.kind(state) == StateKind::RuleEnd {
            return Set { kinds: 0, end_of_rule: true };
        }
        let next = |edge: &Edge| match edge {
            Edge::Epsilon(to) | Edge::Precedence(_, to) => self.tokens_from(*to),
            Edge::Tokens(tokens, _) => *tokens,
            // No rule can be empty, so the tokens after the call do not matter.
            Edge::Call { rule, .. } => self.tokens_from(self.start(*rule)),
            Edge::Return { .. } => Set::default(),
        };
        self.edges(state).iter().map(next).fold(Set::default(), Set::and)
    }

    pub(super) fn start(&self, rule: Rule) -> StateId {
        self.starts.get(rule as usize).copied().unwrap_or_default()
    }

    pub(super) fn edges(&self, state: StateId) -> &[Edge] {
        self.states.get(state).map_or(&[], |state| &state.edges)
    }

    pub(super) fn kind(&self, state: StateId) -> StateKind {
        self.states.get(state).map_or(StateKind::Plain, |state| state.kind)
    }

    /// The state to which a call at `state` returns.
    pub(super) fn follow(&self, state: StateId) -> Option<StateId> {
        match self.edges(state).first() {
            Some(Edge::Call { follow, .. }) => Some(*follow),
            _ => None,
        }
    }

    fn add_state(&mut self, kind: StateKind, rule: Rule) -> StateId {
        self.states.push(State { kind, rule, edges: Vec::new() });
        self.states.len().saturating_sub(1)
    }

    fn add_edge(&mut self, from: StateId, edge: Edge) {
        if let Some(state) = self.states.get_mut(from) {
            state.edges.push(edge);
        }
    }

    fn add_choice(&mut self, rule: Rule, state: StateId, alternatives: Alternatives, end: StateId) -> Choice {
        let alternatives: Vec<Vec<Step>> = alternatives
            .iter()
            .map(|parts| {
                let first = self.add_state(StateKind::Plain, rule);
                self.add_edge(state, Edge::Epsilon(first));
                self.add_sequence(rule, parts, first, end)
            })
            .collect();
        // Only the alternatives of this rule can be distinguished by one token.
        let predicted = alternatives.len() > 1 && rule != Rule::EscapeIdent;
        Choice { state, alternatives, predicted }
    }

    fn add_sequence(
        &mut self,
        rule: Rule,
        parts: &'static [Part],
        first: StateId,
        end: StateId,
    ) -> Vec<Step> {
        let mut at = first;
        let mut steps = Vec::new();
        for part in parts {
            let (step, next) = self.add_part(rule, part, at);
            steps.extend(step);
            at = next;
        }
        self.add_edge(at, Edge::Epsilon(end));
        steps
    }

    fn add_part(&mut self, rule: Rule, part: &'static Part, at: StateId) -> (Option<Step>, StateId) {
        match part {
            Token(kind) => self.add_tokens(rule, Set::of(&[*kind]), at),
            OneOf(kinds) => self.add_tokens(rule, Set::of(kinds), at),
            Part::Rule(called) => self.call(rule, *called, 0, at),
            Recursive(called, precedence) => self.call(rule, *called, *precedence, at),
            Precedence(precedence) => {
                let next = self.add_state(StateKind::Plain, rule);
                self.add_edge(at, Edge::Precedence(*precedence, next));
                (None, next)
            }
            Optional(parts) => {
                let choice = self.add_state(StateKind::Choice, rule);
                let end = self.add_state(StateKind::Plain, rule);
                self.add_edge(at, Edge::Epsilon(choice));
                let first = self.add_state(StateKind::Plain, rule);
                self.add_edge(choice, Edge::Epsilon(first));
                let steps = self.add_sequence(rule, parts, first, end);
                self.add_edge(choice, Edge::Epsilon(end));
                (Some(Step::Optional(choice, steps)), end)
            }
            Star(alternatives) => self.add_star(rule, alternatives, false, at),
            StarPredicted(alternatives) => self.add_star(rule, alternatives, true, at),
            Plus(parts) => self.add_plus(rule, parts, false, at),
            PlusPredicted(parts) => self.add_plus(rule, parts, true, at),
        }
    }

    fn add_tokens(&mut self, rule: Rule, set: Set, at: StateId) -> (Option<Step>, StateId) {
        let next = self.add_state(StateKind::Plain, rule);
        self.add_edge(at, Edge::Tokens(set, next));
        (Some(Step::Match(set, at, next)), next)
    }

    fn call(&mut self, rule: Rule, called: Rule, precedence: u8, at: StateId) -> (Option<Step>, StateId) {
        let follow = self.add_state(StateKind::Plain, rule);
        self.add_edge(at, Edge::Call { rule: called, precedence, follow });
        (Some(Step::Call(called, precedence, at)), follow)
    }

    fn add_star(
        &mut self,
        rule: Rule,
        alternatives: Alternatives,
        predicted: bool,
        at: StateId,
    ) -> (Option<Step>, StateId) {
        let entry = self.add_state(StateKind::Choice, rule);
        let choice = self.add_state(StateKind::Choice, rule);
        let (back, end) = (self.add_state(StateKind::LoopBack, rule), self.add_state(StateKind::Plain, rule));
        self.add_edge(at, Edge::Epsilon(entry));
        self.add_edge(entry, Edge::Epsilon(choice));
        let body = self.add_choice(rule, choice, alternatives, back);
        self.add_edge(entry, Edge::Epsilon(end));
        self.add_edge(back, Edge::Epsilon(entry));
        (Some(Step::Loop(Loop { entry, back, body, at_least_once: false, predicted })), end)
    }

    fn add_plus(
        &mut self,
        rule: Rule,
        parts: &'static [Part],
        predicted: bool,
        at: StateId,
    ) -> (Option<Step>, StateId) {
        let entry = self.add_state(StateKind::Choice, rule);
        let (back, end) = (self.add_state(StateKind::LoopBack, rule), self.add_state(StateKind::Plain, rule));
        self.add_edge(at, Edge::Epsilon(entry));
        let first = self.add_state(StateKind::Plain, rule);
        self.add_edge(entry, Edge::Epsilon(first));
        let steps = self.add_sequence(rule, parts, first, back);
        self.add_edge(back, Edge::Epsilon(entry));
        self.add_edge(back, Edge::Epsilon(end));
        let body = Choice { state: entry, alternatives: vec![steps], predicted: false };
        (Some(Step::Loop(Loop { entry, back, body, at_least_once: true, predicted })), end)
    }

    /// Adds a transition from the end of each rule to after all its calls, for predictions without known callers.
    fn return_everywhere(&mut self, ends: &[StateId]) {
        let calls: Vec<Edge> = self.states.iter().flat_map(|state| state.edges.clone()).collect();
        for edge in calls {
            if let Edge::Call { rule, precedence, follow } = edge {
                let outermost = precedence == 0 && is_recursive(rule);
                let end = ends.get(rule as usize).copied().unwrap_or_default();
                self.add_edge(end, Edge::Return { to: follow, outermost });
            }
        }
    }
}
