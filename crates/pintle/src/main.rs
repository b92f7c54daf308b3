//! `pintle`: the Kubernetes API server in one binary.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod arguments;
mod assets;
mod audit;
mod authentication;
mod authenticator;
mod authorization;
mod backup;
mod bootstrap;
mod certs;
mod check;
mod commands;
mod completion;
mod config;
mod config_file;
mod console;
mod data_dir;
mod descriptors;
mod egress;
mod emulation;
mod encryption;
mod endpoint;
mod etcd;
mod etcd_stand_in;
mod flag_checks;
mod flags;
mod flow;
mod health;
mod help;
mod history;
mod identity_flags;
mod idle;
mod kubeconfig;
mod man;
mod manifests;
mod metric_flags;
mod migrate;
mod objects;
mod operation;
mod output;
mod owners;
mod pki;
mod profile;
mod program;
mod progress;
mod proxying;
mod reconcile_roles;
mod recover;
mod reload;
mod runtime_config;
mod serve;
mod shutdown;
mod storage_metrics;
mod system_objects;
mod terminal;
mod token_signing;
mod tracing_config;
mod upkeep;

use program::Program;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = std::env::args().skip(1).collect();
    match Program::current() {
        Program::Etcd => etcd_stand_in::run(args),
        Program::Pintle | Program::KubeApiserver => commands::run(args),
    }
}
