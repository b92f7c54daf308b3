//! The formats that facts name: what the text, number or quantity of one field must be.

use crate::core::podspec::{paths, volume_sources};
use crate::resource::names as device_names;
use crate::{check as checks, fields};
use pintle_meta::{FieldErrors, names, net};
use pintle_value::{Path, Value};
use std::collections::HashSet;

/// Reports what is wrong with a value.
pub(super) type Format = fn(&Path<'_>, &Value, &mut FieldErrors);

/// A format that reports complaints about a text.
macro_rules! text_format {
    ($complaints:expr) => {
        |path, value, errors| {
            let text = value.as_str().unwrap_or("");
            checks::each($complaints(text), path, text, errors)
        }
    };
}

/// A format of a text that reports its errors itself.
macro_rules! reporting_format {
    ($report:expr) => {
        |path, value, errors| $report(path, value.as_str().unwrap_or(""), errors)
    };
}

/// Returns the format of this name.
pub(super) fn format_named(name: &str) -> Option<Format> {
    Some(match name {
        "absolute-path" => reporting_format!(paths::absolute),
        "backstepless-path" => reporting_format!(paths::no_backsteps),
        "config-map-key" => text_format!(names::is_config_map_key),
        "csi-driver-name" => {
            reporting_format!(|path: &Path<'_>, name: &str, errors: &mut FieldErrors| {
                volume_sources::validate_csi_driver_name(name, path, errors)
            })
        }
        "device-pool" => reporting_format!(device_names::validate_pool),
        "dns-1035-label" => text_format!(names::is_dns1035_label),
        "dns-label" => text_format!(names::is_dns1123_label),
        "dns-subdomain" => text_format!(names::is_dns1123_subdomain),
        "domain-prefixed-path" => reporting_format!(names::domain_prefixed_path),
        "env-name" => text_format!(names::is_relaxed_env_var_name),
        "ip" => |path, value, errors| {
            net::validate_ip_legacy(path, value.as_str().unwrap_or(""), &HashSet::new(), errors)
        },
        "iscsi-name" => reporting_format!(|path: &Path<'_>, name: &str, errors: &mut FieldErrors| {
            volume_sources::validate_iscsi_name(name, path, errors)
        }),
        "label-value" => text_format!(names::is_label_value),
        "long-name" => text_format!(|text| in_bytes(names::is_dns1123_subdomain(text))),
        "long-name-caseless" => text_format!(names::is_dns1123_subdomain_caseless),
        "pool-name" => reporting_format!(pool_name),
        "short-name" => text_format!(|text| in_bytes(names::is_dns1123_label(text))),
        "local-path" => reporting_format!(paths::local_descending),
        "nonreserved-path" => reporting_format!(paths::local_non_reserved),
        "nonnegative-quantity" => {
            |path, value, errors| checks::nonnegative_quantity(path, &fields::quantity(Some(value)), errors)
        }
        "object-name" => text_format!(|text| names::dns_subdomain(text, false)),
        "path-segment" => text_format!(|text| names::path_segment_name(text, false)),
        "port" => |path, value, errors| {
            let number = value.as_int().unwrap_or(0);
            checks::each(names::is_valid_port_num(number), path, number, errors)
        },
        "port-or-name" => |path, value, errors| checks::port_number_or_name(path, Some(value), errors),
        "positive-quantity" => |path, value, errors| {
            let amount = fields::quantity(Some(value));
            if amount.sign() != 1 {
                errors.invalid(path, amount.to_string().as_str(), "must be positive");
            }
        },
        "qualified-name" => text_format!(names::is_qualified_name),
        "share-id" => reporting_format!(device_names::validate_share_id),
        _ => return None,
    })
}

/// Declarative validation counts bytes where other validation counts characters.
fn in_bytes(complaints: Vec<String>) -> Vec<String> {
    let reworded = |why: String| {
        if why.starts_with("must be no more than") { why.replace("characters", "bytes") } else { why }
    };
    complaints.into_iter().map(reworded).collect()
}

/// The name of a resource pool: subdomains, separated by slashes.
fn pool_name(path: &Path<'_>, name: &str, errors: &mut FieldErrors) {
    const BYTES_MAX: usize = 253;
    if name.len() > BYTES_MAX {
        errors.too_long(path, BYTES_MAX);
    }
    for (at, part) in name.split('/').enumerate() {
        if part.is_empty() {
            errors.invalid(path, name, &format!("segment {at}: must not be empty"));
            continue;
        }
        for why in in_bytes(names::is_dns1123_subdomain(part)) {
            errors.invalid(path, part, &format!("segment {at}: {why}"));
        }
    }
}
