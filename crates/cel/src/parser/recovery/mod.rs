//! What is wrong with a text that does not parse, in the words of cel-go: its parser is made by ANTLR, which goes on after
//! an error by leaving out or making up tokens. This does the same over the same grammar, for its messages only.

mod complain;
mod follow;
mod foresee;
mod grammar;
mod network;
mod predict;

use std::cell::Cell;
use std::sync::OnceLock;

use super::DEPTH_MAX;
use super::lexer::{Kind, Lexed, Token};
use crate::env::Options;
use crate::issue::Issues;
use foresee::Point;
use grammar::{Rule, is_recursive};
use network::{Choice, Loop, Network, Set, StateId, StateKind, Step};
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
pub(super) fn explain(text: &str, lexed: &Lexed, options: &Options, issues: &mut Issues) {
    explain_with(text, lexed, options, issues, false);
}

fn explain_with(text: &str, lexed: &Lexed, options: &Options, issues: &mut Issues, by_simulation: bool) {
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
        options,
        by_simulation,
        work: Cell::new(if by_simulation { u64::MAX } else { predict::WORK_MAX }),
        complaints: Vec::new(),
        issues,
    };
    // An abort is reported where it happens; the tree is not looked at then.
    if recovery.rule(Rule::Start, 0, None).is_ok() {
        let complaints = std::mem::take(&mut recovery.complaints);
        complaints.into_iter().for_each(|(offset, message)| recovery.issues.report(Some(offset), message));
    }
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
    options: &'a Options,
    /// Whether every prediction is simulated, for the test that `foresee` finds the same.
    by_simulation: bool,
    /// What the simulations may still take.
    work: Cell<u64>,
    /// What cel-go finds wrong with the tree that comes of the recovery.
    complaints: Vec<(u32, String)>,
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
        self.kinds.get(self.next.saturating_add(ahead)).copied().unwrap_or(Kind::End)
    }

    fn token(&self, index: usize) -> Option<&Token> {
        self.lexed.tokens.get(index).or(self.lexed.tokens.last())
    }

    fn consume(&mut self) {
        if self.kind(0) != Kind::End {
            self.next = self.next.saturating_add(1);
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
            *depth = depth.saturating_add(1);
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
                self.predict(Point::Among(rule), choice.state, precedence)?
            } else {
                let sets = self.alternative_sets(choice.state);
                let kind = self.kind(0);
                let found = sets.iter().position(|set| set.has(kind));
                found.ok_or(Failure::NoViable(self.next, self.next))?.saturating_add(1)
            }
        };
        let (first, complaints) = (self.next, self.complaints.len());
        let outcome = match choice.alternatives.get(alternative.saturating_sub(1)) {
            Some(steps) => self.steps(steps, rule, precedence),
            None => Ok(()),
        };
        match rule {
            Rule::Primary if alternative <= 2 => self.complain_about_name(first, complaints),
            Rule::Literal => self.complain_about_literal(first),
            Rule::EscapeIdent if alternative == 2 && !self.options.escaped_identifiers => {
                let offset = self.token(first).map_or(0, |token| token.offset);
                self.complaints.push((offset, super::ESCAPED_UNSUPPORTED.into()));
            }
            _ => {}
        }
        outcome
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
        self.state = it.entry;
        self.sync()?;
        loop {
            let goes_on = if it.predicted {
                self.predict(Point::Again(rule), it.entry, precedence)? == 1
            } else {
                self.alternative_sets(it.entry).first().is_some_and(|set| set.has(self.kind(0)))
            };
            if !goes_on {
                return Ok(());
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
                self.predict(Point::Again(rule), it.back, precedence)? == 1
            } else {
                synced?;
                self.alternative_sets(it.back).first().is_some_and(|set| set.has(self.kind(0)))
            };
            if !goes_on {
                return Ok(());
            }
        }
    }

    fn predict(&self, point: Point, state: StateId, precedence: u8) -> Result<usize, Failure> {
        let foreseen = if self.by_simulation { None } else { self.foresee(point, state, precedence) };
        let predicted = foreseen.unwrap_or_else(|| self.simulate(point, state, precedence));
        predicted.map_err(|NoViable(index)| Failure::NoViable(self.next, self.next.saturating_add(index)))
    }

    fn simulate(&self, point: Point, state: StateId, precedence: u8) -> Result<usize, NoViable> {
        let returns = self.callers.iter().filter_map(|caller| self.network.follow((*caller)?));
        let decision = Decision {
            network: self.network,
            state,
            precedence,
            of_recursion: matches!(point, Point::Again(rule) if is_recursive(rule)),
            callers: predict::stack(returns),
            tokens: self.kinds.get(self.next..).unwrap_or_default(),
            work: &self.work,
        };
        decision.predict()
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
                let message =
                    format!("missing {} at {}", self.expected().names(), self.error_text(self.next));
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
            format!("extraneous input {} expecting {}", self.error_text(self.next), self.expected().names());
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
                    self.error_text(self.next),
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
        self.recoveries = self.recoveries.saturating_add(1);
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
            skipped = skipped.saturating_add(1);
            self.consume();
        }
        Ok(())
    }

    /// A token as messages show it.
    fn error_text(&self, index: usize) -> String {
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
}

/// In quotes, with tabs and line ends spelled out.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r"))
}

#[cfg(test)]
mod tests {
    use super::super::lexer::lex;
    use super::*;

    fn explained(text: &str, by_simulation: bool) -> String {
        let mut issues = Issues::new(text.into());
        explain_with(text, &lex(text), &Options::default(), &mut issues, by_simulation);
        issues.to_string()
    }

    /// Texts of random tokens: what is foreseen is what the simulation finds.
    #[test]
    fn foreseen_as_simulated() {
        let words = [
            "a", "b", "1", "1.5", "2u", "'s'", "true", "null", ".", ".", "(", ")", "[", "]", "{", "}", ",",
            ":", "?", "+", "-", "-", "*", "==", "<", "in", "&&", "||", "!", "`a`", "if",
        ];
        let mut seed: u64 = 42;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap() % below
        };
        for _ in 0..1_000 {
            let length = 1 + random(9);
            let text: Vec<&str> = (0..length).map(|_| words[random(words.len())]).collect();
            let text = text.join(" ");
            assert_eq!(explained(&text, false), explained(&text, true), "{text}");
        }
    }
}
