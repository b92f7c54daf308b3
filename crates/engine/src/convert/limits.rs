//! Limits of conversions: a webhook must not make the server hold or return more than a written object could.

/// The maximum number of objects in one conversion request.
const BATCH_MAX: usize = 500;
/// The maximum size of these objects together, unless a single one is larger.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// The size limit in bytes of an error that a webhook caused.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// The size limit of a converted object, which is cached beside the stored one: more than any object that can be written.
const CONVERTED_BYTES_MAX: usize = 4 << 20;

/// Refuses a converted object, as JSON, that is too large to be cached.
pub(super) fn check_converted(json: &[u8]) -> Result<(), String> {
    match json.len() {
        0..=CONVERTED_BYTES_MAX => Ok(()),
        length => Err(format!("the converted object has {length} bytes, more than {CONVERTED_BYTES_MAX}")),
    }
}

/// Errors quote the webhook's message or its object, either of which may be huge.
pub(super) fn shortened(mut why: String) -> String {
    if why.len() > ERROR_BYTES_MAX {
        why.truncate(why.floor_char_boundary(ERROR_BYTES_MAX));
        why.push('…');
    }
    why
}

/// Divides objects into those of one request each.
pub(super) fn batches<T>(objects: &[T], length: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut rest = objects;
    std::iter::from_fn(move || {
        let mut bytes = 0_usize;
        let fits = |object: &&T| {
            bytes = bytes.saturating_add(length(object));
            bytes <= BATCH_BYTES_MAX
        };
        let count = rest.iter().take(BATCH_MAX).take_while(fits).count().max(1);
        let (batch, later) = rest.split_at_checked(count)?;
        rest = later;
        Some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_limited_in_number_and_bytes() {
        let sizes = |sizes: &[usize]| batches(sizes, |size| *size).map(<[usize]>::len).collect::<Vec<_>>();
        assert!(sizes(&[]).is_empty());
        assert_eq!(sizes(&[1; 1200]), [500, 500, 200]);
        assert_eq!(sizes(&[1 << 20; 40]), [16, 16, 8]);
        assert_eq!(sizes(&[1, BATCH_BYTES_MAX, 1, usize::MAX, usize::MAX]), [1, 1, 1, 1, 1]);
    }

    #[test]
    fn errors_are_shortened_between_characters() {
        assert_eq!(shortened("no".to_string()), "no");
        let long = shortened("ä".repeat(ERROR_BYTES_MAX));
        assert!(long.len() <= ERROR_BYTES_MAX + '…'.len_utf8() && long.ends_with("ä…"));
    }
}
