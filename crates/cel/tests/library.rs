//! The libraries, by expressions.

#[path = "library/cost.rs"]
mod cost;
