//! The health checks that depend on the configuration.

use crate::config::Config;
use crate::objects::Objects;
use crate::upkeep;
use pintle_http::health::{Health, Scope};

/// Adds the health checks of the store, of encryption and of stored objects.
pub(super) fn add_checks(health: &Health, config: &Config, objects: &Objects) {
    let Objects { engine, encryption, stores, .. } = objects;
    match &config.etcd {
        Some(etcd) => etcd.add_checks(stores, health),
        None => {
            for check in ["etcd", "etcd-readiness"] {
                let store = engine.storage().store().clone();
                // The text before the reason is kube-apiserver's, because monitoring searches for it.
                let run =
                    move || store.health().map_err(|fault| format!("error getting data from etcd: {fault}"));
                health.set_check(check, Scope::Everywhere, "", run);
            }
        }
    }
    if encryption.has_kms() || config.encryption.reload {
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
    if config.encryption.reload {
        // The file is followed from the start, so the hook is finished at once.
        let check = "poststarthook/start-encryption-provider-config-automatic-reload";
        health.set_check(check, Scope::Everywhere, "", || Ok(()));
    }
    if config.proxying.aggregation.client_certificate.is_some() {
        // The files are already followed, so the hook has finished.
        let (check, after) = (
            "poststarthook/aggregator-reload-proxy-client-cert",
            "poststarthook/start-kubernetes-service-cidr-controller",
        );
        health.set_check(check, Scope::Everywhere, after, || Ok(()));
    }
    if config.gate(upkeep::ELECTIONS) {
        let (check, after) = (
            "poststarthook/start-kube-apiserver-coordinated-leader-election-controller",
            "poststarthook/start-system-namespaces-controller",
        );
        health.set_check(check, Scope::Everywhere, after, || Ok(()));
    }
    if config.proxying.peers.is_some() && config.gate(upkeep::PEER_PROXY) {
        let mut after = "poststarthook/peer-endpoint-reconciler-controller";
        for check in [
            "poststarthook/mixed-version-proxy-handler",
            "poststarthook/local-discovery-cache-sync",
            "poststarthook/peer-discovery-workers",
        ] {
            // Peers are followed from the start; a request before the first look is answered as by a server without peers.
            health.set_check(check, Scope::Everywhere, after, || Ok(()));
            after = check;
        }
    }
    if config.gate(upkeep::STORAGE_VERSIONS) {
        // The versions are reported before the first request is answered.
        let (check, after) = (
            "poststarthook/built-in-resources-storage-version-updater",
            "poststarthook/apiservice-discovery-controller",
        );
        health.set_check(check, Scope::Everywhere, after, || Ok(()));
    }
    for check in ["poststarthook/storage-readiness", "informer-sync"] {
        let engine = engine.clone();
        health.set_check(check, Scope::Everywhere, "", move || {
            match engine.storage().has_unreadable_values() {
                true => Err("some stored values cannot be read".into()),
                false => Ok(()),
            }
        });
    }
}
