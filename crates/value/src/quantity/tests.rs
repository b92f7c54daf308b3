use super::*;

#[test]
fn canonical_texts() {
    for (text, expected) in [
        ("0", "0"),
        ("0.0", "0"),
        ("-0", "0"),
        ("+", "0"),
        ("1.5", "1500m"),
        ("0.001", "1m"),
        ("0.0001", "100u"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1100m", "1100m"),
        ("1000", "1k"),
        ("100000", "100k"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("8Mi", "8Mi"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("1.1Ki", "1126400m"),
        ("100Ki", "100Ki"),
        ("1E6", "1E6"),
        ("12e6", "12e6"),
        ("12E1", "120"),
        ("1000e3", "1e6"),
        ("1e-9", "1e-9"),
        ("5e-10", "1e-9"),
        ("0.1n", "1n"),
        ("1.0000000001", "1000000001n"),
        ("-1.0000000001", "-1000000001n"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775808"),
        ("100000000000000000000", "100E"),
        ("10Ei", "9223372036854775807"),
        ("8192Pi", "9223372036854775807"),
        ("4Ei", "4Ei"),
        ("-4Ei", "-4Ei"),
        ("1G", "1G"),
        ("5T", "5T"),
        ("1.500", "1.500"),
        ("+5", "+5"),
        ("007", "007"),
        (".5", "500m"),
        ("5.", "5."),
        (" 5 ", "5"),
        ("1e", "err"),
        ("1Kii", "err"),
        ("1.2.3", "err"),
        ("", "err"),
        ("1 Gi", "err"),
        ("abc", "err"),
    ] {
        let got = canonical(text).map_or("err".to_string(), |s| s.to_string());
        assert_eq!(got, expected, "{text}");
    }
}

#[test]
fn errors_are_distinguished() {
    for (text, error) in [
        ("", QuantityError::Format),
        ("1 Gi", QuantityError::Format),
        ("1.2.3", QuantityError::Format),
        ("abc", QuantityError::Format),
        ("1Kii", QuantityError::Suffix),
        ("1e", QuantityError::Suffix),
        ("1K", QuantityError::Suffix),
        ("1e999999999999999999999", QuantityError::Suffix),
        (".Ki5", QuantityError::Suffix),
    ] {
        assert_eq!(Quantity::parse(text).map(|q| q.to_string()), Err(error), "{text}");
    }
}

#[test]
fn amounts_compare_and_add_exactly() {
    let q = |text: &str| Quantity::parse(text).unwrap();
    for (a, b, expected) in [
        ("1", "1000m", Ordering::Equal),
        ("1Gi", "1G", Ordering::Greater),
        ("-1", "1n", Ordering::Less),
        ("1e2000000", "1e1999999", Ordering::Greater),
        ("-1e2000000", "-1e1999999", Ordering::Less),
        ("9223372036854775808", "9223372036854775807", Ordering::Greater),
    ] {
        assert_eq!(q(a).cmp(&q(b)), expected, "{a} {b}");
    }
    for (a, b, sum, difference) in [
        ("1", "1m", "1001m", "999m"),
        ("1Gi", "1Mi", "1025Mi", "1023Mi"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("1k", "1Ki", "2024", "-24"),
        ("9223372036854775807", "1", "9223372036854775808", "9223372036854775806"),
    ] {
        let (mut added, mut taken) = (q(a), q(a));
        added.add(&q(b));
        taken.sub(&q(b));
        assert_eq!((added.to_string().as_str(), taken.to_string().as_str()), (sum, difference), "{a} {b}");
    }
    assert_eq!((q("1.5").value(), q("1.5").milli_value(), q("-1.5").value()), (2, 1500, -2));
    assert_eq!(q("100Ei").value(), i64::MAX);
    // A number that Go stores with an exponent becomes zero if it does not fit.
    assert_eq!((q("1e2000000000").value(), q("1e20").value(), q("1e17").milli_value()), (0, 0, 0));
    for (text, expected) in
        [("1.5", None), ("2k", Some(2000)), ("1000m", None), ("0.5Gi", None), ("1Gi", Some(1 << 30))]
    {
        assert_eq!(q(text).as_i64(), expected, "{text}");
    }
    for (text, expected, exact) in
        [("0.0001", "1m", false), ("1n", "1m", false), ("1500m", "1500m", true), ("1k", "1k", true)]
    {
        let mut rounded = q(text);
        assert_eq!((rounded.round_up(-3), rounded.to_string().as_str()), (exact, expected), "{text}");
    }
    assert_eq!((q("50M").as_f64(), q("1500m").as_f64()), (5e7, 1.5));
}

#[test]
fn bad_input_never_panics() {
    for text in ["-", ".", "-.", "+.Ki", "1e-2147483648", "9e2147483647", "0.1e-2147483648", "é", "1é"] {
        if let Ok(q) = Quantity::parse(text) {
            let mut sum = q.clone();
            sum.add(&Quantity::new(1, Format::DecimalSI));
            let _ = (sum.to_string(), q.value(), q.milli_value(), q.cmp(&sum), q.as_f64());
        }
    }
    let long = "9".repeat(60);
    assert_eq!(canonical(&long).as_deref(), Ok(long.as_str()));
    assert_eq!(Quantity::parse(&"9".repeat(10_001)), Err(QuantityError::Numeric));
    assert_eq!(canonical(&format!("{long}Ki")).as_deref(), Ok("9223372036854775807"));
    assert_eq!(canonical(&format!("1{}", "0".repeat(60))).as_deref(), Ok("1"));
    assert_eq!(canonical(&format!("1.{}1", "0".repeat(60))).as_deref(), Ok("1000000001n"));
}

#[test]
fn zeros_at_the_end_need_no_room() {
    let text = "234567890123456789012341234567890567890";
    assert_eq!(Quantity::parse(text).unwrap().to_string(), text);
}

/// `recorded.tsv` has the results of Go's `resource.Quantity` for random texts: a text, and its properties or the error;
/// then the previous text, the order of both, their sum and difference, a factor, the product, and the negative.
#[test]
fn recorded_quantities() {
    let mut compared = 0;
    for line in include_str!("recorded.tsv").lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let (text, expected) = (*columns.first().unwrap(), *columns.get(1).unwrap());
        let quantity = match Quantity::parse(text) {
            Ok(quantity) => quantity,
            Err(error) => {
                let names = [
                    (QuantityError::Format, "!format"),
                    (QuantityError::Numeric, "!numeric"),
                    (QuantityError::Suffix, "!suffix"),
                ];
                let name = names.iter().find(|(known, _)| *known == error).unwrap().1;
                assert_eq!(name, expected, "{text}");
                continue;
            }
        };
        assert_eq!(properties(&quantity), expected, "{text}");
        compared += 1;
        let [other, order, sum, difference, factor, product, negative] = columns.get(2..).unwrap() else {
            continue;
        };
        let other = Quantity::parse(other).unwrap();
        assert_eq!((other.cmp(&quantity) as i32).to_string(), *order, "{line}");
        let changed = |of: &Quantity, change: &dyn Fn(&mut Quantity)| {
            let mut copy = of.clone();
            change(&mut copy);
            properties(&copy)
        };
        let factor: i64 = factor.parse().unwrap();
        assert_eq!(changed(&other, &|q| q.add(&quantity)), *sum, "{line}");
        assert_eq!(changed(&other, &|q| q.sub(&quantity)), *difference, "{line}");
        assert_eq!(changed(&quantity, &|q| q.mul(factor)), *product, "{line}");
        assert_eq!(changed(&quantity, &Quantity::neg), *negative, "{line}");
    }
    assert!(compared > 150);
}

/// Text, value, thousandths, integer, sign, the bits of the float, whether it is a multiple of a thousandth, and the
/// rounded amount.
fn properties(quantity: &Quantity) -> String {
    let integer = quantity.as_i64().map_or("-".to_string(), |integer| integer.to_string());
    let mut rounded = quantity.clone();
    let is_exact = rounded.round_up(-3);
    format!(
        "{quantity} {} {} {integer} {} {:x} {is_exact} {rounded}",
        quantity.value(),
        quantity.milli_value(),
        quantity.sign(),
        quantity.as_f64().to_bits(),
    )
}
