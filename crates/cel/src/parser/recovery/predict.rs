//! Predicts the next alternative: follows all of them at once over as many tokens as necessary (ANTLR's ALL(*)).
//!
//! First without the callers of the rule, which accepts too much; only if that does not decide, again with the callers.
//! Messages depend on where each of the two fails, so both are here.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::lexer::Kind;
use super::network::{Edge, Network, StateId, StateKind};

/// The maximum number of configurations that are followed; beyond that, the exact message does not matter.
const CONFIGS_MAX: usize = 5_000;
/// The maximum number of configurations that the predictions of one text may process. Their number can double with
/// every token.
pub(super) const WORK_MAX: u64 = 1_000_000;
/// The work of detecting conflicts, per configuration.
const CONFLICT_WORK: usize = 32;

/// A stack of states to return to.
pub(super) type Stack = Option<Rc<Frame>>;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frame {
    to: StateId,
    below: Stack,
}

/// The stack of the callers.
pub(super) fn stack(returns: impl Iterator<Item = StateId>) -> Stack {
    returns.fold(None, |below, to| Some(Rc::new(Frame { to, below })))
}

/// A possible parser state of an alternative.
#[derive(Clone, Debug, PartialEq)]
struct Config {
    state: StateId,
    alternative: usize,
    stack: Stack,
    /// A precedence that must still be tested.
    precedence: Option<u8>,
    /// Whether the parser left the rule of the decision.
    left_rule: bool,
    /// Returned from the call that began the recursion, so the loop must not be entered again.
    suppressed: bool,
}

/// A prediction to be made.
pub(super) struct Decision<'a> {
    pub(super) network: &'a Network,
    pub(super) state: StateId,
    /// The precedence with which the rule was entered.
    pub(super) precedence: u8,
    /// Whether the decision is whether a left-recursive rule continues.
    pub(super) of_recursion: bool,
    pub(super) callers: Stack,
    /// The tokens from the decision on; the last one is `End`.
    pub(super) tokens: &'a [Kind],
    /// The remaining work for the predictions of this text.
    pub(super) work: &'a Cell<u64>,
}

/// No alternative matches the token at this index.
pub(super) struct NoViable(pub(super) usize);

#[derive(Clone, Copy)]
struct Mode {
    full: bool,
    collect: bool,
    end_is_epsilon: bool,
}

impl Decision<'_> {
    /// The alternative, counted from 1.
    pub(super) fn predict(&self) -> Result<usize, NoViable> {
        let mut before = self.begin(&None, false);
        if self.of_recursion {
            before = self.remove_repeated_precedence(before);
        }
        for index in 0.. {
            let kind = self.token(index);
            let reached = self.advance_over(&before, kind, false);
            if reached.is_empty() || self.is_too_much(&reached) {
                return self.finished(&before).ok_or(NoViable(index));
            }
            if let Some(alternative) = unique(&reached) {
                let holds = reached.iter().any(|config| self.holds(config));
                return if holds { Ok(alternative) } else { Err(NoViable(0)) };
            }
            if self.all_ended(&reached) || conflicts(&reached) {
                return self.predict_with_callers();
            }
            if kind == Kind::End {
                // The result cannot change any more.
                return self.finished(&reached).ok_or(NoViable(index));
            }
            before = reached;
        }
        Err(NoViable(0))
    }

    fn predict_with_callers(&self) -> Result<usize, NoViable> {
        let mut before = self.begin(&self.callers, true);
        for index in 0.. {
            let kind = self.token(index);
            let reached = self.advance_over(&before, kind, true);
            if reached.is_empty() || self.is_too_much(&reached) {
                // The Go runtime has returned to the first token when it creates this error.
                return self.finished(&before).ok_or(NoViable(0));
            }
            if let Some(alternative) = unique(&reached).or_else(|| single_viable(&reached)) {
                return Ok(alternative);
            }
            if kind == Kind::End {
                return self.finished(&reached).ok_or(NoViable(0));
            }
            before = reached;
        }
        Err(NoViable(0))
    }

    /// Takes work from the budget; returns whether there was enough.
    fn work(&self, configs: usize) -> bool {
        let left = self.work.get().checked_sub((configs as u64).saturating_add(1));
        self.work.set(left.unwrap_or(0));
        left.is_some()
    }

    fn is_too_much(&self, reached: &[Config]) -> bool {
        reached.len() > CONFIGS_MAX || !self.work(reached.len().saturating_mul(CONFLICT_WORK))
    }

    fn token(&self, index: usize) -> Kind {
        self.tokens.get(index).copied().unwrap_or(Kind::End)
    }

    fn holds(&self, config: &Config) -> bool {
        config.precedence.is_none_or(|precedence| precedence >= self.precedence)
    }

    fn begin(&self, callers: &Stack, full: bool) -> Vec<Config> {
        let mut configs = Vec::new();
        let mode = Mode { full, collect: true, end_is_epsilon: false };
        for (index, edge) in self.network.edges(self.state).iter().enumerate() {
            let Edge::Epsilon(state) = edge else { continue };
            let config = Config {
                state: *state,
                alternative: index.saturating_add(1),
                stack: callers.clone(),
                precedence: None,
                left_rule: false,
                suppressed: false,
            };
            self.close(config, &mut configs, &mut Vec::new(), mode, 0);
        }
        configs
    }

    /// Removes configurations that a left-recursive rule reaches both by continuing and by ending and starting again.
    fn remove_repeated_precedence(&self, configs: Vec<Config>) -> Vec<Config> {
        let mut continuing: Vec<Config> = configs
            .iter()
            .filter(|config| config.alternative == 1 && self.holds(config))
            .map(|config| Config { precedence: None, ..config.clone() })
            .collect();
        let is_repeated = |config: &Config| {
            !config.suppressed
                && continuing.iter().any(|kept| kept.state == config.state && kept.stack == config.stack)
        };
        let other: Vec<Config> = configs
            .iter()
            .filter(|config| config.alternative != 1 && !is_repeated(config))
            .cloned()
            .collect();
        continuing.extend(other);
        continuing
    }

    fn advance_over(&self, configs: &[Config], kind: Kind, full: bool) -> Vec<Config> {
        let at_end = kind == Kind::End;
        let mut reached = Vec::new();
        let mut ended = Vec::new();
        let mut busy = Vec::new();
        let mode = Mode { full, collect: false, end_is_epsilon: at_end };
        for config in configs {
            if self.network.kind(config.state) == StateKind::RuleEnd {
                if full || at_end {
                    ended.push(config.clone());
                }
                continue;
            }
            for edge in self.network.edges(config.state) {
                if let Edge::Tokens(set, to) = edge
                    && set.has(kind)
                {
                    self.close(Config { state: *to, ..config.clone() }, &mut reached, &mut busy, mode, 0);
                }
            }
        }
        if at_end {
            reached.retain(|config| self.network.kind(config.state) == StateKind::RuleEnd);
        }
        if !full || !reached.iter().any(|config| self.network.kind(config.state) == StateKind::RuleEnd) {
            ended.into_iter().for_each(|config| add(&mut reached, config));
        }
        reached
    }

    /// Adds all configurations that `config` reaches without a token.
    fn close(
        &self,
        config: Config,
        configs: &mut Vec<Config>,
        busy: &mut Vec<Config>,
        mode: Mode,
        depth: i32,
    ) {
        if configs.len() > CONFIGS_MAX || !self.work(configs.len().saturating_add(busy.len())) {
            return;
        }
        if self.network.kind(config.state) == StateKind::RuleEnd {
            if let Some(frame) = config.stack.clone() {
                let back = Config { state: frame.to, stack: frame.below.clone(), ..config };
                return self.close(back, configs, busy, mode, depth);
            }
            if mode.full {
                return add(configs, config);
            }
        }
        self.close_edges(&config, configs, busy, mode, depth);
    }

    fn close_edges(
        &self,
        config: &Config,
        configs: &mut Vec<Config>,
        busy: &mut Vec<Config>,
        mode: Mode,
        depth: i32,
    ) {
        let edges = self.network.edges(config.state);
        if edges.is_empty() || edges.iter().any(|edge| matches!(edge, Edge::Tokens(..))) {
            add(configs, config.clone());
        }
        let leaves = self.network.kind(config.state) == StateKind::RuleEnd;
        for edge in edges {
            let (mut next, mut depth) = (config.clone(), depth);
            match edge {
                Edge::Epsilon(to) | Edge::Return { to, .. } => next.state = *to,
                Edge::Call { rule, follow, .. } => {
                    next.stack = Some(Rc::new(Frame { to: *follow, below: next.stack }));
                    next.state = self.network.start(*rule);
                    depth = depth.saturating_add(i32::from(depth >= 0));
                }
                Edge::Precedence(precedence, to) => {
                    next.state = *to;
                    if mode.collect && depth == 0 {
                        if mode.full && *precedence < self.precedence {
                            continue;
                        }
                        next.precedence = (!mode.full).then_some(*precedence);
                    }
                }
                Edge::Tokens(set, to) if mode.end_is_epsilon && set.has(Kind::End) => next.state = *to,
                Edge::Tokens(..) => continue,
            }
            if leaves {
                next.left_rule = true;
                let rule = |state: StateId| self.network.states.get(state).map(|state| state.rule);
                let outermost = matches!(edge, Edge::Return { outermost: true, .. });
                next.suppressed |= self.of_recursion && outermost && rule(config.state) == rule(self.state);
                if busy.contains(&next) {
                    continue;
                }
                busy.push(next.clone());
                depth = depth.saturating_sub(1);
            }
            self.close(next, configs, busy, mode, depth);
        }
    }

    /// The first alternative that has completed the rule of the decision.
    fn finished(&self, configs: &[Config]) -> Option<usize> {
        let through = |config: &&Config| {
            config.left_rule
                || (self.network.kind(config.state) == StateKind::RuleEnd && config.stack.is_none())
        };
        let first = |holding: bool| {
            let through = configs.iter().filter(through).filter(|config| self.holds(config) == holding);
            through.map(|config| config.alternative).min()
        };
        first(true).or_else(|| first(false))
    }

    fn all_ended(&self, configs: &[Config]) -> bool {
        configs.iter().all(|config| self.network.kind(config.state) == StateKind::RuleEnd)
    }
}

fn add(configs: &mut Vec<Config>, config: Config) {
    let known = configs.iter_mut().find(|known| {
        known.state == config.state
            && known.alternative == config.alternative
            && known.stack == config.stack
            && known.precedence == config.precedence
    });
    match known {
        Some(known) => {
            known.left_rule |= config.left_rule;
            known.suppressed |= config.suppressed;
        }
        None => configs.push(config),
    }
}

fn unique(configs: &[Config]) -> Option<usize> {
    let first = configs.first()?.alternative;
    configs.iter().all(|config| config.alternative == first).then_some(first)
}

/// The stacks of each alternative, by state.
fn by_state(configs: &[Config]) -> BTreeMap<StateId, BTreeMap<usize, Vec<&Stack>>> {
    let mut states: BTreeMap<StateId, BTreeMap<usize, Vec<&Stack>>> = BTreeMap::new();
    for config in configs {
        states.entry(config.state).or_default().entry(config.alternative).or_default().push(&config.stack);
    }
    for stacks in states.values_mut().flat_map(BTreeMap::values_mut) {
        stacks.sort_unstable();
        stacks.dedup();
        // An empty stack matches any.
        if stacks.first().is_some_and(|stack| stack.is_none()) {
            stacks.truncate(1);
        }
    }
    states
}

/// The sets of alternatives that are at one state with the same stacks.
fn alternative_sets(configs: &[Config]) -> Vec<Vec<usize>> {
    let mut sets = Vec::new();
    for alternatives in by_state(configs).into_values() {
        let mut grouped: Vec<(Vec<&Stack>, Vec<usize>)> = Vec::new();
        for (alternative, stacks) in alternatives {
            match grouped.iter_mut().find(|(known, _)| *known == stacks) {
                Some((_, set)) => set.push(alternative),
                None => grouped.push((stacks, vec![alternative])),
            }
        }
        sets.extend(grouped.into_iter().map(|(_, set)| set));
    }
    sets
}

/// Whether more tokens cannot distinguish the alternatives without the callers.
fn conflicts(configs: &[Config]) -> bool {
    alternative_sets(configs).iter().any(|set| set.len() > 1)
        && by_state(configs).values().all(|alternatives| alternatives.len() > 1)
}

/// The alternative that comes first wherever alternatives meet.
fn single_viable(configs: &[Config]) -> Option<usize> {
    let sets = alternative_sets(configs);
    let first = *sets.first()?.first()?;
    sets.iter().all(|set| set.first() == Some(&first)).then_some(first)
}
