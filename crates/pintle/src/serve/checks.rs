//! The health checks that depend on the configuration.

use crate::config::Config;
use crate::objects::Objects;
use crate::upkeep;
use pintle_encrypt::Encryption;
use pintle_engine::Engine;
use pintle_http::health::{Health, Scope};
use std::sync::Arc;

/// Adds the health checks of the store, of encryption and of stored objects.
pub(super) fn add_checks(health: &Health, config: &Config, objects: &Objects) {
    let Objects { engine, encryption, stores, .. } = objects;
    match &config.etcd {
        Some(etcd) => etcd.add_checks(stores, health),
        None => add_embedded_store_checks(health, engine),
    }
    if encryption.has_kms() || config.encryption.reload {
        add_kms_checks(health, config, encryption);
    }
    for (is_used, check, after) in finished_hooks(config) {
        if is_used {
            health.set_check(check, Scope::Everywhere, after, || Ok(()));
        }
    }
    for check in ["poststarthook/storage-readiness", "informer-sync"] {
        let engine = engine.clone();
        health.set_check(check, Scope::Everywhere, "", move || {
            if engine.storage().has_unreadable_values() {
                Err("some stored values cannot be read".into())
            } else {
                Ok(())
            }
        });
    }
}

fn add_embedded_store_checks(health: &Health, engine: &Engine) {
    for check in ["etcd", "etcd-readiness"] {
        let store = engine.storage().store().clone();
        // The text before the reason is kube-apiserver's, because monitoring searches for it.
        let run = move || store.health().map_err(|fault| format!("error getting data from etcd: {fault}"));
        health.set_check(check, Scope::Everywhere, "", run);
    }
}

fn add_kms_checks(health: &Health, config: &Config, encryption: &Arc<Encryption>) {
    let separate = if config.encryption.reload { 0 } else { encryption.separate_kms_checks() };
    let numbers = (0..separate).rev().map(|number| (format!("kms-provider-{number}"), Some(number)));
    let whole = (separate == 0).then(|| ("kms-providers".to_string(), None));
    for (name, number) in numbers.chain(whole) {
        let encryption = encryption.clone();
        health.set_slow_check(&name, Scope::ExceptLiveness, "etcd-readiness", move || {
            let encryption = encryption.clone();
            let check = tokio::task::spawn_blocking(move || encryption.check_kms(number));
            Box::pin(async move { check.await.unwrap_or_else(|error| Err(error.to_string())) })
        });
    }
}

/// Hooks that are finished when the server starts to answer, because what they wait for in kube-apiserver is followed from
/// the start here: whether the server has the hook, its check, and the check after which it is listed.
fn finished_hooks(config: &Config) -> [(bool, &'static str, &'static str); 7] {
    let has_peers = config.proxying.peers.is_some() && config.gate(upkeep::PEER_PROXY);
    [
        (config.encryption.reload, "poststarthook/start-encryption-provider-config-automatic-reload", ""),
        (
            config.proxying.aggregation.client_certificate.is_some(),
            "poststarthook/aggregator-reload-proxy-client-cert",
            "poststarthook/start-kubernetes-service-cidr-controller",
        ),
        (
            config.gate(upkeep::ELECTIONS),
            "poststarthook/start-kube-apiserver-coordinated-leader-election-controller",
            "poststarthook/start-system-namespaces-controller",
        ),
        // A request before the first look at the peers is answered as by a server without peers.
        (
            has_peers,
            "poststarthook/mixed-version-proxy-handler",
            "poststarthook/peer-endpoint-reconciler-controller",
        ),
        (has_peers, "poststarthook/local-discovery-cache-sync", "poststarthook/mixed-version-proxy-handler"),
        (has_peers, "poststarthook/peer-discovery-workers", "poststarthook/local-discovery-cache-sync"),
        // The versions are reported before the first request is answered.
        (
            config.gate(upkeep::STORAGE_VERSIONS),
            "poststarthook/built-in-resources-storage-version-updater",
            "poststarthook/apiservice-discovery-controller",
        ),
    ]
}
