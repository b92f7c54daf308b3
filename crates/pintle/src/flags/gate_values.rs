//! The values of feature gates: defaults by stage, and the flag `--feature-gates`.

use super::gates::{GATES, Gate, Stage, State};
use super::{FlagError, Flags};
use crate::emulation::Emulation;
use pintle_meta::strconv::parse_bool;
use std::collections::{BTreeMap, BTreeSet};

/// Every feature gate of a minor version with its stage, as in metrics.
pub(crate) fn gate_stages(minor: u64) -> impl Iterator<Item = (&'static str, &'static str)> {
    GATES.iter().filter_map(move |gate| {
        let stage = match gate.at(minor).stage {
            Stage::PreAlpha => return None,
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            Stage::Ga => "",
            Stage::Deprecated => "DEPRECATED",
        };
        Some((gate.name, stage))
    })
}

impl Flags {
    /// Every feature gate with its effective value.
    pub(crate) fn gates(&self) -> Result<BTreeMap<&'static str, bool>, FlagError> {
        // kube-apiserver looks at the versions before the gates.
        let emulation = Emulation::of(self)?;
        self.check_gate_values()?;
        let requested = self.map("feature-gates");
        let requested: BTreeMap<&str, &str> = requested
            .iter()
            .map(|(k, v)| (k.rsplit_once(':').map_or(k.as_str(), |(_, k)| k), v.as_str()))
            .collect();
        let boolean = |name: &str| requested.get(name).map(|v| parse_bool(v));
        for (name, value) in &requested {
            let Some(gate) = GATES.iter().find(|gate| gate.name == *name) else {
                return Err(unrecognized(name));
            };
            let State { stage, default, locked } = gate.at(emulation.minor);
            let value = parse_bool(value).unwrap_or(default);
            if locked && value != default {
                return Err(FlagError(format!(
                    "cannot set feature gate {name} to {value}, feature is locked to {default}"
                )));
            }
            if stage == Stage::PreAlpha {
                let (minor, lowest) = (emulation.minor, emulation.min_compatibility_minor);
                return Err(FlagError(format!(
                    "cannot set feature gate {name} to {value}, feature is PreAlpha at emulated version 1.{minor}, \
                     min compatibility version 1.{lowest}"
                )));
            }
        }
        let all = |stage: Stage| match stage {
            Stage::Alpha => boolean("AllAlpha").flatten(),
            Stage::Beta => boolean("AllBeta").flatten(),
            _ => None,
        };
        let gates = GATES.iter().map(|gate| {
            let State { stage, default, .. } = gate.at(emulation.minor);
            (gate.name, boolean(gate.name).flatten().or_else(|| all(stage)).unwrap_or(default))
        });
        let gates = gates.collect();
        check_dependencies(&gates)?;
        Ok(gates)
    }

    /// Refuses gates without a valid value, those of other components, and unknown ones, in this order.
    fn check_gate_values(&self) -> Result<(), FlagError> {
        let items = self.list("feature-gates");
        let mut names = Vec::new();
        let mut components = BTreeSet::new();
        for item in &items {
            let (component, pair) = match item.split_once(':') {
                Some((component, pair)) => (component.trim(), pair.trim()),
                None => ("", item.as_str()),
            };
            if !matches!(component, "" | "kube") {
                return Err(FlagError(format!("component not registered: {component}")));
            }
            components.insert(component);
            let Some((name, value)) = pair.split_once('=') else {
                return Err(FlagError(format!("missing bool value for {pair}")));
            };
            let (name, value) = (name.trim(), value.trim());
            if parse_bool(value).is_none() {
                return Err(FlagError(format!(
                    "invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax"
                )));
            }
            names.push(name);
        }
        if components.len() > 1 {
            let why = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use";
            return Err(FlagError::new(why));
        }
        // The first unknown gate is reported, in the order of the command line.
        match names.iter().find(|name| !GATES.iter().any(|gate| gate.name == **name)) {
            None => Ok(()),
            Some(name) => Err(unrecognized(name)),
        }
    }
}

fn unrecognized(gate: &str) -> FlagError {
    FlagError(format!("invalid argument for \"--feature-gates\" flag: unrecognized feature gate: {gate}"))
}

/// Refuses gates without those that they need.
fn check_dependencies(gates: &BTreeMap<&'static str, bool>) -> Result<(), FlagError> {
    let is_off = |name: &str| gates.get(name) == Some(&false);
    let mut faults = Vec::new();
    for Gate { name, needs, .. } in GATES.iter().filter(|gate| !is_off(gate.name)) {
        let missing: Vec<&str> = needs.iter().copied().filter(|name| is_off(name)).collect();
        if !missing.is_empty() {
            let missing = missing.join(" ");
            faults.push(format!("{name} is enabled, but depends on features that are disabled: [{missing}]"));
        }
    }
    FlagError::aggregate(faults)
}
