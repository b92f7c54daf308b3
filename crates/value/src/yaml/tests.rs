//! Tables of the results of `sigs.k8s.io/yaml`.

use super::*;
use crate::json;

#[test]
fn documents_become_json() {
    for (input, expected) in [
        ("", "null"),
        ("---\n", "null"),
        ("# nothing\n", "null"),
        ("a: 1\nb:\n- x\n- {c: d}\n", r#"{"a":1,"b":["x",{"c":"d"}]}"#),
        ("a: yes\nb: 'yes'\nc: !!str yes\nd: ~\ne:\n", r#"{"a":true,"b":"yes","c":"yes","d":null,"e":null}"#),
        ("a: 0777\nb: 0o10\nc: 1_0\nd: 08\n", r#"{"a":511,"b":8,"c":10,"d":8}"#),
        ("a: 1.0\nb: 1e3\nc: 1.5\nd: 1e21\n", r#"{"a":1,"b":1000,"c":1.5,"d":1e+21}"#),
        ("a: 18446744073709551615\n", r#"{"a":18446744073709552000}"#),
        ("a: 2001-01-01\nb: 1:30\n", r#"{"a":"2001-01-01","b":"1:30"}"#),
        ("1: a\ntrue: b\n1.5: c\n1.1: d\n", r#"{"1":"a","1.1":"d","1.5":"c","true":"b"}"#),
        ("a: !!binary aGk=\nb: !foo x\nc: !!float 3\n", r#"{"a":"hi","b":"x","c":3}"#),
        ("a: &x {b: 1}\nc: *x\n", r#"{"a":{"b":1},"c":{"b":1}}"#),
        ("x: &x {a: 1}\nz:\n  <<: *x\n  b: 3\n", r#"{"x":{"a":1},"z":{"a":1,"b":3}}"#),
        ("a:\n  <<: [{x: 1}, {z: 2}]\n", r#"{"a":{"x":1,"z":2}}"#),
        ("'<<': 1\n", r#"{"\u003c\u003c":1}"#),
        ("a: |\n  x\n  y\nb: >-\n  x\n  y\n", r#"{"a":"x\ny\n","b":"x y"}"#),
        ("a: 1\n---\nb: 2\n", r#"{"a":1}"#),
        (r#"{"a": ["b", 1, null], "c": "\u00e9\n"}"#, r#"{"a":["b",1,null],"c":"é\n"}"#),
        ("{a: 1, b: }", r#"{"a":1,"b":null}"#),
    ] {
        let parsed = parse(input.as_bytes()).unwrap();
        assert_eq!(json::text(&parsed.value), expected, "{input}");
        assert_eq!(parsed.strict_error, None, "{input}");
    }
}

#[test]
fn quirks_of_go_yaml_are_followed() {
    for (input, expected) in [
        ("{a:}", Ok(r#"{"a:":null}"#)),
        ("{a: b:c, d: 'x'}", Ok(r#"{"a":"b:c","d":"x"}"#)),
        ("[a, b: c, ? d : e]", Ok(r#"["a",{"b":"c"},{"d":"e"}]"#)),
        ("a: ! 12\n", Ok(r#"{"a":"12"}"#)),
        ("a: !!str\nb: &x\nc: !<tag:yaml.org,2002:int> 1\n", Ok(r#"{"a":"","b":null,"c":1}"#)),
        ("%YAML 1.1\n%TAG !e! tag:yaml.org,2002:\n---\n!e!int 5\n...\nrest", Ok("5")),
        ("\u{feff}a: 1\r\nb: 2\r\n", Ok(r#"{"a":1,"b":2}"#)),
        ("- a\n-\n- - b\n  - c\n", Ok(r#"["a",null,["b","c"]]"#)),
        ("-\td\n", Err("yaml: found character that cannot start any token")),
        ("? a\n: b\n? c\n", Ok(r#"{"a":"b","c":null}"#)),
        ("a:\n  b\n  c\n\n  d\n", Ok(r#"{"a":"b c\nd"}"#)),
        ("a: \"x\\\n  y\n\n  z\"\n", Ok(r#"{"a":"xy\nz"}"#)),
        ("a: 'it''s \\'\nb: \"it's\"\n", Ok(r#"{"a":"it's \\","b":"it's"}"#)),
        (
            "a: |2\n    x\n   y\n\nb: >+\n  x\n\n   y\n  z\n\n",
            Ok(r#"{"a":"  x\n y\n","b":"x\n\n y\nz\n\n"}"#),
        ),
        ("a: |- # note\n  x\n", Ok(r#"{"a":"x"}"#)),
        (r#"{"a": "b\/c"}"#, Err("yaml: found unknown escape character")),
        ("[a?b]", Err("yaml: did not find expected ',' or ']'")),
        ("%YAML 1.2\n---\na", Err("yaml: found incompatible YAML document")),
        ("%FOO\n---\na", Err("yaml: found unknown directive name")),
        ("a: !x!y z", Err("yaml: found undefined tag handle")),
        ("a: 1\nb\nc: 2\n", Err("yaml: line 3: could not find expected ':'")),
        ("- a\nb: c\n", Err("yaml: line 1: did not find expected '-' indicator")),
        ("a: b\n- c\n", Err("yaml: line 1: did not find expected key")),
        ("a: - b\n", Err("yaml: block sequence entries are not allowed in this context")),
        ("a: @b\n", Err("yaml: found character that cannot start any token")),
        ("a: |x\n", Err("yaml: did not find expected comment or line break")),
        ("a: |0\n", Err("yaml: found an indentation indicator equal to 0")),
        ("a: \"\\ud800\"", Err("yaml: found invalid Unicode character escape code")),
        ("a: \"\\xg\"", Err("yaml: did not find expected hexdecimal number")),
        ("a: &\n", Err("yaml: did not find expected alphabetic or numeric character")),
        ("{\"apiVersion\":\"v1\"\n", Err("yaml: line 1: did not find expected ',' or '}'")),
        ("# a\nb: c\nkind: [Widget\n", Err("yaml: line 3: did not find expected ',' or ']'")),
        ("a: \"x\n---\ny\"\n", Err("yaml: line 2: found unexpected document indicator")),
    ] {
        let found = parse(input.as_bytes())
            .map(|parsed| json::text(&parsed.value))
            .map_err(|error| error.to_string());
        assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{input}");
    }
    // A syntax error far before an invalid byte is reported first.
    let far = format!("a: b: c\n{}\u{1}", "x".repeat(1000));
    assert_eq!(
        parse(far.as_bytes()).unwrap_err().to_string(),
        "yaml: mapping values are not allowed in this context"
    );
}

#[test]
fn json_on_one_line_is_read_as_yaml_would() {
    for (input, short) in [
        (r#"{"a":{"b":[1,-0,null,true],"c\"\\\n\t\b":"  x : # y  "},"":[{}]}"#, true),
        ("{ \"a\" : [ ] }\n", true),
        (r#"{"a":1.0}"#, false),
        (r#"{"a":"\u00e9"}"#, false),
        (r#"{"a":"\/"}"#, false),
        (r#"{"a":"é"}"#, false),
        (r#"{"a":1,"a":2}"#, false),
        ("{\"a\"\n:1}", false),
        ("{\"a\":1}}", false),
        (&format!(r#"{{"{}":1}}"#, "k".repeat(1025)), false),
    ] {
        let value = flat::parse(input.as_bytes());
        assert_eq!(value.is_some(), short, "{input}");
        if let Some(value) = value {
            assert_eq!(parse_document(input.as_bytes()).unwrap().value, value, "{input}");
        }
    }
}

#[test]
fn errors_read_as_in_go_yaml() {
    for (input, message) in [
        ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
        ("a: 1\nb: c: d\n", "yaml: line 2: mapping values are not allowed in this context"),
        ("a:\n\tb: 2\n", "yaml: line 2: found character that cannot start any token"),
        ("a: [1, 2\n", "yaml: line 1: did not find expected ',' or ']'"),
        ("a: 'x\n", "yaml: line 2: found unexpected end of stream"),
        ("a: *x\n", "yaml: unknown anchor 'x' referenced"),
        ("a: &a [*a]\n", "yaml: anchor 'a' value contains itself"),
        ("a: !!int x\n", "yaml: cannot decode !!str `x` as a !!int"),
        ("a: !!binary x\n", "yaml: !!binary value contains invalid base64 data"),
        ("<<: x\n", "yaml: map merge requires map or sequence of maps as the value"),
        ("{{ .x }}: 1\n", r#"yaml: invalid map key: map[interface {}]interface {}{".x":interface {}(nil)}"#),
        ("? [a, 1]\n: 1\n", r#"yaml: invalid map key: []interface {}{"a", 1}"#),
        ("~: 1\n", "unsupported map key of type: %!s(<nil>), key: <nil>, value: 1"),
        ("a: .nan\n", "json: unsupported value: NaN"),
        ("a: -.inf\n", "json: unsupported value: -Inf"),
        ("a: \u{1}\n", "yaml: control characters are not allowed"),
    ] {
        assert_eq!(parse(input.as_bytes()).unwrap_err().to_string(), message, "{input}");
    }
    for (input, message) in [
        (&b"a: \xff\n"[..], "yaml: invalid leading UTF-8 octet"),
        (b"a: \xc3(\n", "yaml: invalid trailing UTF-8 octet"),
        (b"a: \xc3", "yaml: incomplete UTF-8 octet sequence"),
        (b"a: \xed\xa0\x80\n", "yaml: invalid Unicode character"),
    ] {
        assert_eq!(parse(input).unwrap_err().to_string(), message);
    }
}

#[test]
fn repeated_keys_are_a_strict_error_and_the_last_value_stays() {
    for (input, expected, strict) in [
        ("a: 1\nb: 2\na: 3\n", r#"{"a":3,"b":2}"#, "line 3: key \"a\" already set in map"),
        (
            "a:\n  1: x\n  1: z\n  true: x\n  yes: z\n",
            r#"{"a":{"1":"z","true":"z"}}"#,
            "line 3: key 1 already set in map\n  line 5: key true already set in map",
        ),
        (
            "x: &x {a: 1}\nz:\n  a: 2\n  <<: *x\n",
            r#"{"x":{"a":1},"z":{"a":1}}"#,
            "line 1: key \"a\" already set in map",
        ),
    ] {
        let parsed = parse(input.as_bytes()).unwrap();
        assert_eq!(json::text(&parsed.value), expected);
        assert_eq!(parsed.strict_error.unwrap(), format!("yaml: unmarshal errors:\n  {strict}"));
    }
}

#[test]
fn aliases_and_nesting_are_limited() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    let error = parse(laughs.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "yaml: document contains excessive aliasing");

    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(parse(nested(2000).as_bytes()).is_ok());
    for depth in [DEPTH_MAX + 1, 100_000] {
        assert!(
            parse(nested(depth).as_bytes()).unwrap_err().to_string().ends_with("exceeded max depth of 10000")
        );
    }
    // Each line has the allowed depth and refers to the line before.
    let mut chain = String::from("a0: &a0 x\n");
    for level in 1..20 {
        let (open, close) = ("[".repeat(999), "]".repeat(999));
        chain.push_str(&format!("a{level}: &a{level} {open}*a{}{close}\n", level - 1));
    }
    assert_eq!(parse(chain.as_bytes()).unwrap_err().to_string(), "yaml: exceeded max depth of 10000");
}

#[test]
fn the_expansion_of_aliases_is_limited_by_bytes() {
    let bomb = |text_bytes: usize, aliases: usize, alias: &str| {
        let mut document = format!("a: &a {}\nb:\n", "x".repeat(text_bytes));
        (0..aliases).for_each(|_| document.push_str(alias));
        document
    };
    let refused = |document: String| parse(document.as_bytes()).unwrap_err().to_string();
    // A megabyte and 20,000 aliases would be 20 GB.
    assert_eq!(refused(bomb(1 << 20, 20_000, "- *a\n")), "yaml: document contains excessive aliasing");
    // Few aliases suffice if the text is long, and keys count like values.
    assert_eq!(refused(bomb(1 << 20, 9, "- *a\n")), "yaml: document contains excessive aliasing");
    assert_eq!(refused(bomb(1 << 20, 9, "- *a : 1\n")), "yaml: document contains excessive aliasing");
    let merged = format!("a: &a {{{}: 1}}\nb:\n{}", "k".repeat(1000), "- <<: *a\n".repeat(10_000));
    assert_eq!(refused(merged), "yaml: document contains excessive aliasing");

    let fine = parse(bomb(1 << 20, 7, "- *a\n").as_bytes()).unwrap().value;
    assert_eq!(fine.items_at(&["b"]).len(), 7);
}

#[test]
fn trees_print_as_in_go_yaml() {
    let words = "word ".repeat(20);
    let (long, folded) =
        (words.trim_end(), format!("{}word\n  {}word", "word ".repeat(15), "word ".repeat(3)));
    let key = "k".repeat(129);
    for (input, expected) in [
        ("null", "null\n".to_owned()),
        ("{}", "{}\n".into()),
        ("[]", "[]\n".into()),
        (r#"[1,[2,[]],{"a":{}}]"#, "- 1\n- - 2\n  - []\n- a: {}\n".into()),
        (r#"{"b":[{"x":1,"y":[2]}],"a":{"c":null}}"#, "a:\n  c: null\nb:\n- x: 1\n  \"y\":\n  - 2\n".into()),
        (r#"{"a10":0,"a2":0,"a02":0,"b":0,"B":0,"1":0,"a.b":0,"ab":0}"#,
            "\"1\": 0\nB: 0\na.b: 0\na2: 0\na02: 0\na10: 0\nab: 0\nb: 0\n".into()),
        (r#"["", "null", "yes", "12", "1.5", "0x1", "2008-01-01T01:01:01Z", "1:30", "~"]"#,
            "- \"\"\n- \"null\"\n- \"yes\"\n- \"12\"\n- \"1.5\"\n- \"0x1\"\n- \"2008-01-01T01:01:01Z\"\n- \"1:30\"\n- \"~\"\n".into()),
        (r##"["a: b", "a:b", "#a", "a #b", "a#b", "- a", "-a", "*", " a", "a ", "it's", "---"]"##,
            "- 'a: b'\n- a:b\n- '#a'\n- 'a #b'\n- a#b\n- '- a'\n- -a\n- '*'\n- ' a'\n- 'a '\n- it's\n- '---'\n".into()),
        (r#"["a\tb", "\u0001", "é", "😀", "\u00a0", "\u2028"]"#,
            "- \"a\\tb\"\n- \"\\x01\"\n- é\n- \"\\U0001F600\"\n- \u{a0}\n- '\u{2028}'\n".into()),
        (r#"{"a":"x\ny","b":"x\ny\n","c":"x\n\n","d":"\n","e":" x\ny","f":"x \ny","g":"x\n y"}"#,
            "a: |-\n  x\n  y\nb: |\n  x\n  y\nc: |+\n  x\n\nd: |2+\n\ne: |2-\n   x\n  y\nf: \"x \\ny\"\ng: |-\n  x\n   y\n".into()),
        (r#"{"a\nb":[1]}"#, "? |-\n  a\n  b\n: - 1\n".into()),
        (&format!(r#"{{"{key}":{{"a":1}}}}"#), format!("? {key}\n: a: 1\n")),
        (&format!(r#"{{"a":"{long}"}}"#), format!("a: {folded}\n")),
        (&format!(r#"{{"a":"'{long}"}}"#), format!("a: '''{}'\n", folded)),
        ("[5.0, 0.1, 1234567.5, 1e21, 1e-7, 9223372036854775808]",
            "- 5\n- 0.1\n- 1.2345675e+06\n- 1e+21\n- 1e-07\n- 9223372036854776000\n".into()),
    ] {
        let value = json::parse(input.as_bytes()).unwrap().value;
        let mut out = Vec::new();
        print(&value, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{input}");
    }
}

#[test]
fn many_keys_print_in_natural_order() {
    let count = 10_000;
    let keys: crate::Map = (0..count).map(|number| (Str::from(format!("k{number}")), Value::Null)).collect();
    let mut out = Vec::new();
    print(&Value::Object(keys), &mut out);
    let expected: String = (0..count).map(|number| format!("k{number}: null\n")).collect();
    assert!(String::from_utf8(out).unwrap() == expected);
}
