//! What is wrong with a text that does not parse, in the words of cel-go: its parser is made by ANTLR, which goes on after
//! an error by leaving out or making up tokens. This does the same over the same grammar, for its messages only.

mod grammar;
mod predict;

use std::sync::OnceLock;

use super::DEPTH_MAX;
use super::lexer::{Kind, Lexed, Token};
use crate::issue::Issues;
use grammar::{Choice, Edge, Loop, Network, Rule, Set, StateId, StateKind, Step};
use predict::{Decision, NoViable};

/// How often the parser recovers from errors.
const RECOVERIES_MAX: usize = 30;
/// How many tokens it leaves out at once.
const SKIPPED_MAX: usize = 256;
/// How many syntax errors it reports.
const REPORTS_MAX: usize = 100;

/// Reports what the lexer did not recognize.
pub(super) fn unrecognized(text: &str, lexed: &Lexed, issues: &mut Issues) {
    for unrecognized in &lexed.unrecognized {
        let shown = text.get(unrecognized.start..unrecognized.end).unwrap_or_default();
        issues.report(
            Some(unrecognized.offset),
            format!("Syntax error: token recognition error at: '{shown}'"),
        );
    }
}

/// Reports the syntax errors of a text that does not parse.
pub(super) fn explain(text: &str, lexed: &Lexed, issues: &mut Issues) {
    static NETWORK: OnceLock<Network> = OnceLock::new();
    unrecognized(text, lexed, issues);
    let kinds: Vec<Kind> = lexed.tokens.iter().map(|token| token.kind).collect();
    let mut recovery = Recovery {
        network: NETWORK.get_or_init(Network::new),
        text,
        lexed,
        kinds: &kinds,
        next: 0,
        state: 0,
        callers: Vec::new(),
        depths: [0; 17],
        recovering: false,
        last_error: None,
        recoveries: 0,
        issues,
    };
    // An abort is reported where it happens.
    let _ = recovery.rule(Rule::Start, 0, None);
}

struct Recovery<'a> {
    network: &'a Network,
    text: &'a str,
    lexed: &'a Lexed,
    kinds: &'a [Kind],
    next: usize,
    state: StateId,
    /// The states that called the rules that are under way; none for the first.
    callers: Vec<Option<StateId>>,
    /// How often each rule is within itself.
    depths: [u32; 17],
    recovering: bool,
    /// The token and the states of the last error.
    last_error: Option<(usize, Vec<StateId>)>,
    recoveries: usize,
    issues: &'a mut Issues,
}

/// Why a rule ends early.
enum Failure {
    Mismatch,
    /// The tokens from the first to the second index are no beginning of any alternative.
    NoViable(usize, usize),
    /// The parser gives up.
    Abort,
}

impl Recovery<'_> {
    fn kind(&self, ahead: usize) -> Kind {
        self.kinds.get(self.next + ahead).copied().unwrap_or(Kind::End)
    }

    fn token(&self, index: usize) -> Option<&Token> {
        self.lexed.tokens.get(index).or(self.lexed.tokens.last())
    }

    fn consume(&mut self) {
        if self.kind(0) != Kind::End {
            self.next += 1;
        }
    }

    fn syntax_error(&mut self, index: usize, message: String) -> Result<(), Failure> {
        let offset = self.token(index).map(|token| token.offset);
        if self.issues.list().len() >= REPORTS_MAX {
            self.issues.report(offset, format!("Syntax error: More than {REPORTS_MAX} syntax errors"));
            return Err(Failure::Abort);
        }
        self.issues.report(offset, format!("Syntax error: {message}"));
        Ok(())
    }

    /// Enters the rule, and recovers from an error within it.
    fn rule(&mut self, rule: Rule, precedence: u8, caller: Option<StateId>) -> Result<(), Failure> {
        self.callers.push(caller);
        let before = self.depths;
        self.deeper(rule)?;
        let network = self.network;
        let outcome = match network.rules.get(rule as usize) {
            Some(choice) => self.choice(choice, rule, precedence),
            None => Ok(()),
        };
        match outcome {
            Ok(()) => {}
            Err(Failure::Abort) => return Err(Failure::Abort),
            Err(failure) => {
                self.report(&failure)?;
                self.recover()?;
            }
        }
        self.depths = before;
        self.callers.pop();
        Ok(())
    }

    fn deeper(&mut self, rule: Rule) -> Result<(), Failure> {
        if let Some(depth) = self.depths.get_mut(rule as usize) {
            *depth += 1;
            if *depth > DEPTH_MAX {
                self.issues.report(None, format!("expression recursion limit exceeded: {DEPTH_MAX}"));
                return Err(Failure::Abort);
            }
        }
        Ok(())
    }

    fn choice(&mut self, choice: &Choice, rule: Rule, precedence: u8) -> Result<(), Failure> {
        let alternative = if choice.alternatives.len() == 1 {
            1
        } else {
            self.state = choice.state;
            self.sync()?;
            if choice.predicted {
                self.predict(choice.state, precedence, false)?
            } else {
                let sets = self.alternative_sets(choice.state);
                let kind = self.kind(0);
                let found = sets.iter().position(|set| set.has(kind));
                found.ok_or(Failure::NoViable(self.next, self.next))? + 1
            }
        };
        match choice.alternatives.get(alternative - 1) {
            Some(steps) => self.steps(steps, rule, precedence),
            None => Ok(()),
        }
    }

    fn steps(&mut self, steps: &[Step], rule: Rule, precedence: u8) -> Result<(), Failure> {
        for step in steps {
            match step {
                Step::Match(set, at, next) => {
                    self.state = *at;
                    self.match_token(*set, *next)?;
                }
                Step::Call(called, precedence, at) => {
                    self.state = *at;
                    self.rule(*called, *precedence, Some(*at))?;
                }
                Step::Optional(choice, steps) => {
                    self.state = *choice;
                    self.sync()?;
                    let sets = self.alternative_sets(*choice);
                    if sets.first().is_some_and(|set| set.has(self.kind(0))) {
                        self.steps(steps, rule, precedence)?;
                    }
                }
                Step::Loop(it) if it.at_least_once => self.plus(it, rule, precedence)?,
                Step::Loop(it) => self.star(it, rule, precedence)?,
            }
        }
        Ok(())
    }

    fn star(&mut self, it: &Loop, rule: Rule, precedence: u8) -> Result<(), Failure> {
        let recursive = matches!(rule, Rule::Relation | Rule::Calc | Rule::Member);
        self.state = it.entry;
        self.sync()?;
        loop {
            let goes_on = if it.predicted {
                self.predict(it.entry, precedence, recursive)? == 1
            } else {
                self.alternative_sets(it.entry).first().is_some_and(|set| set.has(self.kind(0)))
            };
            if !goes_on {
                return Ok(());
            }
            if recursive {
                self.deeper(rule)?;
            }
            self.choice(&it.body, rule, precedence)?;
            self.state = it.back;
            self.sync()?;
        }
    }

    fn plus(&mut self, it: &Loop, rule: Rule, precedence: u8) -> Result<(), Failure> {
        self.state = it.entry;
        self.sync()?;
        loop {
            self.choice(&it.body, rule, precedence)?;
            self.state = it.back;
            let synced = self.sync();
            let goes_on = if it.predicted {
                // A prediction that succeeds forgets the error before it.
                if matches!(synced, Err(Failure::Abort)) {
                    return synced;
                }
                self.predict(it.back, precedence, false)? == 1
            } else {
                synced?;
                self.alternative_sets(it.back).first().is_some_and(|set| set.has(self.kind(0)))
            };
            if !goes_on {
                return Ok(());
            }
        }
    }

    fn predict(&self, state: StateId, precedence: u8, of_recursion: bool) -> Result<usize, Failure> {
        let returns = self.callers.iter().filter_map(|caller| self.network.follow((*caller)?));
        let decision = Decision {
            network: self.network,
            state,
            precedence,
            of_recursion,
            callers: predict::stack(returns),
            tokens: self.kinds.get(self.next..).unwrap_or_default(),
        };
        decision.predict().map_err(|NoViable(index)| Failure::NoViable(self.next, self.next + index))
    }

    fn match_token(&mut self, set: Set, next: StateId) -> Result<(), Failure> {
        if set.has(self.kind(0)) {
            self.matched();
            self.consume();
            return Ok(());
        }
        self.count_recovery()?;
        if self.delete_token()? {
            self.consume();
            return Ok(());
        }
        if self.look_in_context(next).has(self.kind(0)) {
            if !std::mem::replace(&mut self.recovering, true) {
                let message = format!("missing {} at {}", self.expected().names(), self.shown(self.next));
                self.syntax_error(self.next, message)?;
            }
            return Ok(());
        }
        Err(Failure::Mismatch)
    }

    fn matched(&mut self) {
        self.recovering = false;
        self.last_error = None;
    }

    /// Leaves out a token when the one after it is what is expected.
    fn delete_token(&mut self) -> Result<bool, Failure> {
        if !self.expected().has(self.kind(1)) {
            return Ok(false);
        }
        self.report_unwanted()?;
        self.consume();
        self.matched();
        Ok(true)
    }

    fn report_unwanted(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.recovering, true) {
            return Ok(());
        }
        let message =
            format!("extraneous input {} expecting {}", self.shown(self.next), self.expected().names());
        self.syntax_error(self.next, message)
    }

    /// Looks before a choice or a loop whether the next token is in place there.
    fn sync(&mut self) -> Result<(), Failure> {
        if self.recovering {
            return Ok(());
        }
        let expected = self.look(self.state);
        if expected.end_of_rule || expected.has(self.kind(0)) {
            return Ok(());
        }
        match self.network.kind(self.state) {
            StateKind::Choice => {
                if self.delete_token()? {
                    Ok(())
                } else {
                    Err(Failure::Mismatch)
                }
            }
            StateKind::LoopBack => {
                self.report_unwanted()?;
                let until = self.expected().and(self.recovery_set());
                self.skip_until(until)
            }
            StateKind::Plain | StateKind::RuleEnd => Ok(()),
        }
    }

    fn report(&mut self, failure: &Failure) -> Result<(), Failure> {
        if std::mem::replace(&mut self.recovering, true) {
            return Ok(());
        }
        match failure {
            Failure::Abort => Ok(()),
            Failure::Mismatch => {
                let message = format!(
                    "mismatched input {} expecting {}",
                    self.shown(self.next),
                    self.expected().names()
                );
                self.syntax_error(self.next, message)
            }
            Failure::NoViable(start, offending) => {
                let input = self.input(*start, *offending);
                // cel-go keeps the message of an earlier version for these words.
                let message = match input.strip_prefix(|_: char| true) {
                    Some(word @ ("true" | "false" | "null")) => {
                        format!("mismatched input '{word}' expecting IDENTIFIER")
                    }
                    _ => format!("no viable alternative at input {}", quoted(&input)),
                };
                self.syntax_error(*offending, message)
            }
        }
    }

    fn recover(&mut self) -> Result<(), Failure> {
        self.count_recovery()?;
        let mut states = match self.last_error.take() {
            Some((index, states)) if index == self.next && states.contains(&self.state) => {
                // Once more at the same token: leave it out, or this goes on for ever.
                self.consume();
                states
            }
            Some((_, states)) => states,
            None => Vec::new(),
        };
        states.push(self.state);
        self.last_error = Some((self.next, states));
        self.skip_until(self.recovery_set())
    }

    fn count_recovery(&mut self) -> Result<(), Failure> {
        if self.recoveries == RECOVERIES_MAX {
            let message = format!("error recovery attempt limit exceeded: {RECOVERIES_MAX}");
            self.syntax_error(self.next, message)?;
            return Err(Failure::Abort);
        }
        self.recoveries += 1;
        Ok(())
    }

    fn skip_until(&mut self, set: Set) -> Result<(), Failure> {
        let mut skipped = 0;
        while self.kind(0) != Kind::End && !set.has(self.kind(0)) {
            if skipped == SKIPPED_MAX {
                self.issues
                    .report(None, format!("error recovery token lookahead limit exceeded: {SKIPPED_MAX}"));
                return Err(Failure::Abort);
            }
            skipped += 1;
            self.consume();
        }
        Ok(())
    }

    /// A token as messages show it.
    fn shown(&self, index: usize) -> String {
        match self.token(index) {
            Some(token) if token.kind != Kind::End => quoted(token.text(self.text)),
            _ => "'<EOF>'".into(),
        }
    }

    /// The text from one token to another, without what the lexer did not recognize.
    fn input(&self, start: usize, end: usize) -> String {
        let (Some(first), Some(last)) = (self.token(start), self.token(end)) else { return String::new() };
        if first.kind == Kind::End {
            return "<EOF>".into();
        }
        let mut out = String::new();
        let mut at = first.start;
        let within =
            self.lexed.unrecognized.iter().filter(|it| it.start >= first.start && it.end <= last.end);
        for unrecognized in within {
            out.push_str(self.text.get(at..unrecognized.start).unwrap_or_default());
            at = unrecognized.end;
        }
        out.push_str(self.text.get(at..last.end).unwrap_or_default());
        out
    }

    /// What can come at the current state, given the callers.
    fn expected(&self) -> Set {
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

    /// What can come after any of the rules under way.
    fn recovery_set(&self) -> Set {
        let follows = self.callers.iter().filter_map(|caller| self.network.follow((*caller)?));
        follows.fold(Set::default(), |set, follow| set.and(self.look(follow)))
    }

    /// The first tokens of each way out of a choice.
    fn alternative_sets(&self, choice: StateId) -> Vec<Set> {
        let target = |edge: &Edge| match edge {
            Edge::Epsilon(to) => Some(*to),
            _ => None,
        };
        self.network.edges(choice).iter().filter_map(target).map(|to| self.look(to)).collect()
    }

    /// What can come next within the rule.
    fn look(&self, state: StateId) -> Set {
        let mut set = Set::default();
        self.look_into(state, &mut set);
        set
    }

    fn look_into(&self, state: StateId, set: &mut Set) {
        if self.network.kind(state) == StateKind::RuleEnd {
            set.end_of_rule = true;
            return;
        }
        for edge in self.network.edges(state) {
            match edge {
                Edge::Epsilon(to) | Edge::Precedence(_, to) => self.look_into(*to, set),
                Edge::Tokens(tokens, _) => *set = set.and(*tokens),
                // No rule can be empty, so what follows the call does not matter.
                Edge::Call { rule, .. } => self.look_into(self.network.start(*rule), set),
            }
        }
    }

    /// What can come next, rules that end returning to their callers.
    fn look_in_context(&self, state: StateId) -> Set {
        let mut set = self.look(state);
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

/// In quotes, with tabs and line ends spelled out.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r"))
}
