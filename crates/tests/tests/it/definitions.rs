//! CustomResourceDefinitions of real projects, and objects of them. scripts/test downloads them; they are not part of
//! the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kubectl::start;

/// The folder in which scripts/test puts them.
fn folder() -> PathBuf {
    let target = std::env::current_exe().unwrap();
    let target = target.ancestors().find(|f| f.join("tools").is_dir()).map(Path::to_path_buf);
    target.unwrap_or_default().join("tools/definitions")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_of_a_real_project_work_with_their_objects() {
    let operator = folder().join("dask_kubernetes/operator");
    let definitions = operator.join("deployment/helm/dask-kubernetes-operator/crds");
    let objects = operator.join("controller/tests/resources");
    if !definitions.is_dir() || !objects.is_dir() {
        pintle_testkit::skip(&format!(
            "no definitions in {} (scripts/test downloads them)",
            folder().display()
        ));
        return;
    }
    let checked = Command::new(pintle_testkit::server::binary().unwrap())
        .arg("check")
        .args([&definitions, &objects])
        .output()
        .unwrap();
    let output_text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{output_text}");
    assert!(output_text.ends_with(" checked, 0 refused, 0 skipped\n"), "{output_text}");
    let (_server, kubectl) = start(&[]).await;
    for line in [
        // These files are too large for the annotation of client-side apply.
        format!("create -f {}", definitions.display()),
        "wait --for=condition=established crd --all --timeout=10s".to_owned(),
        format!("apply -f {}", objects.display()),
        format!("apply --server-side --force-conflicts -f {}", objects.display()),
        "get daskclusters,daskjobs,daskworkergroups".to_owned(),
        "explain daskcluster.spec.worker.spec.containers.livenessProbe".to_owned(),
    ] {
        let output = kubectl.run(&line, "");
        let output_text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {line}: {output_text}");
    }
}

/// The prefixes of the crates' names (before `-crds`), the number of their definitions, and how many of those
/// kube-apiserver rejects as well: their schemas lack types.
const CRATES: &[(&str, usize, usize)] = &[
    ("argo-cd", 3, 0),
    ("argo-events", 3, 0),
    ("argo-rollouts", 5, 0),
    ("argo-workflows", 6, 5),
    ("cert-manager", 6, 0),
    ("flux", 12, 0),
    ("istio", 15, 0),
    ("kube-prometheus-stack", 8, 0),
    ("longhorn", 17, 0),
];

/// One object for several of the projects, from their introductions.
const OBJECTS: &str = r#"
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: guestbook}
spec:
  project: default
  source: {repoURL: "https://example.com/apps.git", targetRevision: HEAD, path: guestbook}
  destination: {server: "https://kubernetes.default.svc", namespace: guestbook}
  syncPolicy: {automated: {prune: true, selfHeal: true}, syncOptions: [CreateNamespace=true]}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: canary}
spec:
  replicas: 5
  strategy: {canary: {steps: [{setWeight: 20}, {pause: {}}, {setWeight: 60}, {pause: {duration: 10}}]}}
  selector: {matchLabels: {app: canary}}
  template:
    metadata: {labels: {app: canary}}
    spec: {containers: [{name: web, image: "example.com/web:1", ports: [{containerPort: 8080}]}]}
---
apiVersion: argoproj.io/v1alpha1
kind: EventBus
metadata: {name: default}
spec: {nats: {native: {replicas: 3, auth: token}}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: site}
spec:
  secretName: site-tls
  duration: 2160h
  dnsNames: [example.com, www.example.com]
  issuerRef: {name: ca, kind: Issuer}
  usages: [server auth, client auth]
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: ca}
spec: {ca: {secretName: ca-key-pair}}
---
apiVersion: source.toolkit.fluxcd.io/v1beta2
kind: GitRepository
metadata: {name: apps}
spec: {interval: 5m, url: "https://example.com/apps.git", ref: {branch: main}}
---
apiVersion: networking.istio.io/v1beta1
kind: VirtualService
metadata: {name: reviews}
spec:
  hosts: [reviews]
  http:
  - match: [{headers: {end-user: {exact: jason}}}]
    route: [{destination: {host: reviews, subset: v2}}]
  - route: [{destination: {host: reviews, subset: v1}, weight: 100}]
---
apiVersion: security.istio.io/v1beta1
kind: PeerAuthentication
metadata: {name: strict}
spec: {mtls: {mode: STRICT}}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: app}
spec: {selector: {matchLabels: {app: web}}, endpoints: [{port: metrics, interval: 30s}]}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: alerts}
spec: {groups: [{name: all, rules: [{alert: Down, expr: "up == 0", for: 5m, labels: {severity: page}}]}]}
---
apiVersion: longhorn.io/v1beta2
kind: Setting
metadata: {name: backup-target}
value: "s3://backups@eu/"
"#;

/// The files of a crate that have definitions.
fn definition_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder.join("resources"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_of_well_known_projects_install() {
    let crates = folder().join("crates");
    if !crates.is_dir() {
        pintle_testkit::skip(&format!(
            "no definitions in {} (scripts/test downloads them)",
            crates.display()
        ));
        return;
    }
    let (_server, kubectl) = start(&[]).await;
    let mut installed = 0;
    for (name, definitions, refused) in CRATES {
        let files = definition_files(&crates.join(format!("{name}-crds")));
        let checked = Command::new(pintle_testkit::server::binary().unwrap())
            .arg("check")
            .args(&files)
            .output()
            .unwrap();
        let output_text = String::from_utf8_lossy(&checked.stdout).into_owned();
        let found: Vec<_> =
            output_text.lines().filter(|line| line.contains(": CustomResourceDefinition ")).collect();
        let accepted = found.iter().filter(|line| line.ends_with(": ok")).count();
        assert_eq!((found.len(), found.len() - accepted), (*definitions, *refused), "{name}: {output_text}");
        // Files without definitions are for a cluster with nodes.
        let files: Vec<String> = files.iter().map(|file| format!("-f {}", file.display())).collect();
        let output = kubectl.run(&format!("create {}", files.join(" ")), "");
        let made = String::from_utf8_lossy(&output.stdout);
        installed += made.lines().filter(|line| line.starts_with("customresourcedefinition.")).count();
    }
    let expected: usize = CRATES.iter().map(|(_, definitions, refused)| definitions - refused).sum();
    assert_eq!(installed, expected);
    for (line, input) in [
        ("wait --for=condition=established crd --all --timeout=20s", ""),
        ("apply -f -", OBJECTS),
        ("apply --server-side --force-conflicts -f -", OBJECTS),
        ("apply --dry-run=server -f -", OBJECTS),
        ("get applications,rollouts,certificates,gitrepositories,virtualservices,servicemonitors", ""),
        ("explain certificate.spec.issuerRef", ""),
        ("explain virtualservice.spec.http.route", ""),
        ("scale --replicas=2 rollout/canary", ""),
        ("delete -f -", OBJECTS),
    ] {
        let output = kubectl.run(line, input);
        let output_text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {line}: {output_text}");
    }
}
