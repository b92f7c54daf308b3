//! Durations of plugins and steps. Series are resolved once and then updated without a lock.

use crate::Operation;
use crate::chain::NamedPlugin;
use pintle_metrics::{Handle, families};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A step of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Objects may be changed.
    Admit,
    /// Objects may only be refused.
    Validate,
}

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Step::Admit => "admit",
            Step::Validate => "validate",
        }
    }
}

/// A plugin that the engine implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the plugins")]
pub enum EnginePlugin {
    MutatingAdmissionPolicy,
    MutatingAdmissionWebhook,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionWebhook,
    ResourceQuota,
}

const ENGINE_PLUGINS: [&str; 5] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
];

/// The operations that each plugin of kube-apiserver handles when it admits and when it validates: C(reate), U(pdate),
/// D(elete) and X (connect). It is measured for these only.
const HANDLED: [(&str, &str, &str); 41] = [
    ("AlwaysAdmit", "CUDX", "CUDX"),
    ("AlwaysDeny", "CUDX", "CUDX"),
    ("AlwaysPullImages", "CU", "CU"),
    ("CertificateApproval", "", "U"),
    ("CertificateSigning", "", "U"),
    ("CertificateSubjectRestriction", "", "C"),
    ("ClusterTrustBundleAttest", "", "CU"),
    ("DefaultIngressClass", "C", ""),
    ("DefaultStorageClass", "C", ""),
    ("DefaultTolerationSeconds", "CU", ""),
    ("DenyServiceExternalIPs", "", "CU"),
    ("EventRateLimit", "", "CU"),
    ("ExtendedResourceToleration", "CU", ""),
    ("ImagePolicyWebhook", "", "CU"),
    ("JobValidation", "", "U"),
    ("LimitPodHardAntiAffinityTopology", "", "CU"),
    ("LimitRanger", "CU", "CU"),
    ("MutatingAdmissionPolicy", "CUX", ""),
    ("MutatingAdmissionWebhook", "CUDX", ""),
    ("NamespaceAutoProvision", "C", ""),
    ("NamespaceExists", "", "CUD"),
    ("NamespaceLifecycle", "CUD", ""),
    ("NodeDeclaredFeatureValidator", "", "U"),
    ("NodeRestriction", "CUD", ""),
    ("OwnerReferencesPermissionEnforcement", "", "CU"),
    ("PersistentVolumeClaimResize", "", "U"),
    ("PodGroupProtection", "C", ""),
    ("PodGroupWorkloadExists", "", "C"),
    ("PodNodeSelector", "C", "C"),
    ("PodResizeValidator", "", "U"),
    ("PodSecurity", "", "CU"),
    ("PodTolerationRestriction", "CU", "CU"),
    ("PodTopologyLabels", "C", ""),
    ("Priority", "CUD", "CUD"),
    ("ResourceQuota", "", "CU"),
    ("RuntimeClass", "C", "C"),
    ("ServiceAccount", "CU", "CU"),
    ("StorageObjectInUseProtection", "C", ""),
    ("TaintNodesByCondition", "C", ""),
    ("ValidatingAdmissionPolicy", "", "CUDX"),
    ("ValidatingAdmissionWebhook", "", "CUDX"),
];

const fn operation_letter(operation: Operation) -> char {
    match operation {
        Operation::Create => 'C',
        Operation::Update => 'U',
        Operation::Delete => 'D',
        Operation::Connect => 'X',
    }
}

fn handles(name: &str, step: Step, operation: Operation) -> bool {
    HANDLED.iter().any(|(known, admit, validate)| {
        let operations = if step == Step::Admit { admit } else { validate };
        *known == name && operations.contains(operation_letter(operation))
    })
}

const STEPS: usize = 2;
const OPERATIONS: usize = 4;

/// The series of all plugins.
#[derive(Default)]
pub(crate) struct Durations {
    /// By step and operation.
    series: [OnceLock<StepSeries>; STEPS * OPERATIONS],
}

/// The series of a plugin while a step runs.
type PluginSeries = Option<Handle>;

struct StepSeries {
    plugins: Vec<PluginSeries>,
    of_engine: [PluginSeries; ENGINE_PLUGINS.len()],
    step: Handle,
    summary: Handle,
}

impl Durations {
    /// Begins to measure a step; it ends when the result is dropped.
    pub(crate) fn begin(
        &self,
        step: Step,
        operation: Operation,
        plugins: &[NamedPlugin],
        is_on: impl Fn(&str) -> bool,
    ) -> Measuring<'_> {
        let began = Instant::now();
        let place = (step as usize).saturating_mul(OPERATIONS).saturating_add(operation as usize);
        let series = self.series.get(place);
        let series =
            series.map(|series| series.get_or_init(|| StepSeries::new(step, operation, plugins, is_on)));
        Measuring { series, operation, step, began, before: began, is_refused: false }
    }
}

/// Measures one step, whose plugins run one after the other.
pub struct Measuring<'a> {
    series: Option<&'a StepSeries>,
    operation: Operation,
    step: Step,
    began: Instant,
    before: Instant,
    is_refused: bool,
}

impl Measuring<'_> {
    /// Records one of the chain's plugins, by its place, which just ran.
    pub(crate) fn observe_plugin(&mut self, place: usize, name: &str, is_refused: bool) {
        let series = self.series.and_then(|series| series.plugins.get(place));
        self.observe_series(series, name, is_refused);
    }

    /// Records one of the chain's plugins, by its place, that has nothing to do with the request. kube-apiserver calls
    /// and measures it all the same; here it takes no time.
    pub(crate) fn observe_uncalled(&mut self, place: usize) {
        let series = self.series.and_then(|series| series.plugins.get(place));
        if let Some(Some(handle)) = series {
            handle.count_zero();
        }
    }

    /// Records a plugin of the engine that just ran.
    pub fn observe(&mut self, plugin: EnginePlugin, is_refused: bool) {
        let series = self.series.and_then(|series| series.of_engine.get(plugin as usize));
        let name = ENGINE_PLUGINS.get(plugin as usize).copied().unwrap_or("");
        self.observe_series(series, name, is_refused);
    }

    fn observe_series(&mut self, series: Option<&PluginSeries>, name: &str, is_refused: bool) {
        let series = series.and_then(Option::as_ref);
        if series.is_none() && !is_refused {
            return;
        }
        let now = Instant::now();
        let seconds = now.duration_since(self.before).as_secs_f64();
        self.before = now;
        if is_refused {
            self.is_refused = true;
            // A plugin may refuse in another step than in kube-apiserver; it counts as there.
            let other = if self.step == Step::Admit { Step::Validate } else { Step::Admit };
            let only_other =
                !handles(name, self.step, self.operation) && handles(name, other, self.operation);
            let step = if only_other { other } else { self.step };
            families::ADMISSION_CONTROLLER
                .observe(&[name, self.operation.name(), "true", step.name()], seconds);
            return;
        }
        if let Some(handle) = series {
            handle.observe(families::ADMISSION_CONTROLLER.buckets(), seconds);
        }
    }
}

impl Drop for Measuring<'_> {
    fn drop(&mut self) {
        let total = self.began.elapsed().as_secs_f64();
        match self.series {
            Some(series) if !self.is_refused => {
                series.step.observe(families::ADMISSION_STEP.buckets(), total);
                series.summary.observe(&[], total);
            }
            _ => {
                let labels = [self.operation.name(), "true", self.step.name()];
                families::ADMISSION_STEP.observe(&labels, total);
                families::ADMISSION_STEP_SUMMARY.observe(&labels, total);
            }
        }
    }
}

/// Records a plugin that ran before the step of admission in which kube-apiserver runs it first. If it refuses a request, the step is
/// over.
pub fn observe_first_plugin(name: &str, operation: Operation, is_refused: bool, took: Duration) {
    let (refused, seconds) = (if is_refused { "true" } else { "false" }, took.as_secs_f64());
    let step = [operation.name(), refused, Step::Admit.name()];
    families::ADMISSION_CONTROLLER.observe(&[name, operation.name(), refused, Step::Admit.name()], seconds);
    if is_refused {
        families::ADMISSION_STEP.observe(&step, seconds);
        families::ADMISSION_STEP_SUMMARY.observe(&step, seconds);
    }
}

impl StepSeries {
    fn new(step: Step, operation: Operation, plugins: &[NamedPlugin], is_on: impl Fn(&str) -> bool) -> Self {
        let plugin_series = |name: &str| -> PluginSeries {
            let labels = [name, operation.name(), "false", step.name()];
            handles(name, step, operation).then(|| families::ADMISSION_CONTROLLER.with(&labels))
        };
        let labels = [operation.name(), "false", step.name()];
        StepSeries {
            plugins: plugins.iter().map(|plugin| plugin_series(plugin.name)).collect(),
            of_engine: ENGINE_PLUGINS.map(|name| if is_on(name) { plugin_series(name) } else { None }),
            step: families::ADMISSION_STEP.with(&labels),
            summary: families::ADMISSION_STEP_SUMMARY.with(&labels),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_measured_for_what_they_handle() {
        for (name, step, operation, want) in [
            ("NamespaceLifecycle", Step::Admit, Operation::Delete, true),
            ("NamespaceLifecycle", Step::Validate, Operation::Create, false),
            ("ResourceQuota", Step::Validate, Operation::Update, true),
            ("ResourceQuota", Step::Validate, Operation::Delete, false),
            ("MutatingAdmissionPolicy", Step::Admit, Operation::Connect, true),
            ("MutatingAdmissionPolicy", Step::Admit, Operation::Delete, false),
        ] {
            assert_eq!(handles(name, step, operation), want, "{name} {step:?} {operation:?}");
        }
    }
}
