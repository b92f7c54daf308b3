//! `pintle`: the Kubernetes API server in one binary.

mod arguments;
mod audit;
mod authentication;
mod authorization;
mod backup;
mod bootstrap;
mod certs;
mod check;
mod commands;
mod config;
mod data_dir;
mod descriptors;
mod encryption;
mod endpoint;
mod etcd;
mod flags;
mod flow;
mod identity_flags;
mod kubeconfig;
mod migrate;
mod objects;
mod operation;
mod owners;
mod pki;
mod profile;
mod progress;
mod proxying;
mod recover;
mod reload;
mod runtime_config;
mod serve;
mod storage_metrics;
mod tracing_config;
mod upkeep;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    commands::run(std::env::args().skip(1).collect())
}
