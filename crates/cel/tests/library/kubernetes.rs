//! Kubernetes' own libraries: the cases of its own tests.

use super::{check_fails, check_holds, check_refused, kubernetes};

#[test]
#[rustfmt::skip]
fn quantities() {
    check_holds(&kubernetes(), &[
        r#"quantity("12Mi") == quantity("12Mi")"#,
        r#"isQuantity("20")"#,
        r#"isQuantity("20M")"#,
        r#"isQuantity("20Mi")"#,
        r#"!isQuantity("20Mo")"#,
        r#"!isQuantity("10Mm")"#,
        r#"quantity("200M") == quantity("200M")"#,
        r#"quantity("200M") == quantity("0.2G") && quantity("0.2G") == quantity("200M")"#,
        r#"quantity("2M") == quantity("0.002G") && quantity("2000k") == quantity("2M") && quantity("0.002G") == quantity("2000k")"#,
        r#"!(quantity("200M") == quantity("0.3G"))"#,
        r#"quantity("50M").isLessThan(quantity("50Mi"))"#,
        r#"quantity("50M").isLessThan(quantity("100M"))"#,
        r#"!quantity("100M").isLessThan(quantity("50M"))"#,
        r#"quantity("50Mi").isGreaterThan(quantity("50M"))"#,
        r#"quantity("150Mi").isGreaterThan(quantity("100Mi"))"#,
        r#"!quantity("50M").isGreaterThan(quantity("100M"))"#,
        r#"quantity("200M").compareTo(quantity("0.2G")) == 0"#,
        r#"quantity("50M").compareTo(quantity("50Mi")) == -1"#,
        r#"quantity("50Mi").compareTo(quantity("50M")) == 1"#,
        r#"quantity("50k").add(quantity("20")) == quantity("50.02k")"#,
        r#"!quantity("50k").add(20).isLessThan(quantity("50020"))"#,
        r#"quantity("50k").sub(quantity("20")) == quantity("49.98k")"#,
        r#"quantity("50k").sub(20) == quantity("49980")"#,
        r#"quantity("50k").add(20).sub(quantity("100k")).asInteger() == -49980"#,
        r#"quantity("50k").add(20).sub(quantity("100k")).sub(-50000).asInteger() == 20"#,
        r#"quantity("50k").asInteger() == 50000"#,
        r#"!quantity("9999999999999999999999999999999999999G").isInteger()"#,
        r#"quantity("50").isInteger()"#,
        r#"quantity("50.703k").asApproximateFloat() == 50703.0"#,
    ]);
    check_fails(&kubernetes(), &[
        (r#"quantity("10Mo")"#, "quantities must match the regular expression"),
        (r#"quantity("10Mm")"#, "unable to parse quantity's suffix"),
        (r#"quantity("9999999999999999999999999999999999999G").asInteger()"#, "cannot convert value to integer"),
    ]);
    check_refused(&kubernetes(), &[
        ("isQuantity([1, 2, 3])", "found no matching overload for 'isQuantity' applied to"),
    ]);
}

#[test]
#[rustfmt::skip]
fn addresses() {
    check_holds(&kubernetes(), &[
        r#"ip("192.168.0.1") == ip("192.168.0.1")"#,
        r#"isIP("192.168.0.1")"#,
        r#"!isIP("192.168.0.1.0")"#,
        r#"ip.isCanonical("127.0.0.1")"#,
        r#"ip("192.168.0.1").family() == 4"#,
        r#"ip("0.0.0.0").isUnspecified()"#,
        r#"!ip("127.0.0.1").isUnspecified()"#,
        r#"ip("127.0.0.1").isLoopback()"#,
        r#"!ip("1.2.3.4").isLoopback()"#,
        r#"ip("224.0.0.1").isLinkLocalMulticast()"#,
        r#"!ip("224.0.1.1").isLinkLocalMulticast()"#,
        r#"ip("169.254.169.254").isLinkLocalUnicast()"#,
        r#"!ip("192.168.0.1").isLinkLocalUnicast()"#,
        r#"ip("192.168.0.1").isGlobalUnicast()"#,
        r#"!ip("255.255.255.255").isGlobalUnicast()"#,
        r#"ip("2001:db8::68") == ip("2001:db8::68")"#,
        r#"isIP("2001:db8::68")"#,
        r#"!isIP("2001:db8:::68")"#,
        r#"ip.isCanonical("2001:db8::68")"#,
        r#"!ip.isCanonical("2001:DB8::68")"#,
        r#"ip("2001:db8::68").family() == 6"#,
        r#"ip("::").isUnspecified()"#,
        r#"!ip("::1").isUnspecified()"#,
        r#"ip("::1").isLoopback()"#,
        r#"!ip("2001:db8::abcd").isLoopback()"#,
        r#"ip("ff02::1").isLinkLocalMulticast()"#,
        r#"!ip("fd00::1").isLinkLocalMulticast()"#,
        r#"ip("fe80::1").isLinkLocalUnicast()"#,
        r#"!ip("fd80::1").isLinkLocalUnicast()"#,
        r#"ip("2001:db8::abcd").isGlobalUnicast()"#,
        r#"!ip("ff00::1").isGlobalUnicast()"#,
        r#"string(ip("192.168.0.1")) == "192.168.0.1""#,
        r#"type(ip("192.168.0.1")) == net.IP"#,
    ]);
    check_fails(&kubernetes(), &[
        (r#"ip("192.168.0.1.0")"#, r#"IP Address "192.168.0.1.0" parse error during conversion from string: ParseAddr("192.168.0.1.0"): IPv4 address too long"#),
        (r#"ip.isCanonical("127.0.0.1.0")"#, r#"IP Address "127.0.0.1.0" parse error during conversion from string: ParseAddr("127.0.0.1.0"): IPv4 address too long"#),
        (r#"ip("2001:db8:::68")"#, r#"IP Address "2001:db8:::68" parse error during conversion from string: ParseAddr("2001:db8:::68"): each colon-separated field must have at least one digit (at ":68")"#),
        (r#"ip.isCanonical("2001:db8:::68")"#, r#"IP Address "2001:db8:::68" parse error during conversion from string: ParseAddr("2001:db8:::68"): each colon-separated field must have at least one digit (at ":68")"#),
    ]);
    check_refused(&kubernetes(), &[
        (r#"isIP(cidr("192.168.0.0/24"))"#, "found no matching overload for 'isIP' applied to '(net.CIDR)'"),
    ]);
}

#[test]
#[rustfmt::skip]
fn networks() {
    check_holds(&kubernetes(), &[
        r#"cidr("192.168.0.0/24") == cidr("192.168.0.0/24")"#,
        r#"cidr("192.168.0.0/24").containsIP(ip("192.168.0.1"))"#,
        r#"!cidr("192.168.0.0/24").containsIP(ip("192.168.1.1"))"#,
        r#"cidr("192.168.0.0/24").containsIP("192.168.0.1")"#,
        r#"!cidr("192.168.0.0/24").containsIP("192.168.1.1")"#,
        r#"cidr("192.168.0.0/24").containsCIDR(cidr("192.168.0.0/25"))"#,
        r#"cidr("192.168.0.0/24").containsCIDR(cidr("192.168.0.1/32"))"#,
        r#"!cidr("192.168.0.0/24").containsCIDR(cidr("192.168.0.0/23"))"#,
        r#"!cidr("192.168.0.0/24").containsCIDR(cidr("192.169.0.1/32"))"#,
        r#"cidr("192.168.0.0/24").containsCIDR("192.168.0.0/25")"#,
        r#"!cidr("192.168.0.0/24").containsCIDR("192.168.0.0/23")"#,
        r#"cidr("192.168.0.0/24").ip() == ip("192.168.0.0")"#,
        r#"cidr("192.168.0.0/24").masked() == cidr("192.168.0.0/24")"#,
        r#"cidr("192.168.0.1/24").masked() == cidr("192.168.0.0/24")"#,
        r#"cidr("192.168.0.0/24").prefixLength() == 24"#,
        r#"cidr("2001:db8::/32") == cidr("2001:db8::/32")"#,
        r#"cidr("2001:db8::/32").containsIP(ip("2001:db8::1"))"#,
        r#"!cidr("2001:db8::/32").containsIP(ip("2001:dc8::1"))"#,
        r#"cidr("2001:db8::/32").containsIP("2001:db8::1")"#,
        r#"!cidr("2001:db8::/32").containsIP("2001:dc8::1")"#,
        r#"cidr("2001:db8::/32").containsCIDR(cidr("2001:db8::/33"))"#,
        r#"!cidr("2001:db8::/32").containsCIDR(cidr("2001:db8::/31"))"#,
        r#"cidr("2001:db8::/32").containsCIDR("2001:db8::/33")"#,
        r#"!cidr("2001:db8::/32").containsCIDR("2001:db8::/31")"#,
        r#"cidr("2001:db8::/32").ip() == ip("2001:db8::")"#,
        r#"cidr("2001:db8::/32").masked() == cidr("2001:db8::/32")"#,
        r#"cidr("2001:db8:1::/32").masked() == cidr("2001:db8::/32")"#,
        r#"cidr("2001:db8::/32").prefixLength() == 32"#,
        r#"string(cidr("192.168.0.0/24")) == "192.168.0.0/24""#,
        r#"type(cidr("192.168.0.0/24")) == net.CIDR"#,
    ]);
    check_fails(&kubernetes(), &[
        (r#"cidr("192.168.0.0/")"#, r#"network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("192.168.0.0/"): bad bits after slash: """#),
        (r#"cidr("2001:db8::/")"#, r#"network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("2001:db8::/"): bad bits after slash: """#),
    ]);
}

#[test]
#[rustfmt::skip]
fn versions() {
    check_holds(&kubernetes(), &[
        r#"semver("1.2.3") == semver("1.2.3")"#,
        r#"isSemver("1.2.3-beta.1+build.1")"#,
        r#"!isSemver("")"#,
        r#"!isSemver("v1.0.0")"#,
        r#"!isSemver(" 1.0.0")"#,
        r#"!isSemver("1. 0.0")"#,
        r#"!isSemver("1.0.0 ")"#,
        r#"!isSemver("01.01.01")"#,
        r#"!isSemver("1")"#,
        r#"!isSemver("1.1")"#,
        r#"!isSemver("", true)"#,
        r#"!isSemver(" 1.0.0", true)"#,
        r#"!isSemver("1. 0.0", true)"#,
        r#"!isSemver("1.0.0 ", true)"#,
        r#"isSemver("v1.0.0", true)"#,
        r#"isSemver("01.01.01", true)"#,
        r#"isSemver("1", true)"#,
        r#"isSemver("1.1", true)"#,
        r#"semver("v01.01", true) == semver("1.1.0")"#,
        r#"semver("1.2.3") == semver("1.2.3")"#,
        r#"!(semver("1.2.3") == semver("1.0.0"))"#,
        r#"semver("1.0.0").isLessThan(semver("1.2.3"))"#,
        r#"!semver("1.0.0").isLessThan(semver("1.0.0"))"#,
        r#"semver("1.2.3").isGreaterThan(semver("1.0.0"))"#,
        r#"!semver("1.0.0").isGreaterThan(semver("1.0.0"))"#,
        r#"semver("1.2.3").compareTo(semver("1.2.3")) == 0"#,
        r#"semver("1.0.0").compareTo(semver("1.2.3")) == -1"#,
        r#"semver("1.2.3").compareTo(semver("1.0.0")) == 1"#,
        r#"semver("1.2.3").major() == 1"#,
        r#"semver("1.2.3").minor() == 2"#,
        r#"semver("1.2.3").patch() == 3"#,
    ]);
    check_fails(&kubernetes(), &[
        (r#"semver("v1.0")"#, "No Major.Minor.Patch elements found"),
    ]);
    check_refused(&kubernetes(), &[
        ("isSemver([1, 2, 3])", "found no matching overload for 'isSemver' applied to"),
    ]);
}

#[test]
#[rustfmt::skip]
fn formats() {
    check_holds(&kubernetes(), &[
        r#"!format.dns1123Label().validate("my-label-name").hasValue()"#,
        r#"!format.dns1123Subdomain().validate("apiextensions.k8s.io").hasValue()"#,
        r#"!format.qualifiedName().validate("apiextensions.k8s.io/v1beta1").hasValue()"#,
        r#"!format.dns1123LabelPrefix().validate("my-label-prefix-").hasValue()"#,
        r#"!format.dns1123SubdomainPrefix().validate("mysubdomain.prefix.-").hasValue()"#,
        r#"!format.dns1035LabelPrefix().validate("my-label-prefix-").hasValue()"#,
        r#"!format.uri().validate("http://example.com").hasValue()"#,
        r#"!format.uuid().validate("123e4567-e89b-12d3-a456-426614174000").hasValue()"#,
        r#"!format.byte().validate("aGVsbG8=").hasValue()"#,
        r#"!format.date().validate("2021-01-01").hasValue()"#,
        r#"!format.datetime().validate("2021-01-01T00:00:00Z").hasValue()"#,
        r#"format.dns1123Label().validate("contains a space").value() == ["a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"]"#,
        r#"format.dns1123Subdomain().validate("contains a space").value() == ["a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]"#,
        r#"format.dns1035Label().validate("contains a space").value() == ["a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"]"#,
        r#"format.qualifiedName().validate("contains a space").value() == ["name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]"#,
        r#"format.dns1123LabelPrefix().validate("contains a space-").value() == ["a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"]"#,
        r#"format.dns1123SubdomainPrefix().validate("contains a space-").value() == ["a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]"#,
        r#"format.dns1035LabelPrefix().validate("contains a space-").value() == ["a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"]"#,
        r#"!format.dns1123Label().validate("my-label-name").hasValue()"#,
        r#"!format.dns1123Subdomain().validate("example.com").hasValue()"#,
        r#"!format.dns1035Label().validate("my-label-name").hasValue()"#,
        r#"!format.qualifiedName().validate("my.name").hasValue()"#,
        r#"!format.byte().validate("aGVsbG8=").hasValue()"#,
        r#"format.byte().validate("aGVsbG8").value() == ["invalid base64"]"#,
        r#"!format.date().validate("2020-01-01").hasValue()"#,
        r#"format.date().validate("2020-01-32").value() == ["invalid date"]"#,
        r#"!format.datetime().validate("2020-01-01T00:00:00Z").hasValue()"#,
        r#"format.datetime().validate("2020-01-32T00:00:00Z").value() == ["invalid datetime"]"#,
        r#"!format.named("unknown").hasValue()"#,
        r#"!format.labelValue().validate("my-cool-label-Value").hasValue()"#,
        r#"format.labelValue().validate("my-cool-label-Value!!\n\n!!!").value() == ["a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"]"#,
    ]);
}
