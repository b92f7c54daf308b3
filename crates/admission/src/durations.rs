//! Durations of plugins and steps. Series are resolved once and then updated without a lock.

use crate::{Operation, Plugin};
use pintle_meta::Status;
use pintle_metrics::{Handle, families};
use std::sync::OnceLock;
use std::time::Instant;

/// A step of admission.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Admit,
    Validate,
}

const STEPS: [&str; 2] = ["admit", "validate"];
const OPERATIONS: usize = 4;

/// The series of all plugins.
#[derive(Default)]
pub(crate) struct Durations {
    /// By step and operation.
    series: [OnceLock<StepSeries>; STEPS.len() * OPERATIONS],
}

struct StepSeries {
    plugins: Vec<Handle>,
    step: Handle,
    summary: Handle,
}

impl Durations {
    /// Begins to measure a step.
    pub(crate) fn begin(
        &self,
        step: Step,
        operation: Operation,
        plugins: &[Box<dyn Plugin>],
    ) -> Option<Measuring<'_>> {
        let began = Instant::now();
        let place = (step as usize).saturating_mul(OPERATIONS).saturating_add(operation as usize);
        let name = STEPS.get(step as usize).copied().unwrap_or("");
        let series = self.series.get(place)?.get_or_init(|| StepSeries::new(plugins, operation, name));
        Some(Measuring { series, operation, step: name, began, before: began, asked: 0 })
    }

    /// Runs the plugins until one refuses, and measures each.
    pub(crate) fn measure(
        &self,
        step: Step,
        operation: Operation,
        plugins: &[Box<dyn Plugin>],
        mut ask: impl FnMut(&dyn Plugin) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let mut measuring = self.begin(step, operation, plugins);
        for plugin in plugins {
            let outcome = ask(&**plugin);
            if let Some(measuring) = &mut measuring {
                measuring.observe(&**plugin, &outcome);
            }
            outcome?;
        }
        if let Some(measuring) = measuring {
            measuring.end();
        }
        Ok(())
    }
}

/// Measures one step, whose plugins run one after the other.
pub(crate) struct Measuring<'a> {
    series: &'a StepSeries,
    operation: Operation,
    step: &'static str,
    began: Instant,
    before: Instant,
    asked: usize,
}

impl Measuring<'_> {
    /// Records the plugin that just ran; a refusal ends the step.
    pub(crate) fn observe(&mut self, plugin: &dyn Plugin, outcome: &Result<(), Status>) {
        let now = Instant::now();
        let seconds = now.duration_since(self.before).as_secs_f64();
        self.before = now;
        let handle = self.series.plugins.get(self.asked);
        self.asked = self.asked.saturating_add(1);
        if outcome.is_err() {
            let labels = [self.operation.name(), "true", self.step];
            let total = now.duration_since(self.began).as_secs_f64();
            families::ADMISSION_CONTROLLER
                .observe(&[plugin.name(), self.operation.name(), "true", self.step], seconds);
            families::ADMISSION_STEP.observe(&labels, total);
            families::ADMISSION_STEP_SUMMARY.observe(&labels, total);
        } else if let Some(handle) = handle {
            handle.observe(families::ADMISSION_CONTROLLER.buckets(), seconds);
        }
    }

    /// Records a step in which no plugin refused.
    pub(crate) fn end(self) {
        let total = self.before.duration_since(self.began).as_secs_f64();
        self.series.step.observe(families::ADMISSION_STEP.buckets(), total);
        self.series.summary.observe(&[], total);
    }
}

impl StepSeries {
    fn new(plugins: &[Box<dyn Plugin>], operation: Operation, step: &str) -> Self {
        let labels = [operation.name(), "false", step];
        let of = |name| families::ADMISSION_CONTROLLER.with(&[name, operation.name(), "false", step]);
        StepSeries {
            plugins: plugins.iter().map(|plugin| of(plugin.name())).collect(),
            step: families::ADMISSION_STEP.with(&labels),
            summary: families::ADMISSION_STEP_SUMMARY.with(&labels),
        }
    }
}
