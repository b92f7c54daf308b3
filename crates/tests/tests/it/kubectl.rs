//! Real kubectl against a real server: a table of commands and what they must print.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pintle_testkit::Server;
use serde_json::Value;

/// What a command must print.
pub(crate) enum Prints {
    /// Exactly this.
    Exactly(&'static str),
    /// Every one of these, anywhere.
    All(&'static [&'static str]),
    /// It fails, and says this.
    Fails(&'static str),
}
use Prints::{All, Exactly, Fails};

const CONFIG_MAP: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"file"},"data":{"k":"1"}}"#;
const CONFIG_MAP_2: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"file"},"data":{"k":"2"}}"#;

/// Command, input on stdin, oldest minor version of kubectl that knows it, and what it prints.
#[rustfmt::skip]
const COMMANDS: &[(&str, &str, u32, Prints)] = &[
    ("create namespace team", "", 0, Exactly("namespace/team created\n")),
    ("create namespace team", "", 0, Fails("namespaces \"team\" already exists")),
    ("get namespace team -o jsonpath={.status.phase}", "", 0, Exactly("Active")),
    ("create configmap settings --from-literal=a=1 --from-literal=b=2 -n team", "", 0, Exactly("configmap/settings created\n")),
    ("get configmap settings -n team -o name", "", 0, Exactly("configmap/settings\n")),
    ("get cm settings -n team -o jsonpath={.data.a}{.data.b}", "", 0, Exactly("12")),
    ("get configmap settings -n team -o yaml", "", 0, All(&["apiVersion: v1\n", "kind: ConfigMap\n", "  a: \"1\"\n", "  namespace: team\n"])),
    ("get configmap settings -n team -o json", "", 0, All(&["\"kind\": \"ConfigMap\"", "\"a\": \"1\""])),
    ("get configmap settings -n team", "", 0, All(&["NAME       DATA   AGE\n", "settings   2"])),
    ("get configmaps -A", "", 0, All(&["NAMESPACE", "team"])),
    ("get configmap none -n team", "", 0, Fails("configmaps \"none\" not found")),
    ("create secret generic token --from-literal=t=secret -n team", "", 0, Exactly("secret/token created\n")),
    ("get secret token -n team -o jsonpath={.data.t}", "", 0, Exactly("c2VjcmV0")),
    ("create deployment web --image=nginx --replicas=2 -n team", "", 0, Exactly("deployment.apps/web created\n")),
    ("get deployment web -n team -o jsonpath={.spec.replicas},{.spec.strategy.type}", "", 0, Exactly("2,RollingUpdate")),
    ("get deployments -n team", "", 0, All(&["NAME   READY   UP-TO-DATE   AVAILABLE   AGE\n", "web    0/2"])),
    ("scale deployment web --replicas=3 -n team", "", 0, Exactly("deployment.apps/web scaled\n")),
    ("get deployment web -n team -o jsonpath={.spec.replicas}", "", 0, Exactly("3")),
    ("create -f - -n team", CONFIG_MAP, 0, Exactly("configmap/file created\n")),
    ("replace -f - -n team", CONFIG_MAP_2, 0, Exactly("configmap/file replaced\n")),
    ("get configmap file -n team -o jsonpath={.data.k}", "", 0, Exactly("2")),
    ("apply --server-side -f - -n team --force-conflicts", CONFIG_MAP, 0, Exactly("configmap/file serverside-applied\n")),
    ("patch configmap file -n team --type=merge -p {\"data\":{\"k\":\"3\"}}", "", 0, Exactly("configmap/file patched\n")),
    ("label configmap file -n team tier=one", "", 0, All(&["configmap/file labeled\n"])),
    ("get configmaps -n team -l tier=one -o name", "", 0, Exactly("configmap/file\n")),
    ("annotate configmap file -n team note=yes", "", 0, All(&["configmap/file annotated\n"])),
    ("describe configmap file -n team", "", 0, All(&["Name:         file\n", "Namespace:    team\n"])),
    ("wait --for=jsonpath={.status.phase}=Active namespace/team --timeout=5s", "", 23, Exactly("namespace/team condition met\n")),
    ("api-versions", "", 0, All(&["apps/v1\n", "v1\n", "rbac.authorization.k8s.io/v1\n"])),
    ("api-resources", "", 0, All(&["configmaps", "deployments", "apps/v1", "ConfigMap"])),
    ("explain configmap.data", "", 0, All(&["ConfigMap", "data"])),
    ("explain deployment.spec.replicas", "", 0, All(&["replicas", "<integer>"])),
    ("auth whoami -o jsonpath={.status.userInfo.username}", "", 28, All(&["admin"])),
    ("auth can-i create configmaps -n team", "", 0, Exactly("yes\n")),
    ("version", "", 0, All(&["Server Version"])),
    ("delete configmap file -n team", "", 0, All(&["configmap \"file\" deleted"])),
    ("delete deployment web -n team --wait=false", "", 0, All(&["deployment.apps \"web\" deleted"])),
    ("get configmap file -n team", "", 0, Fails("NotFound")),
    ("delete namespace team --timeout=30s", "", 0, All(&["namespace \"team\" deleted"])),
    ("get namespace team", "", 0, Fails("namespaces \"team\" not found")),
];

pub(crate) struct Kubectl {
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    /// kubectl as the administrator of a server, with a home of its own.
    pub(crate) fn new(server: &Server) -> Kubectl {
        let home = server.data_dir().join("home");
        std::fs::create_dir_all(&home).unwrap();
        let kubeconfig = server.kubeconfig();
        assert!(Path::new(&kubeconfig).is_file(), "the server wrote no admin.kubeconfig");
        Kubectl { kubeconfig, home }
    }

    pub(crate) fn run(&self, line: &str, input: &str) -> Output {
        let mut command = Command::new(program());
        command.args(line.split(' ')).env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home);
        run(command, input)
    }
}

fn program() -> String {
    std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned())
}

fn run(mut command: Command, input: &str) -> Output {
    use std::io::Write;
    use std::process::Stdio;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| {
        panic!("kubectl is needed (scripts/test installs it; KUBECTL may name another program): {error}")
    });
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

/// The minor version of the client: old ones lack some commands.
fn minor_version(kubectl: &Kubectl) -> u32 {
    let output = kubectl.run("version --client -o json", "");
    let version: Value = serde_json::from_slice(&output.stdout).expect("kubectl version");
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    minor.trim_end_matches('+').parse().expect("a minor version")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands() {
    let server = Server::start_ephemeral().await.unwrap();
    check(&Kubectl::new(&server), COMMANDS);
}

/// Runs commands one after another; what goes wrong is told at the end.
pub(crate) fn check(kubectl: &Kubectl, commands: &[(&str, &str, u32, Prints)]) {
    let minor = minor_version(kubectl);
    let mut wrong = Vec::new();
    for (line, input, since, prints) in commands {
        if minor < *since {
            continue;
        }
        let output = kubectl.run(line, input);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let is_right = match prints {
            Exactly(text) => output.status.success() && out == *text,
            All(texts) => output.status.success() && texts.iter().all(|text| out.contains(text)),
            Fails(text) => !output.status.success() && err.contains(text),
        };
        if !is_right {
            wrong.push(format!("$ kubectl {line}\n{}\n{out}{err}", output.status));
        }
    }
    assert!(wrong.is_empty(), "{} of {} commands:\n{}", wrong.len(), commands.len(), wrong.join("\n"));
}
