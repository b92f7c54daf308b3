//! Costs of Kubernetes' libraries: the numbers of its own tests, estimated and actual.

use std::sync::Arc;

use pintle_cel::cost::{CostModel, Node, SizeEstimate};
use pintle_cel::env::Env;
use pintle_cel::library::kubernetes::authorizer::{self, Authorizer, Decision, Question};
use pintle_cel::library::kubernetes::cost::Kubernetes;
use pintle_cel::library::{self, kubernetes};
use pintle_cel::types::Type;

/// Strings and bytes have up to 12 units.
struct Short;

impl CostModel for Short {
    fn estimate_size(&self, node: &Node<'_>) -> Option<SizeEstimate> {
        matches!(node.ty, Type::String | Type::Bytes).then_some(SizeEstimate { min: 0, max: 12 })
    }
}

#[derive(Debug)]
struct AlwaysAllows;

impl Authorizer for AlwaysAllows {
    fn authorize(&self, _: &Question<'_>) -> Decision {
        Decision { allowed: true, ..Decision::default() }
    }
}

/// Expression, least and most estimated cost, actual cost.
#[rustfmt::skip]
const COSTS: &[(&str, u64, u64, u64)] = &[
    ("'ABCDEFGHIJ abcdefghij'.lowerAscii()", 3, 3, 3),
    ("'ABCDEFGHIJ abcdefghij'.lowerAscii() == 'abcdefghij ABCDEFGHIJ'.lowerAscii()", 7, 9, 9),
    ("'ABCDEFGHIJ abcdefghij'.upperAscii()", 3, 3, 3),
    ("'ABCDEFGHIJ abcdefghij'.upperAscii() == 'abcdefghij ABCDEFGHIJ'.upperAscii()", 7, 9, 9),
    ("strings.quote('ABCDEFGHIJ abcdefghij')", 3, 3, 3),
    ("strings.quote('ABCDEFGHIJ abcdefghij') == strings.quote('ABCDEFGHIJ abcdefghij')", 7, 11, 9),
    ("'abc 123 def 123'.replace('123', '456')", 3, 3, 3),
    ("'abc 123 def 123'.replace('', 'x')", 3, 3, 3),
    ("'abc 123 def 123'.replace('123', '')", 3, 3, 3),
    ("'abc 123 def 123'.replace('123', '456', 1)", 3, 3, 3),
    ("'abc 123 def 123'.split(' ')", 3, 3, 3),
    ("'abc 123 def 123'.split(' ', 1)", 3, 3, 3),
    ("'abc 123 def 123'.substring(5)", 2, 2, 2),
    ("'abc 123 def 123'.substring(5, 8)", 2, 2, 2),
    ("'  abc 123 def 123  '.trim()", 2, 2, 2),
    ("['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join(' ')", 11, 23, 15),
    ("['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join()", 10, 22, 13),
    ("'abc 123 def 123'.find('123')", 2, 2, 2),
    ("'abc 123 def 123'.findAll('123')", 2, 2, 2),
    ("'abc 123 def 123'.findAll('123', 1)", 2, 2, 2),
    ("jsonpatch.escapeKey('abc/def~ abc/def~')", 2, 2, 2),
    ("authorizer.path('/healthz')", 2, 2, 2),
    ("authorizer.group('apps').resource('deployments').subresource('status').namespace('test').name('backend')", 6, 6, 6),
    ("authorizer.group('').resource('pods').fieldSelector('spec.nodeName=example-node-name.fully.qualified.domain.name.example.com')", 1821, 1821, 1821),
    ("authorizer.group('').resource('pods').labelSelector('spec.nodeName=example-node-name.fully.qualified.domain.name.example.com')", 1821, 1821, 1821),
    ("authorizer.path('/healthz').check('get').allowed()", 350003, 350003, 350003),
    ("authorizer.group('apps').resource('deployments').subresource('status').namespace('test').name('backend').check('create').allowed()", 350007, 350007, 350007),
    ("authorizer.group('apps').resource('deployments').subresource('status').namespace('test').name('backend').check('create').allowed()", 350007, 350007, 350007),
    ("authorizer.group('apps').resource('deployments').subresource('status').namespace('test').name('backend').check('create').errored()", 350007, 350007, 350007),
    ("authorizer.group('apps').resource('deployments').subresource('status').namespace('test').name('backend').check('create').error()", 350007, 350007, 350007),
    (r#"quantity("12Mi")"#, 1, 1, 1),
    (r#"isQuantity("20")"#, 1, 1, 1),
    (r#"isQuantity("20M")"#, 1, 1, 1),
    (r#"quantity("200M") == quantity("200M")"#, 3, 3, 3),
    (r#"quantity("200M") == quantity("0.2G") && quantity("0.2G") == quantity("200M")"#, 3, 6, 6),
    (r#"quantity("2M") == quantity("0.002G") && quantity("2000k") == quantity("2M") && quantity("0.002G") == quantity("2000k")"#, 3, 9, 9),
    (r#"quantity("50M").isLessThan(quantity("50Mi"))"#, 3, 3, 3),
    (r#"quantity("50Mi").isGreaterThan(quantity("50M"))"#, 3, 3, 3),
    (r#"quantity("200M").compareTo(quantity("0.2G")) > 0"#, 4, 4, 4),
    (r#"quantity("50k").add(quantity("20")) == quantity("50.02k")"#, 5, 5, 5),
    (r#"quantity("50k").sub(quantity("20")) == quantity("49.98k")"#, 5, 5, 5),
    (r#"quantity("50k").sub(20) == quantity("49980")"#, 4, 4, 4),
    (r#"quantity("50k").add(20).sub(quantity("100k")).asInteger() > 0"#, 6, 6, 6),
    (r#"quantity("50k").add(20).sub(quantity("100k")).sub(-50000).asInteger() > 0"#, 7, 7, 7),
    (r#"quantity("50k").asInteger() > 0"#, 3, 3, 3),
    (r#"quantity("50").isInteger()"#, 2, 2, 2),
    (r#"quantity("50.703k").asApproximateFloat() > 0.0"#, 3, 3, 3),
    (r#"format.named("dns1123subdomain")"#, 1, 1, 1),
    (r#"format.named("dns1123Subdomain").value().validate("my-name")"#, 34, 34, 17),
    (r#"format.named("dns1123Label").value().validate("my-name")"#, 34, 34, 10),
    (r#"format.named("dns1123Label").value().validate("my-name")"#, 34, 34, 10),
    (r#"format.named("dns1123Label").value() == format.named("dns1123Label").value()"#, 5, 11, 5),
    (r#"semver("1.0.0")"#, 1, 1, 1),
    (r#"semver("1234.56789012345.67890123456789")"#, 4, 4, 4),
    (r#"isSemver("1.0.0")"#, 1, 1, 1),
    (r#"isSemver("1234.56789012345.67890123456789")"#, 4, 4, 4),
    (r#"semver("1.2.3").major()"#, 2, 2, 2),
    (r#"semver("1.2.3").minor()"#, 2, 2, 2),
    (r#"semver("1.2.3").patch()"#, 2, 2, 2),
    (r#"semver("1.0.0").isLessThan(semver("1.1.0"))"#, 3, 3, 3),
    (r#"semver("1.1.0").isGreaterThan(semver("1.0.0"))"#, 3, 3, 3),
    (r#"semver("1.0.0").compareTo(semver("1.2.3"))"#, 3, 3, 3),
    ("{'a': 1, 'b': 2}.all(k, v, v > 0)", 37, 41, 41),
    ("{'a': 1, 'b': 2}.exists(k, v, v > 0)", 39, 43, 40),
    ("{'a': 1, 'b': 2}.existsOne(k, v, v > 0)", 38, 40, 40),
    ("{'a': 1, 'b': 2}.transformMap(k, v, v + 1)", 71, 71, 71),
    ("{'a': 1, 'b': 2}.transformMap(k, v, v < 5, v + 1)", 67, 75, 75),
    ("{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})", 131, 131, 131),
    ("{'a': 1, 'b': 2}.transformMapEntry(k, v, v < 5, {k: v + 1})", 67, 135, 135),
    ("[1, 2].all(i, v, v > 0)", 17, 21, 21),
    ("[1, 2].exists(i, v, v > 0)", 19, 23, 20),
    ("[1, 2].existsOne(i, v, v > 0)", 18, 20, 20),
    ("[1, 2].transformList(i, v, v + 1)", 49, 49, 49),
    ("[1, 2].transformList(i, v, v < 5, v + 1)", 27, 53, 53),
    ("[1, 2, 3, 4, 5].sum()", 15, 15, 15),
    ("[uint(1), uint(2), uint(3), uint(4), uint(5)].sum()", 20, 20, 20),
    ("[1.0, 2.0, 3.0, 4.0, 5.0].sum()", 15, 15, 15),
    ("[duration('1s'), duration('2s'), duration('3s'), duration('4s'), duration('5s')].sum()", 20, 20, 20),
    ("[1, 2, 3, 4, 5].isSorted()", 15, 15, 15),
    ("[1, 2, 3, 4, 5].max()", 15, 15, 15),
    ("[1, 2, 3, 4, 5].min()", 15, 15, 15),
    ("[uint(1), uint(2), uint(3), uint(4), uint(5)].isSorted()", 20, 20, 20),
    ("[uint(1), uint(2), uint(3), uint(4), uint(5)].max()", 20, 20, 20),
    ("[uint(1), uint(2), uint(3), uint(4), uint(5)].min()", 20, 20, 20),
    ("[1.0, 2.0, 3.0, 4.0, 5.0].isSorted()", 15, 15, 15),
    ("[1.0, 2.0, 3.0, 4.0, 5.0].max()", 15, 15, 15),
    ("[1.0, 2.0, 3.0, 4.0, 5.0].min()", 15, 15, 15),
    ("[false, true, false, true, false].isSorted()", 15, 15, 15),
    ("[false, true, false, true, false].max()", 15, 15, 15),
    ("[false, true, false, true, false].min()", 15, 15, 15),
    ("['012345678901', '012345678901', '012345678901', '012345678901', '012345678901'].isSorted()", 15, 25, 15),
    ("['012345678901', '012345678901', '012345678901', '012345678901', '012345678901'].max()", 15, 25, 15),
    ("['012345678901', '012345678901', '012345678901', '012345678901', '012345678901'].min()", 15, 25, 15),
    ("[bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), bytes('012345678901')].isSorted()", 25, 35, 25),
    ("[bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), bytes('012345678901')].max()", 25, 35, 25),
    ("[bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), bytes('012345678901')].min()", 25, 35, 25),
    ("[duration('1s'), duration('2s'), duration('3s'), duration('4s'), duration('5s')].isSorted()", 20, 20, 20),
    ("[duration('1s'), duration('2s'), duration('3s'), duration('4s'), duration('5s')].max()", 20, 20, 20),
    ("[duration('1s'), duration('2s'), duration('3s'), duration('4s'), duration('5s')].min()", 20, 20, 20),
    ("[timestamp('2011-01-01T00:00:00.000+01:00'), timestamp('2011-01-02T00:00:00.000+01:00'), timestamp('2011-01-03T00:00:00.000+01:00'), timestamp('2011-01-04T00:00:00.000+01:00'), timestamp('2011-01-05T00:00:00.000+01:00')].isSorted()", 20, 20, 20),
    ("[timestamp('2011-01-01T00:00:00.000+01:00'), timestamp('2011-01-02T00:00:00.000+01:00'), timestamp('2011-01-03T00:00:00.000+01:00'), timestamp('2011-01-04T00:00:00.000+01:00'), timestamp('2011-01-05T00:00:00.000+01:00')].max()", 20, 20, 20),
    ("[timestamp('2011-01-01T00:00:00.000+01:00'), timestamp('2011-01-02T00:00:00.000+01:00'), timestamp('2011-01-03T00:00:00.000+01:00'), timestamp('2011-01-04T00:00:00.000+01:00'), timestamp('2011-01-05T00:00:00.000+01:00')].min()", 20, 20, 20),
    ("[1, 2, 3, 4, 5].indexOf(3)", 15, 15, 15),
    ("[1, 2, 3, 4, 5].lastIndexOf(3)", 15, 15, 15),
    ("[uint(1), uint(2), uint(3), uint(4), uint(5)].indexOf(uint(3))", 21, 21, 21),
    ("[uint(1), uint(2), uint(3), uint(4), uint(5)].lastIndexOf(uint(3))", 21, 21, 21),
    ("[1.0, 2.0, 3.0, 4.0, 5.0].indexOf(3.0)", 15, 15, 15),
    ("[1.0, 2.0, 3.0, 4.0, 5.0].lastIndexOf(3.0)", 15, 15, 15),
    ("[false, true, false, true, false].indexOf(true)", 15, 15, 15),
    ("[false, true, false, true, false].lastIndexOf(true)", 15, 15, 15),
    ("['012345678901', '012345678901', '012345678901', '012345678901', '012345678901'].indexOf('x')", 15, 25, 15),
    ("['012345678901', '012345678901', '012345678901', '012345678901', '012345678901'].lastIndexOf('x')", 15, 25, 15),
    ("[bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), bytes('012345678901')].indexOf(bytes('x'))", 26, 36, 26),
    ("[bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), bytes('012345678901')].lastIndexOf(bytes('x'))", 26, 36, 26),
    ("[duration('1s'), duration('2s'), duration('3s'), duration('4s'), duration('5s')].indexOf(duration('3s'))", 21, 21, 21),
    ("[duration('1s'), duration('2s'), duration('3s'), duration('4s'), duration('5s')].lastIndexOf(duration('3s'))", 21, 21, 21),
    ("[timestamp('2011-01-01T00:00:00.000+01:00'), timestamp('2011-01-02T00:00:00.000+01:00'), timestamp('2011-01-03T00:00:00.000+01:00'), timestamp('2011-01-04T00:00:00.000+01:00'), timestamp('2011-01-05T00:00:00.000+01:00')].indexOf(timestamp('2011-01-03T00:00:00.000+01:00'))", 21, 21, 21),
    ("[timestamp('2011-01-01T00:00:00.000+01:00'), timestamp('2011-01-02T00:00:00.000+01:00'), timestamp('2011-01-03T00:00:00.000+01:00'), timestamp('2011-01-04T00:00:00.000+01:00'), timestamp('2011-01-05T00:00:00.000+01:00')].lastIndexOf(timestamp('2011-01-03T00:00:00.000+01:00'))", 21, 21, 21),
    ("'01234567890123456789012345678901234567890123456789'.indexOf('123')", 5, 5, 5),
    ("'01234567890123456789012345678901234567890123456789'.lastIndexOf('123')", 5, 5, 5),
    ("url('https:://kubernetes.io/').getScheme()", 4, 4, 4),
    ("url('https:://kubernetes.io/').getHostname()", 4, 4, 4),
    ("url('https:://kubernetes.io/').getHost()", 4, 4, 4),
    ("url('https:://kubernetes.io/').getPort()", 4, 4, 4),
    ("url('https:://kubernetes.io/').getEscapedPath()", 4, 4, 4),
    ("url('https:://kubernetes.io/').getQuery()", 4, 4, 4),
    ("url('https:://kubernetes.io/') == url('https:://kubernetes.io/')", 7, 9, 7),
    ("url('https:://kubernetes.io/') == url('http://x.b')", 5, 5, 5),
    ("ip.isCanonical('192.168.0.1')", 3, 3, 3),
    ("ip.isCanonical('2001:db8:3333:4444:5555:6666:7777:8888')", 8, 8, 8),
    ("ip.isCanonical('2001:db8::abcd')", 3, 3, 3),
    ("ip('192.168.0.1')", 2, 2, 2),
    ("ip('192.168.0.1').family()", 3, 3, 3),
    ("ip('192.168.0.1').isUnspecified()", 3, 3, 3),
    ("ip('192.168.0.1').isLoopback()", 3, 3, 3),
    ("ip('192.168.0.1').isLinkLocalMulticast()", 3, 3, 3),
    ("ip('192.168.0.1').isLinkLocalUnicast()", 3, 3, 3),
    ("ip('192.168.0.1').isGlobalUnicast()", 3, 3, 3),
    ("ip('192.168.0.1') == ip('192.168.0.1')", 5, 5, 5),
    ("ip('2001:db8:3333:4444:5555:6666:7777:8888')", 4, 4, 4),
    ("ip('2001:db8:3333:4444:5555:6666:7777:8888').family()", 5, 5, 5),
    ("ip('2001:db8:3333:4444:5555:6666:7777:8888').isUnspecified()", 5, 5, 5),
    ("ip('2001:db8:3333:4444:5555:6666:7777:8888').isLoopback()", 5, 5, 5),
    ("ip('2001:db8:3333:4444:5555:6666:7777:8888').isLinkLocalMulticast()", 5, 5, 5),
    ("ip('2001:db8:3333:4444:5555:6666:7777:8888').isLinkLocalUnicast()", 5, 5, 5),
    ("ip('2001:db8:3333:4444:5555:6666:7777:8888').isGlobalUnicast()", 5, 5, 5),
    ("ip('2001:db8:3333:4444:5555:6666:7777:8888') == ip('192.168.0.1')", 7, 7, 7),
    ("cidr('192.168.0.0/16')", 2, 2, 2),
    ("cidr('192.168.0.0/16').ip()", 3, 3, 3),
    ("cidr('192.168.0.0/16').prefixLength()", 3, 3, 3),
    ("cidr('192.168.0.0/16').masked()", 3, 3, 3),
    ("cidr('192.168.0.0/16') == cidr('2001:db8::/32')", 5, 5, 5),
    ("cidr('2001:db8::/32')", 2, 2, 2),
    ("cidr('2001:db8::/32').ip()", 3, 3, 3),
    ("cidr('2001:db8::/32').prefixLength()", 3, 3, 3),
    ("cidr('2001:db8::/32').masked()", 3, 3, 3),
    ("cidr('2001:db8::/32') == cidr('2001:db8::/32')", 5, 5, 5),
    ("cidr('192.168.0.0/16').containsCIDR(cidr('192.0.0.0/30'))", 7, 11, 7),
    ("cidr('192.168.0.0/16').containsCIDR(cidr('192.168.0.0/16'))", 7, 11, 7),
    ("cidr('192.168.0.0/16').containsCIDR('192.0.0.0/30')", 7, 11, 7),
    ("cidr('192.168.0.0/16').containsCIDR('192.168.0.0/16')", 7, 11, 7),
    ("cidr('192.168.0.0/16').containsIP(ip('192.0.0.1'))", 4, 7, 4),
    ("cidr('192.168.0.0/16').containsIP(ip('192.169.0.1'))", 5, 8, 5),
    ("cidr('192.168.0.0/16').containsIP(ip('192.169.169.250'))", 5, 8, 5),
    ("cidr('192.168.0.0/16').containsIP('192.0.0.1')", 4, 7, 4),
    ("cidr('192.168.0.0/16').containsIP('192.169.0.1')", 5, 8, 5),
    ("cidr('2001:db8::/32').containsCIDR(cidr('2001:db8::/126'))", 7, 11, 7),
    ("cidr('2001:db8::/32').containsCIDR(cidr('2001:db8::/32'))", 7, 11, 7),
    ("cidr('2001:db8::/32').containsCIDR('2001:db8::/126')", 7, 11, 7),
    ("cidr('2001:db8::/32').containsCIDR('2001:db8::/32')", 7, 11, 7),
    ("cidr('2001:db8::/32').containsIP(ip('2001:db8:3333:4444:5555:6666:7777:8888'))", 7, 10, 7),
    ("cidr('2001:db8::/32').containsIP(ip('2001:db8::1'))", 5, 8, 5),
    ("cidr('2001:db8::/32').containsIP('2001:db8:3333:4444:5555:6666:7777:8888')", 7, 10, 7),
    ("cidr('2001:db8::/32').containsIP('2001:db8::1')", 5, 8, 5),
];

#[test]
fn calls_cost_what_they_cost_in_kubernetes() {
    let libraries = [
        library::strings::library(2),
        library::sets::library(),
        library::optional::library(u32::MAX),
        library::two_variable::library(),
        kubernetes::jsonpatch::library(),
    ];
    let env = libraries.into_iter().chain(kubernetes::libraries()).fold(Env::standard(), Env::with_library);
    let env = env
        .with_options(|options| options.presence_test_has_cost = false)
        .with_variable("authorizer", Type::Object(authorizer::AUTHORIZER.into()));
    let authorizer = authorizer::authorizer(Arc::new(AlwaysAllows));
    super::check_costs(&env, &Kubernetes(Short), &[("authorizer", authorizer)], COSTS);
    super::check_costs(&env, &Kubernetes(Short), &[], super::extensions::SETS_COSTS);
}
