//! Applies the API objects: which levels and schemas are in force, and how the seats are divided among the levels.

use super::{Config, Controller, sort};
use crate::level::Level;
use crate::objects::{LevelObject, SchemaObject};
use crate::queues::Queuing;
use crate::schema::{Distinguisher, Rule};
use crate::shares::{Limits, allocate};
use crate::{CATCH_ALL, EXEMPT, Flow};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A schema that is in force.
pub(crate) struct Schema<D> {
    pub(crate) flow: Arc<Flow>,
    pub(crate) level: Arc<Level<D>>,
    /// The number of queues of the schema's level.
    pub(crate) queues: usize,
    pub(crate) distinguisher: Distinguisher,
    pub(crate) rules: Vec<Rule>,
}

/// The part of the state that is only used when the configuration changes.
#[derive(Default)]
pub(crate) struct Configuring {
    /// Flows that are no longer in force, until all of their requests have ended and are reported.
    pub(crate) retired: Vec<Arc<Flow>>,
    pub(crate) fair_fraction: f64,
    seats_sum: u64,
}

type Levels<D> = BTreeMap<Arc<str>, Arc<Level<D>>>;

impl<D> Controller<D> {
    /// Applies the current objects. A level whose object was deleted continues while it has requests.
    pub fn configure(&self, levels: Vec<LevelObject>, schemas: Vec<SchemaObject>) {
        let mut configuring = self.configuring.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        let old = self.config.load_full();
        let mut new: Levels<D> = BTreeMap::new();
        for object in levels {
            new.insert(Arc::clone(&object.name), take_over(&old.levels, now, object));
        }
        let mut known: Vec<SchemaObject> =
            schemas.into_iter().filter(|schema| new.contains_key(&schema.level)).collect();
        sort(&mut known);
        self.keep_old(&old.levels, &mut new);
        for object in [LevelObject::exempt(), LevelObject::catch_all()] {
            new.entry(Arc::clone(&object.name)).or_insert_with(|| Arc::new(Level::new(now, object)));
        }
        if !known.iter().any(|schema| &*schema.name == EXEMPT) {
            known.insert(0, SchemaObject::exempt());
        }
        if !known.iter().any(|schema| &*schema.name == CATCH_ALL) {
            known.push(SchemaObject::catch_all());
        }
        configuring.seats_sum = self.set_limits(&new, now);
        configuring.fair_fraction = self.divide_seats(&new, configuring.seats_sum, now);
        let in_force: Vec<Schema<D>> =
            known.into_iter().filter_map(|schema| schema_of(schema, &new, &old)).collect();
        let is_retired = |flow: &Arc<Flow>| !in_force.iter().any(|schema| Arc::ptr_eq(&schema.flow, flow));
        configuring.retired.extend(old.schemas.iter().map(|s| Arc::clone(&s.flow)).filter(is_retired));
        self.config.store(Arc::new(Config { schemas: in_force, levels: new }));
    }

    /// Levels whose object was deleted stay while they have requests; the mandatory ones always stay.
    fn keep_old(&self, old: &Levels<D>, new: &mut Levels<D>) {
        for (name, level) in old {
            if new.contains_key(name) {
                continue;
            }
            let mut state = level.state();
            if !matches!(&**name, EXEMPT | CATCH_ALL) {
                if state.is_idle() {
                    continue;
                }
                state.quiescing = true;
            }
            drop(state);
            new.insert(Arc::clone(name), Arc::clone(level));
        }
    }

    /// Gives each level its limits; returns the sum of all seats, which rounding makes a little larger than the server's.
    #[expect(clippy::cast_precision_loss, reason = "small numbers of requests")]
    fn set_limits(&self, levels: &Levels<D>, now: Duration) -> u64 {
        let shares: u64 = levels.values().map(|level| level.state().object.shares.nominal).sum();
        let (mut seats, mut places) = (0u64, 0usize);
        for level in levels.values() {
            let mut state = level.state();
            let limits = Limits::new(state.object.shares, self.seats, shares);
            state.set_limits(limits);
            seats = seats.saturating_add(limits.nominal);
            if let Queuing::Queue(options) = state.object.queuing {
                places = places.saturating_add(options.queues.saturating_mul(options.queue_length_max));
            }
        }
        let mut gauges = self.read_write.lock().unwrap_or_else(PoisonError::into_inner);
        let denominators = [seats as f64, seats as f64, places as f64, places as f64];
        for (gauge, denominator) in gauges.iter_mut().zip(denominators) {
            gauge.ratio.set_denominator(now, denominator);
        }
        seats
    }

    /// Divides the seats by the demand of the levels in the last period; returns the proportion. Called every ten
    /// seconds and when objects change.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "as Go computes it"
    )]
    fn divide_seats(&self, levels: &Levels<D>, sum: u64, now: Duration) -> f64 {
        let (mut exempt, mut lower, mut least) = (0u64, 0u64, 0u64);
        let mut claims = Vec::new();
        for level in levels.values() {
            let mut state = level.state();
            state.measure(now);
            if state.is_exempt() {
                exempt = exempt.saturating_add(state.least_seats());
            } else {
                lower = lower.saturating_add(state.limits.lower);
                least = least.saturating_add(state.least_seats());
                claims.push(state.claim());
            }
        }
        let left = sum.saturating_sub(exempt);
        let allocated = if left > least { allocate(sum, &claims) } else { None };
        let part = if least > lower {
            left.saturating_sub(lower) as f64 / least.saturating_sub(lower) as f64
        } else {
            0.0
        };
        let idle_denominator = (self.seats as f64 / 10.0).round().max(1.0);
        let mut next = 0;
        for level in levels.values() {
            let mut state = level.state();
            let seats = match &allocated {
                _ if state.is_exempt() => state.least_seats(),
                Some((seats, _)) => seats.get(next).map_or(0, |seats| seats.round() as u64),
                None if left > least => state.current,
                None => {
                    let more = state.least_seats().saturating_sub(state.limits.lower) as f64 * part.min(1.0);
                    state.limits.lower.saturating_add(more.round() as u64)
                }
            };
            // kube-apiserver shows the first target for the exempt level.
            let target = if state.is_exempt() { claims.first() } else { claims.get(next) };
            state.target = target.map_or(0.0, |claim| claim.target);
            next = next.saturating_add(usize::from(!state.is_exempt()));
            state.set_seats(now, seats, idle_denominator);
        }
        allocated.map_or(0.0, |(_, proportion)| proportion)
    }

    /// Divides the seats again. Must be called every ten seconds.
    pub fn adjust(&self) {
        let mut configuring = self.configuring.lock().unwrap_or_else(PoisonError::into_inner);
        let config = self.config.load();
        configuring.fair_fraction = self.divide_seats(&config.levels, configuring.seats_sum, self.now());
    }

    /// Frees seats whose time has passed. Returns when the next seats become free, and whether a level without an
    /// object became idle, so that [`Controller::configure`] should be called.
    pub fn maintain(&self) -> (Option<Duration>, bool) {
        let now = self.now();
        let mut next: Option<Duration> = None;
        let mut is_over = false;
        for level in self.config.load().levels.values() {
            let mut state = level.state();
            let due = state.expire(now);
            next = [next, due].into_iter().flatten().min();
            is_over |= state.quiescing && state.is_idle();
        }
        (next, is_over)
    }
}

/// The level of this object: the existing level with updated settings, or a new one.
fn take_over<D>(old: &Levels<D>, now: Duration, object: LevelObject) -> Arc<Level<D>> {
    match old.get(&object.name) {
        Some(level) => {
            let mut state = level.state();
            state.object = object;
            state.quiescing = false;
            drop(state);
            Arc::clone(level)
        }
        None => Arc::new(Level::new(now, object)),
    }
}

/// The schema in force. It continues the statistics of the same schema and level.
fn schema_of<D>(schema: SchemaObject, levels: &Levels<D>, old: &Config<D>) -> Option<Schema<D>> {
    let level = levels.get(&schema.level)?;
    let state = level.state();
    let queues = match state.object.queuing {
        Queuing::Queue(options) => options.queues,
        Queuing::Exempt | Queuing::Reject => 0,
    };
    let level_uid = state.object.uid.clone();
    drop(state);
    let is_same = |flow: &&Arc<Flow>| {
        flow.schema == schema.name
            && flow.level == schema.level
            && flow.schema_uid == schema.uid
            && flow.level_uid == level_uid
    };
    let flow = old.schemas.iter().map(|schema| &schema.flow).find(is_same).cloned();
    let flow = flow.unwrap_or_else(|| Arc::new(Flow::new(schema.name, schema.level, schema.uid, level_uid)));
    Some(Schema {
        flow,
        level: Arc::clone(level),
        queues,
        distinguisher: schema.distinguisher,
        rules: schema.rules,
    })
}
