//! The cells of built-in kinds, from `data/cells.txt`.

use super::cell::{self, text};
use super::pick::Need;
use super::{
    admissionregistration, apiregistration, apps, autoscaling, batch, certificates, core, core_storage,
    discovery, flowcontrol, networking, pod, rbac, resource, scheduling, service, storage, storageversion,
};
use crate::error_text::blocks;
use pintle_meta::Timestamp;
use pintle_value::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

const CELLS: &str = include_str!("../../data/cells.txt");
/// The lines of each kind.
static BLOCKS: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| blocks(CELLS).collect());

/// One cell, or with `Row` several.
pub(super) enum Cell {
    Name,
    Age,
    Field(FieldCell, Vec<&'static str>, &'static str),
    Computed(fn(&Value) -> Value),
    Row(fn(&Value, Timestamp) -> Vec<Value>),
}

/// Formats the field at a path; the text depends on the cell.
type FieldCell = fn(&Value, &[&str], &'static str) -> Value;

/// The cells of a kind (`apps/Deployment`) and what they need of an object; `None` for kinds without columns.
pub(super) fn of(kind: &str) -> Option<(Vec<Cell>, Need)> {
    let lines = BLOCKS.get(kind)?.lines();
    let mut need = Need::default();
    need.add("metadata.creationTimestamp");
    need.add("metadata.name");
    let cells = lines.filter_map(|line| parse(line.trim(), &mut need)).collect();
    Some((cells, need))
}

#[cfg(test)]
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    CELLS.lines().filter(|line| !line.starts_with([' ', '#']))
}

fn parse(line: &'static str, need: &mut Need) -> Option<Cell> {
    let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
    match what {
        "name" => return Some(Cell::Name),
        "age" => return Some(Cell::Age),
        _ => {}
    }
    let Some(field) = field_cell(what) else {
        rest.split(' ').for_each(|path| need.add(path));
        return computed(what);
    };
    let (path, other) = rest.split_once(' ').unwrap_or((rest, ""));
    match what {
        "count" => need.add(&format!("{path}#")),
        "names" => need.add(&format!("{path}.containers.name")),
        "images" => need.add(&format!("{path}.containers.image")),
        _ => need.add(path),
    }
    Some(Cell::Field(field, path.split('.').collect(), other.strip_prefix("or ").unwrap_or(other)))
}

/// The formats of single fields.
fn field_cell(what: &str) -> Option<FieldCell> {
    let format: FieldCell = match what {
        "text" => |object, path, unset| cell::text_or(object, path, unset),
        "filled" => |object, path, empty| cell::filled_or(object, path, empty),
        "scalar" => |object, path, unset| text(cell::scalar(object.at(path)).unwrap_or_else(|| unset.into())),
        "int" => |object, path, _| cell::int(object, path),
        "bool" => |object, path, unset| cell::bool_or(object, path, unset == "true"),
        "count" => |object, path, _| Value::Int(cell::count(object, path)),
        "join" => |object, path, _| text(cell::texts(object, path).join(",")),
        "quantity" => |object, path, _| Value::String(cell::quantity(object.at(path))),
        "labels" => |object, path, _| cell::labels(object.at(path)),
        "selector" => |object, path, _| cell::selector(object.at(path)),
        "pair" => |object, path, names| cell::pair(object, path, names),
        "names" => |object, path, _| cell::containers(object, path, "name"),
        "images" => |object, path, _| cell::containers(object, path, "image"),
        _ => return None,
    };
    Some(format)
}

/// The cells that need code.
fn computed(name: &str) -> Option<Cell> {
    use Cell::{Computed, Row};
    Some(match name {
        "*claim_capacity_and_modes" => Row(core_storage::capacity_and_modes),
        "*bound_subjects" => Row(rbac::bound_subjects),
        "*component_status" => Row(core::component_status),
        "*event" => Row(core::event_cells),
        "*level_numbers" => Row(flowcontrol::level_numbers),
        "*pod_state" => Row(pod::pod_state),
        "*pool_status" => Row(resource::pool_status),
        "*resource_quota" => Row(core::resource_quota),
        "cron_job_last" => Row(|object, now| vec![batch::last_schedule(object, now)]),
        "job_duration" => Row(|object, now| vec![batch::job_duration(object, now)]),
        "taint_time" => Row(|object, now| vec![resource::taint_time(object, now)]),
        "api_availability" => Computed(apiregistration::display_availability),
        "claim_state" => Computed(resource::claim_state),
        "config_map_size" => Computed(core::config_map_size),
        "controller" => Computed(apps::controller),
        "cron_job_suspend" => Computed(batch::suspend),
        "deployment_selector" => Computed(apps::deployment_selector),
        "distinguisher" => Computed(flowcontrol::distinguisher),
        "endpoints" => Computed(|object| text(service::addresses(object.items_at(&["subsets"])))),
        "group_policy" => Computed(scheduling::group_policy),
        "group_state" => Computed(scheduling::group_state),
        "ingress_address" => Computed(networking::ingress_address),
        "ingress_class_name" => Computed(networking::ingress_class_name),
        "ingress_class_parameters" => Computed(networking::ingress_class_parameters),
        "ingress_hosts" => Computed(networking::ingress_hosts),
        "ingress_ports" => Computed(networking::ingress_ports),
        "job_completions" => Computed(|object| text(batch::completions_text(object))),
        "job_status" => Computed(|object| text(batch::job_status(object))),
        "lifecycle_modes" => Computed(storage::lifecycle_modes),
        "migrated_resource" => Computed(storageversion::migrated),
        "migration_state" => Computed(storageversion::migration_state),
        "missing_level" => Computed(flowcontrol::missing_level),
        "node_external_ip" => Computed(|object| core::node_address(object, "ExternalIP")),
        "node_internal_ip" => Computed(|object| core::node_address(object, "InternalIP")),
        "node_kernel" => Computed(core::node_kernel),
        "node_roles" => Computed(core::node_roles),
        "node_status" => Computed(core::node_status),
        "param_ref" => Computed(admissionregistration::param_ref),
        "parent_reference" => Computed(networking::parent_reference),
        "pod_certificate_state" => Computed(certificates::pod_certificate_state),
        "pod_ip" => Computed(pod::pod_ip),
        "readiness_gates" => Computed(pod::readiness_gates),
        "ready_of_desired" => Computed(apps::ready_of_desired),
        "request_status" => Computed(|object| text(certificates::display_status(object))),
        "requested_duration" => Computed(certificates::requested_duration),
        "scale_metrics" => Computed(autoscaling::scale_metrics),
        "service_external_ips" => Computed(|object| text(service::external_ips(object))),
        "service_ip" => Computed(service::cluster_ip),
        "service_ports" => Computed(|object| text(service::ports_text(object.items_at(&["spec", "ports"])))),
        "slice_addresses" => Computed(discovery::addresses),
        "slice_ports" => Computed(discovery::ports),
        "storage_class_name" => Computed(storage::storage_class_name),
        "storage_encodings" => Computed(storageversion::encodings),
        "token_requests" => Computed(storage::token_requests),
        "volume_class" => Computed(core_storage::class),
        "volume_modes" => {
            Computed(|object| core_storage::access_modes(object.items_at(&["spec", "accessModes"])))
        }
        "volume_phase" => Computed(core_storage::phase),
        _ => return None,
    })
}

impl Cell {
    pub(super) fn write(&self, object: &Value, now: Timestamp, out: &mut Vec<Value>) {
        match self {
            Cell::Name => out.push(cell::name(object)),
            Cell::Age => out.push(cell::age(object, now)),
            Cell::Field(field, path, other) => out.push(field(object, path, other)),
            Cell::Computed(cell) => out.push(cell(object)),
            Cell::Row(cells) => out.extend(cells(object, now)),
        }
    }
}
