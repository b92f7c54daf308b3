//! Internal forms of volumes.

use super::meta::{LABEL_SELECTOR, OBJECT_META};
use crate::error_text::{FLAG, Field, Kind, NULL, NUMBER, TEXT};

/// `HostPathVolumeSource`
pub(crate) const HOST_PATH_VOLUME_SOURCE: &[Field] =
    &[Field("path", "Path", TEXT), Field("type", "Type", NULL)];
/// `EmptyDirVolumeSource`
pub(crate) const EMPTY_DIR_VOLUME_SOURCE: &[Field] =
    &[Field("medium", "Medium", TEXT), Field("sizeLimit", "SizeLimit", NULL)];
/// `GcePersistentDiskVolumeSource`
pub(crate) const GCE_PERSISTENT_DISK_VOLUME_SOURCE: &[Field] = &[
    Field("pdName", "PDName", TEXT),
    Field("fsType", "FSType", TEXT),
    Field("partition", "Partition", NUMBER),
    Field("readOnly", "ReadOnly", FLAG),
];
/// `AwsElasticBlockStoreVolumeSource`
pub(crate) const AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: &[Field] = &[
    Field("volumeID", "VolumeID", TEXT),
    Field("fsType", "FSType", TEXT),
    Field("partition", "Partition", NUMBER),
    Field("readOnly", "ReadOnly", FLAG),
];
/// `GitRepoVolumeSource`
pub(crate) const GIT_REPO_VOLUME_SOURCE: &[Field] = &[
    Field("repository", "Repository", TEXT),
    Field("revision", "Revision", TEXT),
    Field("directory", "Directory", TEXT),
];
/// `KeyToPath`
pub(crate) const KEY_TO_PATH: &[Field] =
    &[Field("key", "Key", TEXT), Field("path", "Path", TEXT), Field("mode", "Mode", NULL)];
/// `SecretVolumeSource`
pub(crate) const SECRET_VOLUME_SOURCE: &[Field] = &[
    Field("secretName", "SecretName", TEXT),
    Field("items", "Items", Kind::List(KEY_TO_PATH)),
    Field("defaultMode", "DefaultMode", NULL),
    Field("optional", "Optional", NULL),
];
/// `NfsVolumeSource`
pub(crate) const NFS_VOLUME_SOURCE: &[Field] =
    &[Field("server", "Server", TEXT), Field("path", "Path", TEXT), Field("readOnly", "ReadOnly", FLAG)];
/// `LocalObjectReference`
pub(crate) const LOCAL_OBJECT_REFERENCE: &[Field] = &[Field("name", "Name", TEXT)];
/// `IscsiVolumeSource`
pub(crate) const ISCSI_VOLUME_SOURCE: &[Field] = &[
    Field("targetPortal", "TargetPortal", TEXT),
    Field("iqn", "IQN", TEXT),
    Field("lun", "Lun", NUMBER),
    Field("iscsiInterface", "ISCSIInterface", TEXT),
    Field("fsType", "FSType", TEXT),
    Field("readOnly", "ReadOnly", FLAG),
    Field("portals", "Portals", NULL),
    Field("chapAuthDiscovery", "DiscoveryCHAPAuth", FLAG),
    Field("chapAuthSession", "SessionCHAPAuth", FLAG),
    Field("secretRef", "SecretRef", Kind::Struct(LOCAL_OBJECT_REFERENCE)),
    Field("initiatorName", "InitiatorName", NULL),
];
/// `GlusterfsVolumeSource`
pub(crate) const GLUSTERFS_VOLUME_SOURCE: &[Field] = &[
    Field("endpoints", "EndpointsName", TEXT),
    Field("path", "Path", TEXT),
    Field("readOnly", "ReadOnly", FLAG),
];
/// `PersistentVolumeClaimVolumeSource`
pub(crate) const PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: &[Field] =
    &[Field("claimName", "ClaimName", TEXT), Field("readOnly", "ReadOnly", FLAG)];
/// `RbdVolumeSource`
pub(crate) const RBD_VOLUME_SOURCE: &[Field] = &[
    Field("monitors", "CephMonitors", NULL),
    Field("image", "RBDImage", TEXT),
    Field("fsType", "FSType", TEXT),
    Field("pool", "RBDPool", TEXT),
    Field("user", "RadosUser", TEXT),
    Field("keyring", "Keyring", TEXT),
    Field("secretRef", "SecretRef", Kind::Struct(LOCAL_OBJECT_REFERENCE)),
    Field("readOnly", "ReadOnly", FLAG),
];
/// `QuobyteVolumeSource`
pub(crate) const QUOBYTE_VOLUME_SOURCE: &[Field] = &[
    Field("registry", "Registry", TEXT),
    Field("volume", "Volume", TEXT),
    Field("readOnly", "ReadOnly", FLAG),
    Field("user", "User", TEXT),
    Field("group", "Group", TEXT),
    Field("tenant", "Tenant", TEXT),
];
/// `FlexVolumeSource`
pub(crate) const FLEX_VOLUME_SOURCE: &[Field] = &[
    Field("driver", "Driver", TEXT),
    Field("fsType", "FSType", TEXT),
    Field("secretRef", "SecretRef", Kind::Struct(LOCAL_OBJECT_REFERENCE)),
    Field("readOnly", "ReadOnly", FLAG),
    Field("options", "Options", NULL),
];
/// `CinderVolumeSource`
pub(crate) const CINDER_VOLUME_SOURCE: &[Field] = &[
    Field("volumeID", "VolumeID", TEXT),
    Field("fsType", "FSType", TEXT),
    Field("readOnly", "ReadOnly", FLAG),
    Field("secretRef", "SecretRef", Kind::Struct(LOCAL_OBJECT_REFERENCE)),
];
/// `CephFsVolumeSource`
pub(crate) const CEPH_FS_VOLUME_SOURCE: &[Field] = &[
    Field("monitors", "Monitors", NULL),
    Field("path", "Path", TEXT),
    Field("user", "User", TEXT),
    Field("secretFile", "SecretFile", TEXT),
    Field("secretRef", "SecretRef", Kind::Struct(LOCAL_OBJECT_REFERENCE)),
    Field("readOnly", "ReadOnly", FLAG),
];
/// `FlockerVolumeSource`
pub(crate) const FLOCKER_VOLUME_SOURCE: &[Field] =
    &[Field("datasetName", "DatasetName", TEXT), Field("datasetUUID", "DatasetUUID", TEXT)];
/// `ObjectFieldSelector`
pub(crate) const OBJECT_FIELD_SELECTOR: &[Field] =
    &[Field("apiVersion", "APIVersion", TEXT), Field("fieldPath", "FieldPath", TEXT)];
/// `ResourceFieldSelector`
pub(crate) const RESOURCE_FIELD_SELECTOR: &[Field] = &[
    Field("containerName", "ContainerName", TEXT),
    Field("resource", "Resource", TEXT),
    Field("divisor", "Divisor", Kind::Plain("\"0\"")),
];
/// `DownwardApiVolumeFile`
pub(crate) const DOWNWARD_API_VOLUME_FILE: &[Field] = &[
    Field("path", "Path", TEXT),
    Field("fieldRef", "FieldRef", Kind::Struct(OBJECT_FIELD_SELECTOR)),
    Field("resourceFieldRef", "ResourceFieldRef", Kind::Struct(RESOURCE_FIELD_SELECTOR)),
    Field("mode", "Mode", NULL),
];
/// `DownwardApiVolumeSource`
pub(crate) const DOWNWARD_API_VOLUME_SOURCE: &[Field] = &[
    Field("items", "Items", Kind::List(DOWNWARD_API_VOLUME_FILE)),
    Field("defaultMode", "DefaultMode", NULL),
];
/// `FcVolumeSource`
pub(crate) const FC_VOLUME_SOURCE: &[Field] = &[
    Field("targetWWNs", "TargetWWNs", NULL),
    Field("lun", "Lun", NULL),
    Field("fsType", "FSType", TEXT),
    Field("readOnly", "ReadOnly", FLAG),
    Field("wwids", "WWIDs", NULL),
];
/// `AzureFileVolumeSource`
pub(crate) const AZURE_FILE_VOLUME_SOURCE: &[Field] = &[
    Field("secretName", "SecretName", TEXT),
    Field("shareName", "ShareName", TEXT),
    Field("readOnly", "ReadOnly", FLAG),
];
/// `ConfigMapVolumeSource`
pub(crate) const CONFIG_MAP_VOLUME_SOURCE: &[Field] = &[
    Field("", "", Kind::Inline(LOCAL_OBJECT_REFERENCE)),
    Field("items", "Items", Kind::List(KEY_TO_PATH)),
    Field("defaultMode", "DefaultMode", NULL),
    Field("optional", "Optional", NULL),
];
/// `VsphereVirtualDiskVolumeSource`
pub(crate) const VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: &[Field] = &[
    Field("volumePath", "VolumePath", TEXT),
    Field("fsType", "FSType", TEXT),
    Field("storagePolicyName", "StoragePolicyName", TEXT),
    Field("storagePolicyID", "StoragePolicyID", TEXT),
];
/// `AzureDiskVolumeSource`
pub(crate) const AZURE_DISK_VOLUME_SOURCE: &[Field] = &[
    Field("diskName", "DiskName", TEXT),
    Field("diskURI", "DataDiskURI", TEXT),
    Field("cachingMode", "CachingMode", NULL),
    Field("fsType", "FSType", NULL),
    Field("readOnly", "ReadOnly", NULL),
    Field("kind", "Kind", NULL),
];
/// `PhotonPersistentDiskVolumeSource`
pub(crate) const PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: &[Field] =
    &[Field("pdID", "PdID", TEXT), Field("fsType", "FSType", TEXT)];
/// `SecretProjection`
pub(crate) const SECRET_PROJECTION: &[Field] = &[
    Field("", "", Kind::Inline(LOCAL_OBJECT_REFERENCE)),
    Field("items", "Items", Kind::List(KEY_TO_PATH)),
    Field("optional", "Optional", NULL),
];
/// `DownwardApiProjection`
pub(crate) const DOWNWARD_API_PROJECTION: &[Field] =
    &[Field("items", "Items", Kind::List(DOWNWARD_API_VOLUME_FILE))];
/// `ConfigMapProjection`
pub(crate) const CONFIG_MAP_PROJECTION: &[Field] = &[
    Field("", "", Kind::Inline(LOCAL_OBJECT_REFERENCE)),
    Field("items", "Items", Kind::List(KEY_TO_PATH)),
    Field("optional", "Optional", NULL),
];
/// `ServiceAccountTokenProjection`
pub(crate) const SERVICE_ACCOUNT_TOKEN_PROJECTION: &[Field] = &[
    Field("audience", "Audience", TEXT),
    Field("expirationSeconds", "ExpirationSeconds", NUMBER),
    Field("path", "Path", TEXT),
];
/// `ClusterTrustBundleProjection`
pub(crate) const CLUSTER_TRUST_BUNDLE_PROJECTION: &[Field] = &[
    Field("name", "Name", NULL),
    Field("signerName", "SignerName", NULL),
    Field("labelSelector", "LabelSelector", Kind::Struct(LABEL_SELECTOR)),
    Field("optional", "Optional", NULL),
    Field("path", "Path", TEXT),
];
/// `PodCertificateProjection`
pub(crate) const POD_CERTIFICATE_PROJECTION: &[Field] = &[
    Field("signerName", "SignerName", TEXT),
    Field("keyType", "KeyType", TEXT),
    Field("maxExpirationSeconds", "MaxExpirationSeconds", NULL),
    Field("credentialBundlePath", "CredentialBundlePath", TEXT),
    Field("keyPath", "KeyPath", TEXT),
    Field("certificateChainPath", "CertificateChainPath", TEXT),
    Field("userAnnotations", "UserAnnotations", NULL),
];
/// `VolumeProjection`
pub(crate) const VOLUME_PROJECTION: &[Field] = &[
    Field("secret", "Secret", Kind::Struct(SECRET_PROJECTION)),
    Field("downwardAPI", "DownwardAPI", Kind::Struct(DOWNWARD_API_PROJECTION)),
    Field("configMap", "ConfigMap", Kind::Struct(CONFIG_MAP_PROJECTION)),
    Field("serviceAccountToken", "ServiceAccountToken", Kind::Struct(SERVICE_ACCOUNT_TOKEN_PROJECTION)),
    Field("clusterTrustBundle", "ClusterTrustBundle", Kind::Struct(CLUSTER_TRUST_BUNDLE_PROJECTION)),
    Field("podCertificate", "PodCertificate", Kind::Struct(POD_CERTIFICATE_PROJECTION)),
];
/// `ProjectedVolumeSource`
pub(crate) const PROJECTED_VOLUME_SOURCE: &[Field] =
    &[Field("sources", "Sources", Kind::List(VOLUME_PROJECTION)), Field("defaultMode", "DefaultMode", NULL)];
/// `PortworxVolumeSource`
pub(crate) const PORTWORX_VOLUME_SOURCE: &[Field] = &[
    Field("volumeID", "VolumeID", TEXT),
    Field("fsType", "FSType", TEXT),
    Field("readOnly", "ReadOnly", FLAG),
];
/// `ScaleIoVolumeSource`
pub(crate) const SCALE_IO_VOLUME_SOURCE: &[Field] = &[
    Field("gateway", "Gateway", TEXT),
    Field("system", "System", TEXT),
    Field("secretRef", "SecretRef", Kind::Struct(LOCAL_OBJECT_REFERENCE)),
    Field("sslEnabled", "SSLEnabled", FLAG),
    Field("protectionDomain", "ProtectionDomain", TEXT),
    Field("storagePool", "StoragePool", TEXT),
    Field("storageMode", "StorageMode", TEXT),
    Field("volumeName", "VolumeName", TEXT),
    Field("fsType", "FSType", TEXT),
    Field("readOnly", "ReadOnly", FLAG),
];
/// `StorageOsVolumeSource`
pub(crate) const STORAGE_OS_VOLUME_SOURCE: &[Field] = &[
    Field("volumeName", "VolumeName", TEXT),
    Field("volumeNamespace", "VolumeNamespace", TEXT),
    Field("fsType", "FSType", TEXT),
    Field("readOnly", "ReadOnly", FLAG),
    Field("secretRef", "SecretRef", Kind::Struct(LOCAL_OBJECT_REFERENCE)),
];
/// `CsiVolumeSource`
pub(crate) const CSI_VOLUME_SOURCE: &[Field] = &[
    Field("driver", "Driver", TEXT),
    Field("readOnly", "ReadOnly", NULL),
    Field("fsType", "FSType", NULL),
    Field("volumeAttributes", "VolumeAttributes", NULL),
    Field("nodePublishSecretRef", "NodePublishSecretRef", Kind::Struct(LOCAL_OBJECT_REFERENCE)),
];
/// `VolumeResourceRequirements`
pub(crate) const VOLUME_RESOURCE_REQUIREMENTS: &[Field] =
    &[Field("limits", "Limits", NULL), Field("requests", "Requests", NULL)];
/// `TypedLocalObjectReference`
pub(crate) const TYPED_LOCAL_OBJECT_REFERENCE: &[Field] =
    &[Field("apiGroup", "APIGroup", NULL), Field("kind", "Kind", TEXT), Field("name", "Name", TEXT)];
/// `TypedObjectReference`
pub(crate) const TYPED_OBJECT_REFERENCE: &[Field] = &[
    Field("apiGroup", "APIGroup", NULL),
    Field("kind", "Kind", TEXT),
    Field("name", "Name", TEXT),
    Field("namespace", "Namespace", NULL),
];
/// `PersistentVolumeClaimSpec`
pub(crate) const PERSISTENT_VOLUME_CLAIM_SPEC: &[Field] = &[
    Field("accessModes", "AccessModes", NULL),
    Field("selector", "Selector", Kind::Struct(LABEL_SELECTOR)),
    Field("resources", "Resources", Kind::Value(VOLUME_RESOURCE_REQUIREMENTS)),
    Field("volumeName", "VolumeName", TEXT),
    Field("storageClassName", "StorageClassName", NULL),
    Field("volumeMode", "VolumeMode", NULL),
    Field("dataSource", "DataSource", Kind::Struct(TYPED_LOCAL_OBJECT_REFERENCE)),
    Field("dataSourceRef", "DataSourceRef", Kind::Struct(TYPED_OBJECT_REFERENCE)),
    Field("volumeAttributesClassName", "VolumeAttributesClassName", NULL),
];
/// `PersistentVolumeClaimTemplate`
pub(crate) const PERSISTENT_VOLUME_CLAIM_TEMPLATE: &[Field] = &[
    Field("metadata", "", Kind::Inline(OBJECT_META)),
    Field("spec", "Spec", Kind::Value(PERSISTENT_VOLUME_CLAIM_SPEC)),
];
/// `EphemeralVolumeSource`
pub(crate) const EPHEMERAL_VOLUME_SOURCE: &[Field] =
    &[Field("volumeClaimTemplate", "VolumeClaimTemplate", Kind::Struct(PERSISTENT_VOLUME_CLAIM_TEMPLATE))];
/// `ImageVolumeSource`
pub(crate) const IMAGE_VOLUME_SOURCE: &[Field] =
    &[Field("reference", "Reference", TEXT), Field("pullPolicy", "PullPolicy", TEXT)];
/// `VolumeSource`
pub(crate) const VOLUME_SOURCE: &[Field] = &[
    Field("hostPath", "HostPath", Kind::Struct(HOST_PATH_VOLUME_SOURCE)),
    Field("emptyDir", "EmptyDir", Kind::Struct(EMPTY_DIR_VOLUME_SOURCE)),
    Field("gcePersistentDisk", "GCEPersistentDisk", Kind::Struct(GCE_PERSISTENT_DISK_VOLUME_SOURCE)),
    Field(
        "awsElasticBlockStore",
        "AWSElasticBlockStore",
        Kind::Struct(AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE),
    ),
    Field("gitRepo", "GitRepo", Kind::Struct(GIT_REPO_VOLUME_SOURCE)),
    Field("secret", "Secret", Kind::Struct(SECRET_VOLUME_SOURCE)),
    Field("nfs", "NFS", Kind::Struct(NFS_VOLUME_SOURCE)),
    Field("iscsi", "ISCSI", Kind::Struct(ISCSI_VOLUME_SOURCE)),
    Field("glusterfs", "Glusterfs", Kind::Struct(GLUSTERFS_VOLUME_SOURCE)),
    Field(
        "persistentVolumeClaim",
        "PersistentVolumeClaim",
        Kind::Struct(PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE),
    ),
    Field("rbd", "RBD", Kind::Struct(RBD_VOLUME_SOURCE)),
    Field("quobyte", "Quobyte", Kind::Struct(QUOBYTE_VOLUME_SOURCE)),
    Field("flexVolume", "FlexVolume", Kind::Struct(FLEX_VOLUME_SOURCE)),
    Field("cinder", "Cinder", Kind::Struct(CINDER_VOLUME_SOURCE)),
    Field("cephfs", "CephFS", Kind::Struct(CEPH_FS_VOLUME_SOURCE)),
    Field("flocker", "Flocker", Kind::Struct(FLOCKER_VOLUME_SOURCE)),
    Field("downwardAPI", "DownwardAPI", Kind::Struct(DOWNWARD_API_VOLUME_SOURCE)),
    Field("fc", "FC", Kind::Struct(FC_VOLUME_SOURCE)),
    Field("azureFile", "AzureFile", Kind::Struct(AZURE_FILE_VOLUME_SOURCE)),
    Field("configMap", "ConfigMap", Kind::Struct(CONFIG_MAP_VOLUME_SOURCE)),
    Field("vsphereVolume", "VsphereVolume", Kind::Struct(VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)),
    Field("azureDisk", "AzureDisk", Kind::Struct(AZURE_DISK_VOLUME_SOURCE)),
    Field("photonPersistentDisk", "PhotonPersistentDisk", Kind::Struct(PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)),
    Field("projected", "Projected", Kind::Struct(PROJECTED_VOLUME_SOURCE)),
    Field("portworxVolume", "PortworxVolume", Kind::Struct(PORTWORX_VOLUME_SOURCE)),
    Field("scaleIO", "ScaleIO", Kind::Struct(SCALE_IO_VOLUME_SOURCE)),
    Field("storageos", "StorageOS", Kind::Struct(STORAGE_OS_VOLUME_SOURCE)),
    Field("csi", "CSI", Kind::Struct(CSI_VOLUME_SOURCE)),
    Field("ephemeral", "Ephemeral", Kind::Struct(EPHEMERAL_VOLUME_SOURCE)),
    Field("image", "Image", Kind::Struct(IMAGE_VOLUME_SOURCE)),
];
/// `Volume`
pub(crate) const VOLUME: &[Field] =
    &[Field("name", "Name", TEXT), Field("", "", Kind::Inline(VOLUME_SOURCE))];
