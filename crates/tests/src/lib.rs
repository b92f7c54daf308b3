//! Nothing: the tests are in `tests/it`, one binary so that linking happens once.
