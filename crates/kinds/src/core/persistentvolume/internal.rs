//! Volumes in Go's internal types: names and order of fields, for error texts.

use crate::error_text::{Field, Kind, NULL, TEXT};

const NUMBER: Kind = Kind::Plain("0");
const SWITCH: Kind = Kind::Plain("false");
const SECRET: Kind = Kind::Struct(&[Field("name", "Name", TEXT), Field("namespace", "Namespace", TEXT)]);
const OBJECT: Kind = Kind::Struct(&[
    Field("kind", "Kind", TEXT),
    Field("namespace", "Namespace", TEXT),
    Field("name", "Name", TEXT),
    Field("uid", "UID", TEXT),
    Field("apiVersion", "APIVersion", TEXT),
    Field("resourceVersion", "ResourceVersion", TEXT),
    Field("fieldPath", "FieldPath", TEXT),
]);
const REQUIREMENTS: Kind = Kind::List(&[
    Field("key", "Key", TEXT),
    Field("operator", "Operator", TEXT),
    Field("values", "Values", NULL),
]);
const TERMS: Kind = Kind::List(&[
    Field("matchExpressions", "MatchExpressions", REQUIREMENTS),
    Field("matchFields", "MatchFields", REQUIREMENTS),
]);

const AFFINITY_FIELDS: [Field; 1] =
    [Field("required", "Required", Kind::Struct(&[Field("nodeSelectorTerms", "NodeSelectorTerms", TERMS)]))];
/// Node affinity.
pub(crate) static AFFINITY: [Field; 1] = AFFINITY_FIELDS;

const GCE_PERSISTENT_DISK: Field = Field(
    "gcePersistentDisk",
    "GCEPersistentDisk",
    Kind::Struct(&[
        Field("pdName", "PDName", TEXT),
        Field("fsType", "FSType", TEXT),
        Field("partition", "Partition", NUMBER),
        Field("readOnly", "ReadOnly", SWITCH),
    ]),
);
const AWS_ELASTIC_BLOCK_STORE: Field = Field(
    "awsElasticBlockStore",
    "AWSElasticBlockStore",
    Kind::Struct(&[
        Field("volumeID", "VolumeID", TEXT),
        Field("fsType", "FSType", TEXT),
        Field("partition", "Partition", NUMBER),
        Field("readOnly", "ReadOnly", SWITCH),
    ]),
);
const HOST_PATH: Field =
    Field("hostPath", "HostPath", Kind::Struct(&[Field("path", "Path", TEXT), Field("type", "Type", NULL)]));
const GLUSTERFS: Field = Field(
    "glusterfs",
    "Glusterfs",
    Kind::Struct(&[
        Field("endpoints", "EndpointsName", TEXT),
        Field("path", "Path", TEXT),
        Field("readOnly", "ReadOnly", SWITCH),
        Field("endpointsNamespace", "EndpointsNamespace", NULL),
    ]),
);
const NFS: Field = Field(
    "nfs",
    "NFS",
    Kind::Struct(&[
        Field("server", "Server", TEXT),
        Field("path", "Path", TEXT),
        Field("readOnly", "ReadOnly", SWITCH),
    ]),
);
const RBD: Field = Field(
    "rbd",
    "RBD",
    Kind::Struct(&[
        Field("monitors", "CephMonitors", NULL),
        Field("image", "RBDImage", TEXT),
        Field("fsType", "FSType", TEXT),
        Field("pool", "RBDPool", TEXT),
        Field("user", "RadosUser", TEXT),
        Field("keyring", "Keyring", TEXT),
        Field("secretRef", "SecretRef", SECRET),
        Field("readOnly", "ReadOnly", SWITCH),
    ]),
);
const QUOBYTE: Field = Field(
    "quobyte",
    "Quobyte",
    Kind::Struct(&[
        Field("registry", "Registry", TEXT),
        Field("volume", "Volume", TEXT),
        Field("readOnly", "ReadOnly", SWITCH),
        Field("user", "User", TEXT),
        Field("group", "Group", TEXT),
        Field("tenant", "Tenant", TEXT),
    ]),
);
const ISCSI: Field = Field(
    "iscsi",
    "ISCSI",
    Kind::Struct(&[
        Field("targetPortal", "TargetPortal", TEXT),
        Field("iqn", "IQN", TEXT),
        Field("lun", "Lun", NUMBER),
        Field("iscsiInterface", "ISCSIInterface", TEXT),
        Field("fsType", "FSType", TEXT),
        Field("readOnly", "ReadOnly", SWITCH),
        Field("portals", "Portals", NULL),
        Field("chapAuthDiscovery", "DiscoveryCHAPAuth", SWITCH),
        Field("chapAuthSession", "SessionCHAPAuth", SWITCH),
        Field("secretRef", "SecretRef", SECRET),
        Field("initiatorName", "InitiatorName", NULL),
    ]),
);
const FLEX_VOLUME: Field = Field(
    "flexVolume",
    "FlexVolume",
    Kind::Struct(&[
        Field("driver", "Driver", TEXT),
        Field("fsType", "FSType", TEXT),
        Field("secretRef", "SecretRef", SECRET),
        Field("readOnly", "ReadOnly", SWITCH),
        Field("options", "Options", NULL),
    ]),
);
const CINDER: Field = Field(
    "cinder",
    "Cinder",
    Kind::Struct(&[
        Field("volumeID", "VolumeID", TEXT),
        Field("fsType", "FSType", TEXT),
        Field("readOnly", "ReadOnly", SWITCH),
        Field("secretRef", "SecretRef", SECRET),
    ]),
);
const CEPHFS: Field = Field(
    "cephfs",
    "CephFS",
    Kind::Struct(&[
        Field("monitors", "Monitors", NULL),
        Field("path", "Path", TEXT),
        Field("user", "User", TEXT),
        Field("secretFile", "SecretFile", TEXT),
        Field("secretRef", "SecretRef", SECRET),
        Field("readOnly", "ReadOnly", SWITCH),
    ]),
);
const FC: Field = Field(
    "fc",
    "FC",
    Kind::Struct(&[
        Field("targetWWNs", "TargetWWNs", NULL),
        Field("lun", "Lun", NULL),
        Field("fsType", "FSType", TEXT),
        Field("readOnly", "ReadOnly", SWITCH),
        Field("wwids", "WWIDs", NULL),
    ]),
);
const FLOCKER: Field = Field(
    "flocker",
    "Flocker",
    Kind::Struct(&[Field("datasetName", "DatasetName", TEXT), Field("datasetUUID", "DatasetUUID", TEXT)]),
);
const AZURE_FILE: Field = Field(
    "azureFile",
    "AzureFile",
    Kind::Struct(&[
        Field("secretName", "SecretName", TEXT),
        Field("shareName", "ShareName", TEXT),
        Field("readOnly", "ReadOnly", SWITCH),
        Field("secretNamespace", "SecretNamespace", NULL),
    ]),
);
const VSPHERE_VOLUME: Field = Field(
    "vsphereVolume",
    "VsphereVolume",
    Kind::Struct(&[
        Field("volumePath", "VolumePath", TEXT),
        Field("fsType", "FSType", TEXT),
        Field("storagePolicyName", "StoragePolicyName", TEXT),
        Field("storagePolicyID", "StoragePolicyID", TEXT),
    ]),
);
const AZURE_DISK: Field = Field(
    "azureDisk",
    "AzureDisk",
    Kind::Struct(&[
        Field("diskName", "DiskName", TEXT),
        Field("diskURI", "DataDiskURI", TEXT),
        Field("cachingMode", "CachingMode", NULL),
        Field("fsType", "FSType", NULL),
        Field("readOnly", "ReadOnly", NULL),
        Field("kind", "Kind", NULL),
    ]),
);
const PHOTON_PERSISTENT_DISK: Field = Field(
    "photonPersistentDisk",
    "PhotonPersistentDisk",
    Kind::Struct(&[Field("pdID", "PdID", TEXT), Field("fsType", "FSType", TEXT)]),
);
const PORTWORX_VOLUME: Field = Field(
    "portworxVolume",
    "PortworxVolume",
    Kind::Struct(&[
        Field("volumeID", "VolumeID", TEXT),
        Field("fsType", "FSType", TEXT),
        Field("readOnly", "ReadOnly", SWITCH),
    ]),
);
const SCALE_I_O: Field = Field(
    "scaleIO",
    "ScaleIO",
    Kind::Struct(&[
        Field("gateway", "Gateway", TEXT),
        Field("system", "System", TEXT),
        Field("secretRef", "SecretRef", SECRET),
        Field("sslEnabled", "SSLEnabled", SWITCH),
        Field("protectionDomain", "ProtectionDomain", TEXT),
        Field("storagePool", "StoragePool", TEXT),
        Field("storageMode", "StorageMode", TEXT),
        Field("volumeName", "VolumeName", TEXT),
        Field("fsType", "FSType", TEXT),
        Field("readOnly", "ReadOnly", SWITCH),
    ]),
);
const LOCAL: Field =
    Field("local", "Local", Kind::Struct(&[Field("path", "Path", TEXT), Field("fsType", "FSType", NULL)]));
const STORAGEOS: Field = Field(
    "storageos",
    "StorageOS",
    Kind::Struct(&[
        Field("volumeName", "VolumeName", TEXT),
        Field("volumeNamespace", "VolumeNamespace", TEXT),
        Field("fsType", "FSType", TEXT),
        Field("readOnly", "ReadOnly", SWITCH),
        Field("secretRef", "SecretRef", OBJECT),
    ]),
);
const CSI: Field = Field(
    "csi",
    "CSI",
    Kind::Struct(&[
        Field("driver", "Driver", TEXT),
        Field("volumeHandle", "VolumeHandle", TEXT),
        Field("readOnly", "ReadOnly", SWITCH),
        Field("fsType", "FSType", TEXT),
        Field("volumeAttributes", "VolumeAttributes", NULL),
        Field("controllerPublishSecretRef", "ControllerPublishSecretRef", SECRET),
        Field("nodeStageSecretRef", "NodeStageSecretRef", SECRET),
        Field("nodePublishSecretRef", "NodePublishSecretRef", SECRET),
        Field("controllerExpandSecretRef", "ControllerExpandSecretRef", SECRET),
        Field("nodeExpandSecretRef", "NodeExpandSecretRef", SECRET),
    ]),
);

/// The sources.
pub(crate) static SOURCE: [Field; 22] = [
    GCE_PERSISTENT_DISK,
    AWS_ELASTIC_BLOCK_STORE,
    HOST_PATH,
    GLUSTERFS,
    NFS,
    RBD,
    QUOBYTE,
    ISCSI,
    FLEX_VOLUME,
    CINDER,
    CEPHFS,
    FC,
    FLOCKER,
    AZURE_FILE,
    VSPHERE_VOLUME,
    AZURE_DISK,
    PHOTON_PERSISTENT_DISK,
    PORTWORX_VOLUME,
    SCALE_I_O,
    LOCAL,
    STORAGEOS,
    CSI,
];

/// The whole spec, including the sources.
pub(crate) static SPEC: [Field; 31] = [
    Field("capacity", "Capacity", NULL),
    GCE_PERSISTENT_DISK,
    AWS_ELASTIC_BLOCK_STORE,
    HOST_PATH,
    GLUSTERFS,
    NFS,
    RBD,
    QUOBYTE,
    ISCSI,
    FLEX_VOLUME,
    CINDER,
    CEPHFS,
    FC,
    FLOCKER,
    AZURE_FILE,
    VSPHERE_VOLUME,
    AZURE_DISK,
    PHOTON_PERSISTENT_DISK,
    PORTWORX_VOLUME,
    SCALE_I_O,
    LOCAL,
    STORAGEOS,
    CSI,
    Field("accessModes", "AccessModes", NULL),
    Field("claimRef", "ClaimRef", OBJECT),
    Field("persistentVolumeReclaimPolicy", "PersistentVolumeReclaimPolicy", TEXT),
    Field("storageClassName", "StorageClassName", TEXT),
    Field("mountOptions", "MountOptions", NULL),
    Field("volumeMode", "VolumeMode", NULL),
    Field("nodeAffinity", "NodeAffinity", Kind::Struct(&AFFINITY_FIELDS)),
    Field("volumeAttributesClassName", "VolumeAttributesClassName", NULL),
];
