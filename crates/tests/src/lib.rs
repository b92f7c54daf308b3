//! Empty: the tests are in `tests/it`, one binary so that there is only one link.
