//! Checks of a typed tree.
use crate::env::Checked;
use crate::issue::Issues;
use crate::library::Validator;

pub(crate) const KUBERNETES: &[Validator] = &[];

pub(crate) fn validate(_checked: &Checked) -> Result<(), Issues> {
    Ok(())
}
