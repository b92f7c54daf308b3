//! `pintle check`: the same words as the server, and codes for CI.

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

/// Code and output of a check of these documents on stdin.
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
fn says_what_the_server_would_say() {
    let bad_definition = DEFINITION.replace("\"type\":\"integer\"", "\"type\":\"number\",\"default\":1");
    let bad_definition = bad_definition.replace("boxes.example.com", "other.example.com");
    let cases: &[(&[&str], i32, &[&str])] = &[
        // Resources may stand before their definitions.
        (
            &[&box_of("{\"size\":3}"), DEFINITION],
            0,
            &["Box b: ok\n", "boxes.example.com: ok\n", "2 checked, 0 refused, 0 skipped\n"],
        ),
        (
            &[DEFINITION, &box_of("{\"size\":4}")],
            1,
            &[
                "Box b: invalid\n  spec.size: Invalid value: 4: spec.size in body should be less than or equal to 3\n",
            ],
        ),
        (&[DEFINITION, &box_of("{\"sise\":1}")], 1, &["strict decoding error: unknown field \"spec.sise\""]),
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
    let told = "Box b: invalid\n  spec: Invalid value: failed rule: self.size > 0\n";
    [cost, told].iter().for_each(|text| assert!(output.contains(text), "{text}\n{output}"));
    let (code, output) = check(&[DEFINITION, &box_of("{\"size\":4}")], &["--json"]);
    let found: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(code, Some(1));
    assert_eq!((&found[0]["outcome"], &found[1]["outcome"]), (&"accepted".into(), &"refused".into()));
    assert_eq!(found[1]["status"]["details"]["causes"][0]["field"], "spec.size");
    assert_eq!(check(&["a: ["], &[]).0, Some(2));
}
