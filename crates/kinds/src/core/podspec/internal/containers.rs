//! Containers in Go's internal types.

use super::volumes::{LOCAL_OBJECT_REFERENCE, OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR};
use crate::error_text::{FLAG, Field, Kind, NULL, NUMBER, TEXT};

/// `ContainerPort`
pub(crate) const CONTAINER_PORT: &[Field] = &[
    Field("name", "Name", TEXT),
    Field("hostPort", "HostPort", NUMBER),
    Field("containerPort", "ContainerPort", NUMBER),
    Field("protocol", "Protocol", TEXT),
    Field("hostIP", "HostIP", TEXT),
];
/// `ConfigMapEnvSource`
pub(crate) const CONFIG_MAP_ENV_SOURCE: &[Field] =
    &[Field("", "", Kind::Inline(LOCAL_OBJECT_REFERENCE)), Field("optional", "Optional", NULL)];
/// `SecretEnvSource`
pub(crate) const SECRET_ENV_SOURCE: &[Field] =
    &[Field("", "", Kind::Inline(LOCAL_OBJECT_REFERENCE)), Field("optional", "Optional", NULL)];
/// `EnvFromSource`
pub(crate) const ENV_FROM_SOURCE: &[Field] = &[
    Field("prefix", "Prefix", TEXT),
    Field("configMapRef", "ConfigMapRef", Kind::Struct(CONFIG_MAP_ENV_SOURCE)),
    Field("secretRef", "SecretRef", Kind::Struct(SECRET_ENV_SOURCE)),
];
/// `ConfigMapKeySelector`
pub(crate) const CONFIG_MAP_KEY_SELECTOR: &[Field] = &[
    Field("", "", Kind::Inline(LOCAL_OBJECT_REFERENCE)),
    Field("key", "Key", TEXT),
    Field("optional", "Optional", NULL),
];
/// `SecretKeySelector`
pub(crate) const SECRET_KEY_SELECTOR: &[Field] = &[
    Field("", "", Kind::Inline(LOCAL_OBJECT_REFERENCE)),
    Field("key", "Key", TEXT),
    Field("optional", "Optional", NULL),
];
/// `FileKeySelector`
pub(crate) const FILE_KEY_SELECTOR: &[Field] = &[
    Field("volumeName", "VolumeName", TEXT),
    Field("path", "Path", TEXT),
    Field("key", "Key", TEXT),
    Field("optional", "Optional", NULL),
];
/// `EnvVarSource`
pub(crate) const ENV_VAR_SOURCE: &[Field] = &[
    Field("fieldRef", "FieldRef", Kind::Struct(OBJECT_FIELD_SELECTOR)),
    Field("resourceFieldRef", "ResourceFieldRef", Kind::Struct(RESOURCE_FIELD_SELECTOR)),
    Field("configMapKeyRef", "ConfigMapKeyRef", Kind::Struct(CONFIG_MAP_KEY_SELECTOR)),
    Field("secretKeyRef", "SecretKeyRef", Kind::Struct(SECRET_KEY_SELECTOR)),
    Field("fileKeyRef", "FileKeyRef", Kind::Struct(FILE_KEY_SELECTOR)),
];
/// `EnvVar`
pub(crate) const ENV_VAR: &[Field] = &[
    Field("name", "Name", TEXT),
    Field("value", "Value", TEXT),
    Field("valueFrom", "ValueFrom", Kind::Struct(ENV_VAR_SOURCE)),
];
/// `ResourceClaim`
pub(crate) const RESOURCE_CLAIM: &[Field] = &[Field("name", "Name", TEXT), Field("request", "Request", TEXT)];
/// `ResourceRequirements`
pub(crate) const RESOURCE_REQUIREMENTS: &[Field] = &[
    Field("limits", "Limits", NULL),
    Field("requests", "Requests", NULL),
    Field("claims", "Claims", Kind::List(RESOURCE_CLAIM)),
];
/// `ContainerResizePolicy`
pub(crate) const CONTAINER_RESIZE_POLICY: &[Field] =
    &[Field("resourceName", "ResourceName", TEXT), Field("restartPolicy", "RestartPolicy", TEXT)];
/// `ContainerRestartRuleOnExitCodes`
pub(crate) const CONTAINER_RESTART_RULE_ON_EXIT_CODES: &[Field] =
    &[Field("operator", "Operator", TEXT), Field("values", "Values", NULL)];
/// `ContainerRestartRule`
pub(crate) const CONTAINER_RESTART_RULE: &[Field] = &[
    Field("action", "Action", TEXT),
    Field("exitCodes", "ExitCodes", Kind::Struct(CONTAINER_RESTART_RULE_ON_EXIT_CODES)),
];
/// `VolumeMount`
pub(crate) const VOLUME_MOUNT: &[Field] = &[
    Field("name", "Name", TEXT),
    Field("readOnly", "ReadOnly", FLAG),
    Field("recursiveReadOnly", "RecursiveReadOnly", NULL),
    Field("mountPath", "MountPath", TEXT),
    Field("subPath", "SubPath", TEXT),
    Field("mountPropagation", "MountPropagation", NULL),
    Field("subPathExpr", "SubPathExpr", TEXT),
];
/// `VolumeDevice`
pub(crate) const VOLUME_DEVICE: &[Field] =
    &[Field("name", "Name", TEXT), Field("devicePath", "DevicePath", TEXT)];
/// `ExecAction`
pub(crate) const EXEC_ACTION: &[Field] = &[Field("command", "Command", NULL)];
/// `HttpHeader`
pub(crate) const HTTP_HEADER: &[Field] = &[Field("name", "Name", TEXT), Field("value", "Value", TEXT)];
/// `HttpGetAction`
pub(crate) const HTTP_GET_ACTION: &[Field] = &[
    Field("path", "Path", TEXT),
    Field("port", "Port", NUMBER),
    Field("host", "Host", TEXT),
    Field("scheme", "Scheme", TEXT),
    Field("httpHeaders", "HTTPHeaders", Kind::List(HTTP_HEADER)),
];
/// `TcpSocketAction`
pub(crate) const TCP_SOCKET_ACTION: &[Field] = &[Field("port", "Port", NUMBER), Field("host", "Host", TEXT)];
/// `GrpcAction`
pub(crate) const GRPC_ACTION: &[Field] = &[Field("port", "Port", NUMBER), Field("service", "Service", NULL)];
/// `ProbeHandler`
pub(crate) const PROBE_HANDLER: &[Field] = &[
    Field("exec", "Exec", Kind::Struct(EXEC_ACTION)),
    Field("httpGet", "HTTPGet", Kind::Struct(HTTP_GET_ACTION)),
    Field("tcpSocket", "TCPSocket", Kind::Struct(TCP_SOCKET_ACTION)),
    Field("grpc", "GRPC", Kind::Struct(GRPC_ACTION)),
];
/// `Probe`
pub(crate) const PROBE: &[Field] = &[
    Field("", "", Kind::Inline(PROBE_HANDLER)),
    Field("initialDelaySeconds", "InitialDelaySeconds", NUMBER),
    Field("timeoutSeconds", "TimeoutSeconds", NUMBER),
    Field("periodSeconds", "PeriodSeconds", NUMBER),
    Field("successThreshold", "SuccessThreshold", NUMBER),
    Field("failureThreshold", "FailureThreshold", NUMBER),
    Field("terminationGracePeriodSeconds", "TerminationGracePeriodSeconds", NULL),
];
/// `SleepAction`
pub(crate) const SLEEP_ACTION: &[Field] = &[Field("seconds", "Seconds", NUMBER)];
/// `LifecycleHandler`
pub(crate) const LIFECYCLE_HANDLER: &[Field] = &[
    Field("exec", "Exec", Kind::Struct(EXEC_ACTION)),
    Field("httpGet", "HTTPGet", Kind::Struct(HTTP_GET_ACTION)),
    Field("tcpSocket", "TCPSocket", Kind::Struct(TCP_SOCKET_ACTION)),
    Field("sleep", "Sleep", Kind::Struct(SLEEP_ACTION)),
];
/// `Lifecycle`
pub(crate) const LIFECYCLE: &[Field] = &[
    Field("postStart", "PostStart", Kind::Struct(LIFECYCLE_HANDLER)),
    Field("preStop", "PreStop", Kind::Struct(LIFECYCLE_HANDLER)),
    Field("stopSignal", "StopSignal", NULL),
];
/// `Capabilities`
pub(crate) const CAPABILITIES: &[Field] = &[Field("add", "Add", NULL), Field("drop", "Drop", NULL)];
/// `SeLinuxOptions`
pub(crate) const SE_LINUX_OPTIONS: &[Field] = &[
    Field("user", "User", TEXT),
    Field("role", "Role", TEXT),
    Field("type", "Type", TEXT),
    Field("level", "Level", TEXT),
];
/// `WindowsSecurityContextOptions`
pub(crate) const WINDOWS_SECURITY_CONTEXT_OPTIONS: &[Field] = &[
    Field("gmsaCredentialSpecName", "GMSACredentialSpecName", NULL),
    Field("gmsaCredentialSpec", "GMSACredentialSpec", NULL),
    Field("runAsUserName", "RunAsUserName", NULL),
    Field("hostProcess", "HostProcess", NULL),
];
/// `SeccompProfile`
pub(crate) const SECCOMP_PROFILE: &[Field] =
    &[Field("type", "Type", TEXT), Field("localhostProfile", "LocalhostProfile", NULL)];
/// `AppArmorProfile`
pub(crate) const APP_ARMOR_PROFILE: &[Field] =
    &[Field("type", "Type", TEXT), Field("localhostProfile", "LocalhostProfile", NULL)];
/// `SecurityContext`
pub(crate) const SECURITY_CONTEXT: &[Field] = &[
    Field("capabilities", "Capabilities", Kind::Struct(CAPABILITIES)),
    Field("privileged", "Privileged", NULL),
    Field("seLinuxOptions", "SELinuxOptions", Kind::Struct(SE_LINUX_OPTIONS)),
    Field("windowsOptions", "WindowsOptions", Kind::Struct(WINDOWS_SECURITY_CONTEXT_OPTIONS)),
    Field("runAsUser", "RunAsUser", NULL),
    Field("runAsGroup", "RunAsGroup", NULL),
    Field("runAsNonRoot", "RunAsNonRoot", NULL),
    Field("readOnlyRootFilesystem", "ReadOnlyRootFilesystem", NULL),
    Field("allowPrivilegeEscalation", "AllowPrivilegeEscalation", NULL),
    Field("procMount", "ProcMount", NULL),
    Field("seccompProfile", "SeccompProfile", Kind::Struct(SECCOMP_PROFILE)),
    Field("appArmorProfile", "AppArmorProfile", Kind::Struct(APP_ARMOR_PROFILE)),
];
/// `Container`
pub(crate) const CONTAINER: &[Field] = &[
    Field("name", "Name", TEXT),
    Field("image", "Image", TEXT),
    Field("command", "Command", NULL),
    Field("args", "Args", NULL),
    Field("workingDir", "WorkingDir", TEXT),
    Field("ports", "Ports", Kind::List(CONTAINER_PORT)),
    Field("envFrom", "EnvFrom", Kind::List(ENV_FROM_SOURCE)),
    Field("env", "Env", Kind::List(ENV_VAR)),
    Field("resources", "Resources", Kind::Value(RESOURCE_REQUIREMENTS)),
    Field("resizePolicy", "ResizePolicy", Kind::List(CONTAINER_RESIZE_POLICY)),
    Field("restartPolicy", "RestartPolicy", NULL),
    Field("restartPolicyRules", "RestartPolicyRules", Kind::List(CONTAINER_RESTART_RULE)),
    Field("volumeMounts", "VolumeMounts", Kind::List(VOLUME_MOUNT)),
    Field("volumeDevices", "VolumeDevices", Kind::List(VOLUME_DEVICE)),
    Field("livenessProbe", "LivenessProbe", Kind::Struct(PROBE)),
    Field("readinessProbe", "ReadinessProbe", Kind::Struct(PROBE)),
    Field("startupProbe", "StartupProbe", Kind::Struct(PROBE)),
    Field("lifecycle", "Lifecycle", Kind::Struct(LIFECYCLE)),
    Field("terminationMessagePath", "TerminationMessagePath", TEXT),
    Field("terminationMessagePolicy", "TerminationMessagePolicy", TEXT),
    Field("imagePullPolicy", "ImagePullPolicy", TEXT),
    Field("securityContext", "SecurityContext", Kind::Struct(SECURITY_CONTEXT)),
    Field("stdin", "Stdin", FLAG),
    Field("stdinOnce", "StdinOnce", FLAG),
    Field("tty", "TTY", FLAG),
];
/// `EphemeralContainerCommon`
pub(crate) const EPHEMERAL_CONTAINER_COMMON: &[Field] = &[
    Field("name", "Name", TEXT),
    Field("image", "Image", TEXT),
    Field("command", "Command", NULL),
    Field("args", "Args", NULL),
    Field("workingDir", "WorkingDir", TEXT),
    Field("ports", "Ports", Kind::List(CONTAINER_PORT)),
    Field("envFrom", "EnvFrom", Kind::List(ENV_FROM_SOURCE)),
    Field("env", "Env", Kind::List(ENV_VAR)),
    Field("resources", "Resources", Kind::Value(RESOURCE_REQUIREMENTS)),
    Field("resizePolicy", "ResizePolicy", Kind::List(CONTAINER_RESIZE_POLICY)),
    Field("restartPolicy", "RestartPolicy", NULL),
    Field("restartPolicyRules", "RestartPolicyRules", Kind::List(CONTAINER_RESTART_RULE)),
    Field("volumeMounts", "VolumeMounts", Kind::List(VOLUME_MOUNT)),
    Field("volumeDevices", "VolumeDevices", Kind::List(VOLUME_DEVICE)),
    Field("livenessProbe", "LivenessProbe", Kind::Struct(PROBE)),
    Field("readinessProbe", "ReadinessProbe", Kind::Struct(PROBE)),
    Field("startupProbe", "StartupProbe", Kind::Struct(PROBE)),
    Field("lifecycle", "Lifecycle", Kind::Struct(LIFECYCLE)),
    Field("terminationMessagePath", "TerminationMessagePath", TEXT),
    Field("terminationMessagePolicy", "TerminationMessagePolicy", TEXT),
    Field("imagePullPolicy", "ImagePullPolicy", TEXT),
    Field("securityContext", "SecurityContext", Kind::Struct(SECURITY_CONTEXT)),
    Field("stdin", "Stdin", FLAG),
    Field("stdinOnce", "StdinOnce", FLAG),
    Field("tty", "TTY", FLAG),
];
/// `EphemeralContainer`
pub(crate) const EPHEMERAL_CONTAINER: &[Field] = &[
    Field("", "", Kind::Inline(EPHEMERAL_CONTAINER_COMMON)),
    Field("targetContainerName", "TargetContainerName", TEXT),
];
