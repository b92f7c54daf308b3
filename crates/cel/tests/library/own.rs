//! Cases that upstream's tests lack: quirks that we follow, our own limits, the authorizer, and the types of mutations.

use std::sync::Arc;

use pintle_cel::env::Env;
use pintle_cel::library::kubernetes::authorizer::{
    self, Authorizer, Decision, Question, Resource, Subject, Target,
};
use pintle_cel::library::kubernetes::jsonpatch;
use pintle_cel::shape::{ListKind, Shape, ShapeKind};
use pintle_cel::types::Type;
use pintle_cel::value::Value;

use super::{check_fails, check_holds, check_refused, kubernetes};

#[test]
fn texts() {
    check_holds(
        &kubernetes(),
        &[
            "'héllo'.charAt(1) == 'é' && 'héllo'.charAt(5) == ''",
            "'abcabc'.indexOf('c', 3) == 5 && 'abc'.indexOf('c', 9) == -1",
            "'abcabc'.lastIndexOf('c', 4) == 2 && ''.lastIndexOf('x') == -1",
            // If the searched text is empty, the offset is returned unchecked.
            "'abc'.indexOf('', 99) == 99 && 'abc'.lastIndexOf('', -7) == -7",
            "'abc'.replace('', '-') == '-a-b-c-' && 'abc'.replace('', '-', 2) == '-a-bc'",
            "'abc'.replace('b', 'x', 0) == 'abc' && 'bbb'.replace('b', 'x', -1) == 'xxx'",
            "'abc'.split('') == ['a', 'b', 'c'] && ''.split('') == [] && ''.split(',') == ['']",
            "'abc'.split('', 2) == ['a', 'bc'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
            r#"strings.quote('a\n"b"\\') == '"a\\n\\"b\\"\\\\"'"#,
            "['x', 'y'].join('-') == 'x-y' && [].join() == ''",
            "'%s'.format([[1.5, duration('90s'), b'x', null, {'k': 1u}]]) == '[1.500000, duration(\"90s\"), b\"x\", null, {\"k\":1}]'",
            "'%f %.1f %e'.format([1234567.891, -1234.56, 0.00012]) == '1,234,567.891000 -1,234.6 1.200000×10⁻⁰⁴'",
            "'%f %f'.format([double('Infinity'), '-Infinity']) == '∞ -∞'",
        ],
    );
    check_fails(
        &kubernetes(),
        &[
            ("'abc'.charAt(-1)", "index out of range: -1"),
            ("dyn([1]).join()", "no such overload: join(list)"),
            ("dyn('%s').format([url('http://a/')])", "string clause can only be used on"),
            (
                "dyn('%s').format([[url('http://a/')]])",
                "error during formatting: no formatting function for kubernetes.URL",
            ),
            (
                "dyn('%.f').format([1.0])",
                "error while converting precision to integer: strconv.Atoi: parsing \"\": invalid syntax",
            ),
            ("dyn('%').format([1])", "unexpected end of string"),
            ("dyn('%s %s').format([1])", "index 1 out of range"),
        ],
    );
}

#[test]
fn texts_lists_and_sums_are_bounded() {
    let large = "lists.range(1000).map(i, 'abcdefghij').join()";
    let larger = format!("{large}.replace('', {large}).replace('', {large})");
    check_fails(
        &kubernetes(),
        &[
            (&larger, "text of more than 67108864 bytes"),
            ("lists.range(1000000000000)", "range of more than 16777216 elements"),
            ("quantity('1e2000000000').add(1)", "quantity has too many digits"),
            ("dyn('%.2000000f').format([1.0])", "precision of more than 1000000"),
        ],
    );
}

#[test]
fn quantities_of_any_size() {
    check_holds(
        &kubernetes(),
        &[
            "quantity('1').isInteger() && !quantity('1.0').isInteger() && !quantity('1000m').isInteger()",
            "quantity('1k').asInteger() == 1000 && quantity('-2Ki').asInteger() == -2048 && quantity('+3').asInteger() == 3",
            "!quantity('9223372036854775808').isInteger() && quantity('9223372036854775807').add(1).isGreaterThan(quantity('9223372036854775807'))",
            "quantity('9223372036854775807').add(1) == quantity('9223372036854775808')",
            "quantity('99999999999999999999999999999999').sub(quantity('99999999999999999999999999999998')) == quantity('1')",
            "quantity('0.1').add(quantity('0.2')) == quantity('300m')",
            // Amounts smaller than a billionth are rounded up.
            "quantity('0.0000000001') == quantity('1n') && quantity('-0.0000000001') == quantity('-1n')",
            // Amounts with a binary suffix are limited to 63 bits.
            "quantity('16Ei') == quantity('9223372036854775807') && quantity('1.5Gi').compareTo(quantity('1610612736')) == 0",
            "quantity('0.5Ki') == quantity('512') && quantity('1e3') == quantity('1E3') && quantity('1e3') == quantity('1k')",
            "sign(quantity('-1')) == -1 && sign(quantity('0')) == 0 && sign(quantity('1m')) == 1",
            "quantity('1500m').asApproximateFloat() == 1.5 && quantity('1e400').asApproximateFloat() > 1.0",
            "isQuantity('Ki') && isQuantity('.') && !isQuantity('') && !isQuantity('1.1.1') && !isQuantity(' 1')",
        ],
    );
    check_fails(
        &kubernetes(),
        &[
            // In Go, sums are pointers, which are only supported on the left of `==`.
            ("quantity('3') == quantity('1').add(2)", "no such overload"),
            ("quantity('1').add(2) == quantity('1').add(2)", "no such overload"),
            ("quantity('1x')", "quantities must match the regular expression"),
            ("quantity('1ee5')", "unable to parse quantity's suffix"),
            ("quantity('0.5').asInteger()", "cannot convert value to integer"),
        ],
    );
}

#[test]
fn values_of_a_library_and_others() {
    check_holds(
        &kubernetes(),
        &[
            "dyn('a') != ip('1.2.3.4')",
            "[ip('1.2.3.4')].exists(a, a == ip('1.2.3.4'))",
            "url('http://a/') != url('http://b/')",
        ],
    );
    check_fails(
        &kubernetes(),
        &[
            ("dyn(ip('1.2.3.4')) == 'a'", "no such overload"),
            ("dyn(url('http://a/')) == 1", "no such overload"),
            (
                "url('a b')",
                "URL parse error during conversion from string: parse \"a b\": invalid URI for request",
            ),
            ("[1, 9223372036854775807].sum()", "integer overflow"),
            ("[3].filter(x, x > 5).max() > 0", "max called on empty list"),
            ("'a'.find('(')", "error parsing regexp: missing closing ): `(`"),
            ("'a'.find('a' + '(')", "Illegal regex: error parsing regexp: missing closing ): `a(`"),
        ],
    );
    check_refused(
        &kubernetes(),
        &[("ip('1.2.3.4') == cidr('1.2.3.0/24')", "found no matching overload for '_==_'")],
    );
}

#[test]
fn a_list_of_a_schema_is_never_zero() {
    let element = Arc::new(Shape::of(ShapeKind::Int));
    let shape = Arc::new(Shape::of(ShapeKind::List { element, list: ListKind::Ordered }));
    let env = kubernetes().with_shape("self", shape.clone());
    let tree = pintle_value::Value::Array(Vec::new());
    for (text, expected) in [
        ("optional.ofNonZeroValue(self).hasValue()", "true"),
        ("optional.ofNonZeroValue([]).hasValue()", "false"),
        ("optional.ofNonZeroValue(optional.none()).hasValue()", "true"),
    ] {
        let program =
            env.compile(text).unwrap_or_else(|issues| panic!("{issues}")).plan().expect("a program");
        let value = Value::read(&tree, &shape).expect("a list");
        let found = program.eval(&[("self", value)], None).result.expect("a value");
        assert_eq!(found.to_string(), expected, "{text}");
    }
}

/// Allows checks of pods, and records its questions.
#[derive(Debug)]
struct Pods;

impl Authorizer for Pods {
    fn authorize(&self, question: &Question<'_>) -> Decision {
        let who = match question.subject {
            Subject::Requester => "requester".to_owned(),
            Subject::ServiceAccount { namespace, name } => format!("{namespace}/{name}"),
        };
        match &question.target {
            Target::Path(path) => {
                Decision { error: Some(format!("{who} {} {path}", question.verb)), ..Decision::default() }
            }
            Target::Resource(it) => Decision {
                allowed: it.resource == "pods",
                reason: format!(
                    "{who} {} {}|{}|{}|{}|{}|{}|{}",
                    question.verb,
                    it.group,
                    it.resource,
                    it.subresource,
                    it.namespace,
                    it.name,
                    it.field_selector,
                    it.label_selector
                ),
                error: None,
            },
        }
    }
}

#[test]
fn questions_reach_the_authorizer() {
    let env = kubernetes()
        .with_variable("authorizer", Type::Object(authorizer::AUTHORIZER.into()))
        .with_variable("authorizer.requestResource", Type::Object(authorizer::RESOURCE_CHECK.into()));
    let resource = Resource {
        group: "apps".into(),
        resource: "deployments".into(),
        name: "web".into(),
        ..Resource::default()
    };
    let variables = [
        ("authorizer", authorizer::authorizer(Arc::new(Pods))),
        ("authorizer.requestResource", authorizer::request_resource(Arc::new(Pods), resource)),
    ];
    for (text, expected) in [
        ("authorizer.group('').resource('pods').namespace('ns').check('get').allowed()", "true"),
        (
            "authorizer.group('g').resource('pods').subresource('log').namespace('ns').name('a').fieldSelector('f').labelSelector('l').check('get').reason()",
            "requester get g|pods|log|ns|a|f|l",
        ),
        ("authorizer.requestResource.check('update').reason()", "requester update apps|deployments|||web||"),
        ("authorizer.requestResource.check('update').allowed()", "false"),
        ("authorizer.serviceAccount('ns', 'sa').path('/healthz').check('get').error()", "ns/sa get /healthz"),
        ("authorizer.path('/healthz').check('get').errored()", "true"),
        ("authorizer.path(' ')", "path must not be empty"),
        ("authorizer.group('').resource('')", "resource must not be empty"),
        ("authorizer.serviceAccount('ns', 'A')", "Invalid service account name"),
        ("authorizer.serviceAccount('n.s', 'a')", "Invalid service account namespace"),
        ("authorizer.group('') == authorizer.group('')", "no such overload"),
    ] {
        let program =
            env.compile(text).unwrap_or_else(|issues| panic!("{issues}")).plan().expect("a program");
        let found = match program.eval(&variables, None).result {
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{text}");
    }
}

fn value_of<'p>(program: &'p pintle_cel::program::Program) -> Value<'p> {
    program.eval(&[], None).result.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn mutations_are_written_in_types_of_their_own() {
    let env: Env = jsonpatch::with_mutations(kubernetes());
    check_holds(
        &env,
        &[
            "JSONPatch{op: 'add', path: '/a', value: 1}.op == 'add'",
            "Object{spec: Object.spec{replicas: 3}}.spec.replicas == 3",
            "jsonpatch.escapeKey('a/b~c') == 'a~1b~0c'",
            "[JSONPatch{op: 'remove', path: '/a'}].size() == 1",
        ],
    );
    check_refused(
        &env,
        &[
            ("JSONPatch{op: 1}", "expected type of field 'op' is 'string' but provided type is 'int'"),
            ("Objects{}", "undeclared reference to 'Objects'"),
        ],
    );
    let program =
        |text: &str| env.compile(text).unwrap_or_else(|issues| panic!("{issues}")).plan().expect("a program");
    for (text, expected) in [
        ("Object{spec: Object.spec{template: Object.spec.template{}}, list: [Object.list{}]}", vec![]),
        (
            "Object{spec: Object.status{}}",
            vec!["unexpected type name \"Object.status\", expected \"Object.spec\", which matches field name path from root Object type".to_owned()],
        ),
    ] {
        assert_eq!(jsonpatch::misnamed_types(&value_of(&program(text))), expected, "{text}");
    }
}

/// Random texts of fragments that are difficult for parsers.
struct Senseless(u64);

impl Senseless {
    fn number(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }

    fn text(&mut self) -> String {
        const PARTS: [&str; 40] = [
            "0",
            "1",
            "9",
            "18446744073709551616",
            "a",
            "f",
            "Z",
            "é",
            "😀",
            ".",
            ":",
            "::",
            "/",
            "//",
            "%",
            "%25",
            "%zz",
            "%s",
            "%.3f",
            "%e",
            "[",
            "]",
            "(",
            ")",
            "*",
            "-",
            "+",
            "e",
            "E",
            "i",
            "Ki",
            "m",
            "@",
            "?",
            "#",
            "&",
            "=",
            " ",
            "\0",
            "~",
        ];
        (0..self.number(9)).map(|_| PARTS[self.number(PARTS.len())]).collect()
    }
}

#[test]
fn senseless_arguments_are_answered() {
    let env = kubernetes()
        .with_variable("s", Type::String)
        .with_variable("t", Type::String)
        .with_variable("n", Type::Int);
    let programs: Vec<_> = [
        "isURL(s) && url(s).getHost() + url(s).getHostname() + url(s).getPort() + url(s).getEscapedPath() != string(url(s).getQuery().size())",
        "isIP(s) ? string(ip(s)) : string(cidr(s).masked())",
        "cidr(s).containsCIDR(t) || cidr(s).containsIP(t)",
        "quantity(s).add(quantity(t)).sub(n).compareTo(quantity(t)) + quantity(s).asInteger()",
        "quantity(s).asApproximateFloat() > quantity(t).asApproximateFloat()",
        "semver(s, true).compareTo(semver(t, true)) > 0 || isSemver(s)",
        "format.uri().validate(s).orValue([]) + format.dns1123SubdomainPrefix().validate(s).orValue([]) + format.qualifiedName().validate(s).orValue([])",
        "format.date().validate(s).orValue([]) + format.datetime().validate(s).orValue([]) + format.uuid().validate(s).orValue([]) + format.byte().validate(s).orValue([])",
        "s.format([t, n, 1.5])",
        "s.find(t) + string(s.findAll(t, n).size())",
        "s.charAt(n) + s.substring(n) + s.replace(t, 'x', n)",
        "s.indexOf(t, n) + s.lastIndexOf(t, n) + s.indexOf(t) + s.lastIndexOf(t)",
        "s.split(t, n).join(t) + s.trim() + s.lowerAscii() + strings.quote(s)",
    ]
    .iter()
    .map(|text| {
        env.compile(text).unwrap_or_else(|issues| panic!("{issues}")).plan().expect("a program")
    })
    .collect();
    let mut senseless = Senseless(0x9e37_79b9_7f4a_7c15);
    for _ in 0..1_000 {
        let (s, t, n) = (senseless.text(), senseless.text(), senseless.number(8) as i64 - 2);
        for program in &programs {
            let variables =
                [("s", Value::from(s.as_str())), ("t", Value::from(t.as_str())), ("n", Value::Int(n))];
            // Any result but a panic is correct.
            let _ = program.eval(&variables, Some(10_000_000)).result;
        }
    }
}
