//! Which providers apply to which resource, and the interface of this crate for the server.

use crate::kms::{Kms, KmsV1};
use crate::measure::{self, FROM_STORAGE, TO_STORAGE};
use crate::provider::{self, Plain, Provider, TransformError};
use arc_swap::ArcSwap;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A validated configuration.
#[derive(Default)]
pub struct Configuration {
    /// The lists of providers by group and resource; `*` means all.
    rules: HashMap<(String, String), Vec<Arc<Vec<Provider>>>>,
    /// The KMS providers, in the order of the file.
    pub(crate) kms: Vec<Plugin>,
}

/// A KMS provider.
pub(crate) enum Plugin {
    V1(Arc<KmsV1>),
    V2(Arc<Kms>),
}

impl Plugin {
    /// Why the plugin is not healthy. Calls a plugin of v1, which blocks.
    fn check(&self) -> Result<(), String> {
        match self {
            Plugin::V1(kms) => kms.check(),
            Plugin::V2(kms) if kms.is_healthy() => Ok(()),
            Plugin::V2(_) => Err("a KMS provider is not healthy".to_string()),
        }
    }

    /// How often the plugin worked again after a failure.
    fn recoveries(&self) -> u64 {
        match self {
            Plugin::V1(kms) => kms.recoveries(),
            Plugin::V2(kms) => kms.recoveries(),
        }
    }
}

impl Configuration {
    /// Adds a rule; an error if an earlier one covers it.
    pub(crate) fn add(&mut self, resource: &str, providers: &Arc<Vec<Provider>>) -> Result<(), String> {
        let (group, resource) = parse_resource(resource);
        for mask in [(group.clone(), "*".to_string()), ("*".to_string(), "*".to_string())] {
            if self.rules.contains_key(&mask) {
                let named = display_resource(&group, &resource);
                let by = display_resource(&mask.0, &mask.1);
                return Err(format!("resource \"{named}\" is masked by earlier rule \"{by}\""));
            }
        }
        self.rules.entry((group, resource)).or_default().push(providers.clone());
        Ok(())
    }

    /// Whether all KMS plugins of the configuration are healthy. Calls plugins of v1, which blocks.
    pub fn is_healthy(&self) -> bool {
        self.kms.iter().all(|kms| kms.check().is_ok())
    }

    /// The lists of providers of a resource: by its name, by its group, or by `*.*`.
    fn providers(&self, group: &str, resource: &str) -> Option<&[Arc<Vec<Provider>>]> {
        let find = |group: &str, resource: &str| self.rules.get(&(group.to_string(), resource.to_string()));
        let found = find(group, resource).or_else(|| find(group, "*")).or_else(|| find("*", "*"));
        found.map(Vec::as_slice)
    }
}

/// Group and resource of `deployments.apps`, `secrets`, `*.`, `*.*`.
pub(crate) fn parse_resource(text: &str) -> (String, String) {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    (group.to_string(), resource.to_string())
}

fn display_resource(group: &str, resource: &str) -> String {
    match (group, resource) {
        ("", "*") => "*.".to_string(),
        ("", resource) => resource.to_string(),
        (group, resource) => format!("{resource}.{group}"),
    }
}

/// The current configuration. It is replaced as a whole.
#[derive(Default)]
pub struct Encryption {
    current: ArcSwap<Configuration>,
    /// How often the configuration was replaced.
    replaced: AtomicU64,
}

/// A decrypted value.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    /// The decrypted value.
    pub value: Bytes,
    /// Whether the value would be encrypted differently now.
    pub outdated: bool,
}

impl Encryption {
    /// Creates the encryption of this configuration. The default configuration encrypts nothing.
    pub fn new(configuration: Configuration) -> Encryption {
        Encryption { current: ArcSwap::from_pointee(configuration), replaced: AtomicU64::new(0) }
    }

    /// Replaces the configuration.
    pub fn replace(&self, configuration: Configuration) {
        self.current.store(Arc::new(configuration));
        self.replaced.fetch_add(1, Ordering::Release);
    }

    /// Changes when values may have become readable: after a new configuration, or when a plugin became healthy.
    pub fn generation(&self) -> u64 {
        let current = self.current.load();
        let recovered = current.kms.iter().map(|kms| kms.recoveries()).fold(0, u64::wrapping_add);
        // Recoveries start at 0 with a new configuration, so a replacement must count more than they can.
        self.replaced.load(Ordering::Acquire).wrapping_shl(32).wrapping_add(recovered)
    }

    /// Whether nothing is encrypted.
    pub fn is_plain(&self) -> bool {
        self.current.load().rules.is_empty()
    }

    /// Encrypts `value` for `key`, which belongs to the resource.
    pub fn seal(
        &self,
        group: &str,
        resource: &str,
        key: &str,
        value: &Bytes,
    ) -> Result<Bytes, TransformError> {
        let current = self.current.load();
        let Some(lists) = current.providers(group, resource) else { return Ok(value.clone()) };
        let label = display_resource(group, resource);
        match lists.first().map(|first| first.as_slice()) {
            None | Some([]) => Ok(value.clone()),
            Some([Provider::Identity, ..]) => {
                measure::transformation(&label, TO_STORAGE, "", Duration::ZERO, None);
                Ok(value.clone())
            }
            Some(providers) => provider::seal(providers, &label, key, value).map(Bytes::from),
        }
    }

    /// Decrypts `stored`, the value of `key`.
    pub fn open(
        &self,
        group: &str,
        resource: &str,
        key: &str,
        stored: &Bytes,
    ) -> Result<Opened, TransformError> {
        let current = self.current.load();
        let is_sealed = stored.starts_with(crate::PREFIX);
        let Some(lists) = current.providers(group, resource) else {
            provider_error(is_sealed)?;
            return Ok(Opened { value: stored.clone(), outdated: false });
        };
        if !is_sealed
            && let [only] = lists
            && let [Provider::Identity, ..] = only.as_slice()
        {
            let label = display_resource(group, resource);
            measure::transformation(&label, FROM_STORAGE, "identity", Duration::ZERO, None);
            return Ok(Opened { value: stored.clone(), outdated: false });
        }
        let label = display_resource(group, resource);
        let mut outcome = Err(TransformError::new("no matching prefix found"));
        for (at, providers) in lists.iter().enumerate() {
            match provider::open(providers, &label, key, stored) {
                Ok(Plain { value, outdated }) => {
                    return Ok(Opened { value: value.into(), outdated: outdated || at > 0 });
                }
                Err(error) if at == 0 => outcome = Err(error),
                Err(_) => {}
            }
        }
        outcome
    }

    /// Whether a stored value would be encrypted differently now; checks only its prefix.
    pub fn is_outdated(&self, group: &str, resource: &str, stored: &[u8]) -> bool {
        let current = self.current.load();
        let Some([first, ..]) = current.providers(group, resource) else { return false };
        provider::is_outdated(first, stored)
    }

    /// Why a KMS plugin is not healthy: the one with this number, or any of them. Blocks.
    pub fn check_kms(&self, number: Option<usize>) -> Result<(), String> {
        let current = self.current.load_full();
        let mut chosen = current.kms.iter().enumerate().filter(|(at, _)| number.is_none_or(|n| n == *at));
        chosen.try_for_each(|(_, kms)| kms.check())
    }

    /// The number of KMS plugins whose health is reported one by one: all of them if one is of v1.
    pub fn separate_kms_checks(&self) -> usize {
        let kms = &self.current.load().kms;
        if kms.iter().any(|kms| matches!(kms, Plugin::V1(_))) { kms.len() } else { 0 }
    }

    /// Whether there are KMS plugins.
    pub fn has_kms(&self) -> bool {
        !self.current.load().kms.is_empty()
    }
}

/// Without providers, only unencrypted values can be read.
fn provider_error(is_sealed: bool) -> Result<(), TransformError> {
    if is_sealed { provider::open_plain(crate::PREFIX).map(drop) } else { Ok(()) }
}
