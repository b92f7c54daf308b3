//! `pintle check`: the server's messages, and exit codes for CI.

use pintle_testkit::server::binary;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

const DEFINITION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
  "metadata":{"name":"boxes.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
  "names":{"plural":"boxes","kind":"Box"},"versions":[{"name":"v1","served":true,"storage":true,"schema":
  {"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer","maximum":3}}}}}}}]}}"#;

fn box_of(spec: &str) -> String {
    format!(r#"{{"apiVersion":"example.com/v1","kind":"Box","metadata":{{"name":"b"}},"spec":{spec}}}"#)
}

/// Exit code and output of checking these documents on stdin.
fn check(documents: &[&str], flags: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(binary().unwrap());
    command
        .arg("check")
        .arg("-")
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(documents.join("\n---\n").as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn check_reports_the_errors_of_the_server() {
    let bad_definition = DEFINITION.replace("\"type\":\"integer\"", "\"type\":\"number\",\"default\":1");
    let bad_definition = bad_definition.replace("boxes.example.com", "other.example.com");
    let cases: &[(&[&str], i32, &[&str])] = &[
        // Resources may precede their definitions.
        (
            &[&box_of("{\"size\":3}"), DEFINITION],
            0,
            &["Box b: ok\n", "boxes.example.com: ok\n", "2 checked, 0 refused, 0 skipped\n"],
        ),
        (
            &[DEFINITION, &box_of("{\"size\":4}")],
            1,
            &[
                "Box b: invalid\nstdin:6:77: error: spec.size: Invalid value: 4: spec.size in body should be less than or equal to 3\n",
            ],
        ),
        // Unknown fields do not hide the other errors.
        (
            &[DEFINITION, &box_of("{\"sise\":1,\"size\":4}")],
            1,
            &[
                "unknown field \"spec.sise\"\n",
                "error: spec.size: Invalid value: 4: spec.size in body should be ",
            ],
        ),
        (&[DEFINITION, &box_of("{\"sise\":1}")], 1, &["strict decoding error: unknown field \"spec.sise\""]),
        // A value of the wrong type, in the second document of the file.
        (
            &[
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}",
                "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: a\n    image: 1",
            ],
            1,
            &[
                "stdin:12:5: error: spec.containers[0].image: Pod in version \"v1\" cannot be handled as a Pod: json: ",
            ],
        ),
        (&[&box_of("{}")], 0, &["Box b: skipped: no definition of it was given\n"]),
        (
            &[&bad_definition],
            1,
            &[
                "metadata.name: Invalid value: \"other.example.com\": must be spec.names.plural+\".\"+spec.group",
            ],
        ),
    ];
    for (documents, code, texts) in cases {
        let (got, output) = check(documents, &[]);
        assert_eq!(got, Some(*code), "{output}");
        texts.iter().for_each(|text| assert!(output.contains(text), "{text}\n{output}"));
    }
    let rule = r#""x-kubernetes-validations":[{"rule":"self.size > 0"}],"properties":{"size""#;
    let with_rule = DEFINITION.replace(r#""properties":{"size""#, rule);
    let (code, output) = check(&[&with_rule, &box_of("{\"size\":0}")], &[]);
    assert_eq!(code, Some(1), "{output}");
    let cost = "v1: properties[spec].x-kubernetes-validations[0].rule: cost 3 of 10000000 (0.0 %)\n";
    let violation = "error: spec: Invalid value: failed rule: self.size > 0\n";
    [cost, violation].iter().for_each(|text| assert!(output.contains(text), "{text}\n{output}"));
    let (code, output) = check(&[DEFINITION, &box_of("{\"size\":4}")], &["--json"]);
    let found: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(code, Some(1));
    assert_eq!((&found[0]["outcome"], &found[1]["outcome"]), (&"accepted".into(), &"refused".into()));
    assert_eq!(found[1]["status"]["details"]["causes"][0]["field"], "spec.size");
    assert_eq!(check(&["a: ["], &[]).0, Some(2));
}

/// Typical output of `helm template` and `kustomize build`: comments, empty documents, built-in kinds, notes at the end.
const RENDERED: &str = "\
---
# Source: chart/templates/empty.yaml
---
# Source: chart/templates/service.yaml
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  type: NodePort
  ports:
  - port: 80
    nodePort: 30080
---
# Source: chart/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: -1
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: other}
    spec:
      containers:
      - name: web
        image: nginx
        colour: red
      serviceAccountName: web
      priorityClassName: high
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: Not-A-Name
NOTES:
1. Get the URL: {by running
";

#[test]
fn built_in_kinds_are_checked_where_they_stand() {
    let (code, output) = check(&[RENDERED], &[]);
    assert_eq!(code, Some(1), "{output}");
    for line in [
        "stdin:5:1: Service web: ok\n",
        "stdin:16:1: Deployment web: invalid\n",
        "stdin:31:9: error: Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \"spec.template.spec.containers[0].colour\"\n",
        "stdin:38:3: error: metadata.name: Invalid value: \"Not-A-Name\"",
        "3 checked, 2 refused, 0 skipped\n",
    ] {
        assert!(output.contains(line), "{line}\n{output}");
    }
    let (_, output) = check(&[&RENDERED.replace("        colour: red\n", "")], &[]);
    for line in [
        "stdin:21:3: error: spec.replicas: Invalid value: -1: must be greater than or equal to 0\n",
        "stdin:26:7: error: spec.template.metadata.labels: Invalid value: {\"app\":\"other\"}",
    ] {
        assert!(output.contains(line), "{line}\n{output}");
    }
}

#[test]
fn folders_are_read_and_broken_files_hide_nothing() {
    let folder = std::env::temp_dir().join(format!("pintle-check-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("Chart.yaml", "apiVersion: v2\nname: chart\n");
    write("NOTES.txt", "kind: [");
    write("a.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n");
    write("b.yaml", "apiVersion: v1\nkind: {{ .Values.kind }}\n  x: 1\n");
    write("kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n");
    let output = Command::new(binary().unwrap()).arg("check").arg(&folder).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    for part in [
        "a.yaml:1:1: Secret a: ok\n",
        "(is it a template? render it first: helm template, kustomize build)\n",
        "kustomization.yaml:1:1: Kustomization: skipped: it is input of kustomize\n",
        "Chart.yaml:1:1: document: skipped: it has no kind\n",
        "2 checked, 1 refused, 2 skipped\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn findings_are_written_for_ci() {
    let (code, output) = check(&[RENDERED], &["--output=sarif"]);
    assert_eq!(code, Some(1));
    let sarif: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let regions: Vec<(&str, u64)> = results
        .iter()
        .map(|result| {
            let region = &result["locations"][0]["physicalLocation"]["region"];
            (result["ruleId"].as_str().unwrap(), region["startLine"].as_u64().unwrap())
        })
        .collect();
    let invalid = "FieldValueInvalid";
    assert_eq!(regions, [("BadRequest", 31), (invalid, 21), (invalid, 26), (invalid, 38)]);
    let (code, output) = check(&[&box_of("{}"), RENDERED], &["-o", "junit"]);
    assert_eq!(code, Some(1));
    for part in [
        "<testsuites name=\"pintle check\" tests=\"4\" failures=\"2\" skipped=\"1\">",
        "<testcase classname=\"stdin\" name=\"Service web\" file=\"stdin\" line=\"7\"/>",
        "<failure type=\"BadRequest\" message=\"",
        "<skipped message=\"no definition of it was given\"/>",
    ] {
        assert!(output.contains(part), "{part}\n{output}");
    }
    let (_, output) = check(&[RENDERED], &["--output=json"]);
    let found: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(
        (&found[2]["problems"][0]["line"], &found[2]["problems"][0]["column"]),
        (&38.into(), &3.into())
    );
}
