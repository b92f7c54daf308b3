//! Claims and allocations in error texts.

use crate::core::podspec::internal::meta::OBJECT_META;
use crate::error_text::{Field, Kind, NULL, TEXT};

const CEL: &[Field] = &[Field("expression", "Expression", TEXT)];
const SELECTOR: &[Field] = &[Field("cel", "CEL", Kind::Struct(CEL))];
const TOLERATION: &[Field] = &[
    Field("key", "Key", TEXT),
    Field("operator", "Operator", TEXT),
    Field("value", "Value", TEXT),
    Field("effect", "Effect", TEXT),
    Field("tolerationSeconds", "TolerationSeconds", NULL),
];
const CAPACITY: &[Field] = &[Field("requests", "Requests", NULL)];
const EXACTLY: &[Field] = &[
    Field("deviceClassName", "DeviceClassName", TEXT),
    Field("selectors", "Selectors", Kind::List(SELECTOR)),
    Field("allocationMode", "AllocationMode", TEXT),
    Field("count", "Count", Kind::Plain("0")),
    Field("adminAccess", "AdminAccess", NULL),
    Field("tolerations", "Tolerations", Kind::List(TOLERATION)),
    Field("capacity", "Capacity", Kind::Struct(CAPACITY)),
];
const ALTERNATIVE: &[Field] = &[
    Field("name", "Name", TEXT),
    Field("deviceClassName", "DeviceClassName", TEXT),
    Field("selectors", "Selectors", Kind::List(SELECTOR)),
    Field("allocationMode", "AllocationMode", TEXT),
    Field("count", "Count", Kind::Plain("0")),
    Field("tolerations", "Tolerations", Kind::List(TOLERATION)),
    Field("capacity", "Capacity", Kind::Struct(CAPACITY)),
];
const REQUEST: &[Field] = &[
    Field("name", "Name", TEXT),
    Field("exactly", "Exactly", Kind::Struct(EXACTLY)),
    Field("firstAvailable", "FirstAvailable", Kind::List(ALTERNATIVE)),
];
const CONSTRAINT: &[Field] = &[
    Field("requests", "Requests", NULL),
    Field("matchAttribute", "MatchAttribute", NULL),
    Field("distinctAttribute", "DistinctAttribute", NULL),
];
const OPAQUE: &[Field] = &[Field("driver", "Driver", TEXT), Field("parameters", "Parameters", NULL)];
const CONFIG: &[Field] =
    &[Field("requests", "Requests", NULL), Field("opaque", "Opaque", Kind::Struct(OPAQUE))];
const DEVICES: &[Field] = &[
    Field("requests", "Requests", Kind::List(REQUEST)),
    Field("constraints", "Constraints", Kind::List(CONSTRAINT)),
    Field("config", "Config", Kind::List(CONFIG)),
];

/// The spec of a claim.
pub(super) const CLAIM_SPEC: &[Field] = &[Field("devices", "Devices", Kind::Struct(DEVICES))];

/// The spec of a template, without metadata.
pub(super) const TEMPLATE_SPEC: &[Field] =
    &[Field("metadata", "", Kind::Inline(OBJECT_META)), Field("spec", "Spec", Kind::Struct(CLAIM_SPEC))];

const RESULT: &[Field] = &[
    Field("request", "Request", TEXT),
    Field("driver", "Driver", TEXT),
    Field("pool", "Pool", TEXT),
    Field("device", "Device", TEXT),
    Field("adminAccess", "AdminAccess", NULL),
    Field("tolerations", "Tolerations", Kind::List(TOLERATION)),
    Field("bindingConditions", "BindingConditions", NULL),
    Field("bindingFailureConditions", "BindingFailureConditions", NULL),
    Field("shareID", "ShareID", NULL),
    Field("consumedCapacity", "ConsumedCapacity", NULL),
];
const RESULT_CONFIG: &[Field] = &[
    Field("source", "Source", TEXT),
    Field("requests", "Requests", NULL),
    Field("opaque", "Opaque", Kind::Struct(OPAQUE)),
];
const ALLOCATED: &[Field] =
    &[Field("results", "Results", Kind::List(RESULT)), Field("config", "Config", Kind::List(RESULT_CONFIG))];

/// What was allocated for a claim.
pub(super) const ALLOCATION: &[Field] = &[
    Field("devices", "Devices", Kind::Struct(ALLOCATED)),
    Field("nodeSelector", "NodeSelector", NULL),
    Field("allocationTimestamp", "AllocationTimestamp", NULL),
];

/// An attribute of a device.
pub(super) const ATTRIBUTE: &[Field] = &[
    Field("int", "IntValue", NULL),
    Field("bool", "BoolValue", NULL),
    Field("string", "StringValue", NULL),
    Field("version", "VersionValue", NULL),
    Field("ints", "IntValues", NULL),
    Field("bools", "BoolValues", NULL),
    Field("strings", "StringValues", NULL),
    Field("versions", "VersionValues", NULL),
];
