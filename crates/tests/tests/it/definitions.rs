//! Definitions of a real project, and objects of theirs: scripts/test downloads them, nothing of them is kept here.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kubectl::start;

/// Where scripts/test puts them.
fn folder() -> PathBuf {
    let target = std::env::current_exe().unwrap();
    let target = target.ancestors().find(|f| f.join("tools").is_dir()).map(Path::to_path_buf);
    target.unwrap_or_default().join("tools/definitions/dask_kubernetes/operator")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_of_a_real_project_work_with_their_objects() {
    let definitions = folder().join("deployment/helm/dask-kubernetes-operator/crds");
    let objects = folder().join("controller/tests/resources");
    if !definitions.is_dir() || !objects.is_dir() {
        eprintln!("left out: no definitions in {} (scripts/test downloads them)", folder().display());
        return;
    }
    let checked = Command::new(pintle_testkit::server::binary().unwrap())
        .arg("check")
        .args([&definitions, &objects])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{said}");
    assert!(said.ends_with(" checked, 0 refused, 0 skipped\n"), "{said}");
    let (_server, kubectl) = start(&[]).await;
    for line in [
        // Too large for the annotation of a client-side apply.
        format!("create -f {}", definitions.display()),
        "wait --for=condition=established crd --all --timeout=10s".to_owned(),
        format!("apply -f {}", objects.display()),
        format!("apply --server-side --force-conflicts -f {}", objects.display()),
        "get daskclusters,daskjobs,daskworkergroups".to_owned(),
        "explain daskcluster.spec.worker.spec.containers.livenessProbe".to_owned(),
    ] {
        let output = kubectl.run(&line, "");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {line}: {said}");
    }
}
