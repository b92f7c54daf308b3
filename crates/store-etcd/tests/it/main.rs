//! The store on a real etcd. `PINTLE_ETCD` names the binary; without it the tests are skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may end here")]

mod certificates;
mod conformance;
mod election;
mod faults;
mod member;
mod proxy;
