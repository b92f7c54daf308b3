use super::PersistentVolume;
use crate::testing::{created, defaulted, tree, updated};
use crate::{Hooks, Scope};

#[test]
fn a_volume_gets_policy_mode_and_phase() {
    assert_eq!(
        defaulted(
            "core/v1.PersistentVolume",
            r#"{"spec":{"hostPath":{"path":"/x"},"capacity":{"storage":"1Gi"}}}"#
        ),
        r#"{"spec":{"capacity":{"storage":"1Gi"},"hostPath":{"path":"/x","type":""},"persistentVolumeReclaimPolicy":"Retain","volumeMode":"Filesystem"},"status":{"phase":"Pending"}}"#
    );
}

#[test]
fn faults_of_the_spec() {
    for (spec, expected) in [
        (
            "{}",
            vec![
                "spec.accessModes: Required value",
                "spec.capacity: Required value",
                r#"spec.capacity: Unsupported value: null: supported values: "storage""#,
                "spec: Required value: must specify a volume type",
            ],
        ),
        (
            r#"{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1"},"hostPath":{"path":"/x"},"nfs":{"server":"s","path":"/"}}"#,
            vec!["spec.nfs: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            r#"{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1"},"local":{"path":"/d"}}"#,
            vec!["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        ),
        (
            r#"{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"0"},"csi":{"driver":"d","volumeHandle":""}}"#,
            vec![
                r#"spec.capacity[storage]: Invalid value: "0": must be greater than zero"#,
                "spec.csi.volumeHandle: Required value",
            ],
        ),
        (
            r#"{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1"},"iscsi":{"targetPortal":"t","iqn":"x","lun":256}}"#,
            vec![
                r#"spec.iscsi.iqn: Invalid value: "x": must be valid format"#,
                "spec.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
            ],
        ),
    ] {
        assert_eq!(created(&PersistentVolume, &format!(r#"{{"spec":{spec}}}"#)), expected, "{spec}");
    }
}

#[test]
fn the_source_stays() {
    let with = |path: &str| {
        format!(
            r#"{{"metadata":{{"name":"a"}},"spec":{{"accessModes":["ReadWriteOnce"],"capacity":{{"storage":"1"}},"hostPath":{{"path":"{path}","type":""}}}}}}"#
        )
    };
    assert_eq!(
        updated(&PersistentVolume, Scope::Main, &with("/y"), &with("/x")),
        [
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@ -2,7 +2,7 @@\n  \"GCEPersistentDisk\": null,\n  \"AWSElasticBlockStore\": null,\n  \"HostPath\": {\n-  \"Path\": \"/x\",\n+  \"Path\": \"/y\",\n   \"Type\": \"\"\n  },\n  \"Glusterfs\": null,\n"
        ]
    );
}

#[test]
fn a_new_phase_has_a_new_time() {
    let old = tree(r#"{"spec":{},"status":{"phase":"Pending","lastPhaseTransitionTime":"a"}}"#);
    let status = Scope::Sub("status");
    for (new, expected) in [
        (r#"{"status":{"phase":"Available"}}"#, "now"),
        (r#"{"status":{"phase":"Available","lastPhaseTransitionTime":"a"}}"#, "now"),
        (r#"{"status":{"phase":"Available","lastPhaseTransitionTime":"b"}}"#, "b"),
        (r#"{"status":{"phase":"Pending"}}"#, "a"),
    ] {
        let mut new = tree(new);
        PersistentVolume.prepare_update(status, &mut new, &old);
        PersistentVolume.stamp(status, &mut new, Some(&old), "now");
        assert_eq!(new.str_at(&["status", "lastPhaseTransitionTime"]), expected);
    }
}
