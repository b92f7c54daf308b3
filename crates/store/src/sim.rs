//! A disk that loses power.
