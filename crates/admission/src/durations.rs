//! How long plugins take, by plugin and by step. Series are looked up once and then counted without a lock.

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
    /// Asks each plugin until one refuses, and measures them.
    pub(crate) fn measure(
        &self,
        step: Step,
        operation: Operation,
        plugins: &[Box<dyn Plugin>],
        mut ask: impl FnMut(&dyn Plugin) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let began = Instant::now();
        let place = (step as usize).saturating_mul(OPERATIONS).saturating_add(operation as usize);
        let name = STEPS.get(step as usize).copied().unwrap_or("");
        let Some(series) = self.series.get(place) else { return Ok(()) };
        let series = series.get_or_init(|| StepSeries::new(plugins, operation, name));
        let mut before = began;
        for (plugin, handle) in plugins.iter().zip(&series.plugins) {
            let outcome = ask(&**plugin);
            let now = Instant::now();
            let seconds = now.duration_since(before).as_secs_f64();
            before = now;
            if let Err(status) = outcome {
                let labels = [operation.name(), "true", name];
                let total = now.duration_since(began).as_secs_f64();
                families::ADMISSION_CONTROLLER
                    .observe(&[plugin.name(), operation.name(), "true", name], seconds);
                families::ADMISSION_STEP.observe(&labels, total);
                families::ADMISSION_STEP_SUMMARY.observe(&labels, total);
                return Err(status);
            }
            handle.observe(families::ADMISSION_CONTROLLER.buckets(), seconds);
        }
        let total = before.duration_since(began).as_secs_f64();
        series.step.observe(families::ADMISSION_STEP.buckets(), total);
        series.summary.observe(&[], total);
        Ok(())
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
