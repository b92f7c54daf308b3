//! The examples of Kubernetes' page on CustomResourceDefinitions with kubectl: CronTab with validation, defaulting,
//! columns, scale and categories, and Shirt with selectable fields.

use crate::kubectl::{Prints, check, start};
use Prints::{All, Exactly, Fails};

const CRON_TAB: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: crontabs.stable.example.com
spec:
  group: stable.example.com
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              cronSpec: {type: string}
              image: {type: string}
              replicas: {type: integer}
  scope: Namespaced
  names:
    plural: crontabs
    singular: crontab
    kind: CronTab
    shortNames: [ct]
"#;

const MY_CRON_TAB: &str = r#"
apiVersion: stable.example.com/v1
kind: CronTab
metadata:
  name: my-new-cron-object
spec:
  cronSpec: "* * * * */5"
  image: my-awesome-cron-image
"#;

const WITH_UNKNOWN_FIELD: &str = r#"
apiVersion: stable.example.com/v1
kind: CronTab
metadata:
  name: my-new-cron-object
spec:
  cronSpec: "* * * * */5"
  image: my-awesome-cron-image
  someRandomField: 42
"#;

/// The schema with rules, defaults, columns, subresources and a category.
const FULL_CRON_TAB: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: crontabs.stable.example.com
spec:
  group: stable.example.com
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              cronSpec:
                type: string
                pattern: '^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$'
                default: "5 0 * * *"
              image:
                type: string
                nullable: true
              replicas:
                type: integer
                minimum: 1
                maximum: 10
                default: 1
          status:
            type: object
            properties:
              replicas: {type: integer}
              labelSelector: {type: string}
    additionalPrinterColumns:
    - name: Spec
      type: string
      description: The cron spec defining the interval a CronJob is run
      jsonPath: .spec.cronSpec
    - name: Replicas
      type: integer
      description: The number of jobs launched by the CronJob
      jsonPath: .spec.replicas
    - name: Age
      type: date
      jsonPath: .metadata.creationTimestamp
    subresources:
      status: {}
      scale:
        specReplicasPath: .spec.replicas
        statusReplicasPath: .status.replicas
        labelSelectorPath: .status.labelSelector
  scope: Namespaced
  names:
    plural: crontabs
    singular: crontab
    kind: CronTab
    shortNames: [ct]
    categories: [all]
"#;

const BAD_CRON_TAB: &str = r#"
apiVersion: stable.example.com/v1
kind: CronTab
metadata:
  name: my-bad-cron-object
spec:
  cronSpec: "* * * *"
  image: my-awesome-cron-image
  replicas: 15
"#;

const BARE_CRON_TAB: &str = r#"
apiVersion: stable.example.com/v1
kind: CronTab
metadata:
  name: bare
spec:
  image: null
"#;

const SHIRT: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: shirts.stable.example.com
spec:
  group: stable.example.com
  scope: Namespaced
  names:
    plural: shirts
    singular: shirt
    kind: Shirt
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              color: {type: string}
              size: {type: string}
    selectableFields:
    - jsonPath: .spec.color
    - jsonPath: .spec.size
    additionalPrinterColumns:
    - jsonPath: .spec.color
      name: Color
      type: string
    - jsonPath: .spec.size
      name: Size
      type: string
"#;

const SHIRTS: &str = r#"
apiVersion: stable.example.com/v1
kind: Shirt
metadata: {name: example1}
spec: {color: blue, size: S}
---
apiVersion: stable.example.com/v1
kind: Shirt
metadata: {name: example2}
spec: {color: blue, size: M}
---
apiVersion: stable.example.com/v1
kind: Shirt
metadata: {name: example3}
spec: {color: green, size: M}
"#;

const CREATED: &str = "customresourcedefinition.apiextensions.k8s.io/crontabs.stable.example.com created\n";
const DELETED: &str = "customresourcedefinition.apiextensions.k8s.io \"crontabs.stable.example.com\" deleted";

/// Command, input on stdin, oldest minor version of kubectl that supports it, and the expected output.
#[rustfmt::skip]
const COMMANDS: &[(&str, &str, u32, Prints)] = &[
    ("apply -f -", CRON_TAB, 0, Exactly(CREATED)),
    // The resource is served at once, without waiting for the condition.
    ("get crontabs", "", 0, Exactly("")),
    ("wait --for=condition=established crd/crontabs.stable.example.com --timeout=5s", "", 0, All(&["condition met"])),
    ("apply -f -", MY_CRON_TAB, 0, Exactly("crontab.stable.example.com/my-new-cron-object created\n")),
    ("get crontab", "", 0, All(&["NAME                 AGE\n", "my-new-cron-object   "])),
    ("get ct -o yaml", "", 0, All(&["cronSpec: '* * * * */5'\n", "image: my-awesome-cron-image\n", "generation: 1\n"])),
    ("get ct my-new-cron-object -o jsonpath={.spec.cronSpec}", "", 0, Exactly("* * * * */5")),
    ("apply --validate=false -f -", WITH_UNKNOWN_FIELD, 0, All(&["crontab.stable.example.com/my-new-cron-object "])),
    ("get ct my-new-cron-object -o jsonpath={.spec}", "", 0, Exactly(r#"{"cronSpec":"* * * * */5","image":"my-awesome-cron-image"}"#)),
    ("delete -f -", CRON_TAB, 0, All(&[DELETED])),
    ("get crontabs", "", 0, Fails("the server ")),
    // After it is recreated it is empty.
    ("apply -f -", CRON_TAB, 0, Exactly(CREATED)),
    ("get crontabs -o name", "", 0, Exactly("")),
];

#[rustfmt::skip]
const MORE_COMMANDS: &[(&str, &str, u32, Prints)] = &[
    ("apply -f -", FULL_CRON_TAB, 0, Exactly(CREATED)),
    ("get crontabs -o name", "", 0, Exactly("")),
    ("apply -f -", BAD_CRON_TAB, 0, Fails("spec.cronSpec: Invalid value: \"* * * *\": spec.cronSpec in body should match '^(\\d+|\\*)(/\\d+)?(\\s+(\\d+|\\*)(/\\d+)?){4}$'")),
    ("apply -f -", BAD_CRON_TAB, 0, Fails("spec.replicas: Invalid value: 15: spec.replicas in body should be less than or equal to 10")),
    ("create -f -", BARE_CRON_TAB, 0, Exactly("crontab.stable.example.com/bare created\n")),
    ("get ct bare -o jsonpath={.spec}", "", 0, Exactly(r#"{"cronSpec":"5 0 * * *","image":null,"replicas":1}"#)),
    ("apply -f -", MY_CRON_TAB, 0, Exactly("crontab.stable.example.com/my-new-cron-object created\n")),
    ("get crontab my-new-cron-object", "", 0, All(&["NAME                 SPEC          REPLICAS   AGE\n", "my-new-cron-object   * * * * */5   1          "])),
    ("scale --replicas=5 crontabs/my-new-cron-object", "", 0, Exactly("crontab.stable.example.com/my-new-cron-object scaled\n")),
    ("get crontabs my-new-cron-object -o jsonpath={.spec.replicas}", "", 0, Exactly("5")),
    ("scale --replicas=50 crontabs/my-new-cron-object", "", 0, Fails("spec.replicas: Invalid value: 50: spec.replicas in body should be less than or equal to 10")),
    ("get all", "", 0, All(&["crontab.stable.example.com/my-new-cron-object   * * * * */5   5"])),
    ("explain crontab.spec", "", 0, All(&["cronSpec\t<string>", "replicas\t<integer>"])),
    ("delete crontabs --all", "", 0, All(&["\"bare\" deleted", "\"my-new-cron-object\" deleted"])),
    ("apply -f -", SHIRT, 0, All(&["shirts.stable.example.com created\n"])),
    ("apply -f -", SHIRTS, 0, All(&["shirt.stable.example.com/example3 created\n"])),
    ("get shirts.stable.example.com", "", 0, Exactly("NAME       COLOR   SIZE\nexample1   blue    S\nexample2   blue    M\nexample3   green   M\n")),
    ("get shirts.stable.example.com --field-selector spec.color=blue", "", 0, Exactly("NAME       COLOR   SIZE\nexample1   blue    S\nexample2   blue    M\n")),
    ("get shirts.stable.example.com --field-selector spec.color=green,spec.size=M", "", 0, Exactly("NAME       COLOR   SIZE\nexample3   green   M\n")),
    ("get shirts --field-selector spec.price=1", "", 0, Fails("field label not supported: spec.price")),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn examples_of_the_documents() {
    let (_server, kubectl) = start(&[]).await;
    check(&kubectl, COMMANDS);
    // kubectl caches discovery for hours: the cache of the first definition must not hide the second.
    let (_server, kubectl) = start(&[]).await;
    check(&kubectl, MORE_COMMANDS);
}
