//! Random expressions: compiling and evaluating them ends without a panic and within the budget. `CEL_FUZZ_ROUNDS` and
//! `CEL_FUZZ_SEED` set the number and the seed.

#![expect(clippy::indexing_slicing, reason = "a failed index is a failed test")]

use pintle_cel::env::Env;
use pintle_cel::types::Type;
use pintle_cel::value::Value;

const ROUNDS: u64 = 1_000;
const SEED: u64 = 0x5eed_cafe_f00d_1234;
const BUDGET: u64 = 20_000;
const STACK_BYTES: usize = 8 << 20;

const SEEDS: [&str; 24] = [
    "self.a <= self.b && self['c'] == 'x'",
    "self.list.all(x, x > 0 && x % 3 != 1)",
    "self.list.exists_one(i, i in [1, 2, 3]) ? 1 : -9223372036854775808",
    "self.list.map(x, [x, x]).filter(y, size(y) == 2)",
    "has(self.a.b) || !has(self.c)",
    "{'a': 1, ?'b': self.?x}.transformMap(k, v, v * 9223372036854775807)",
    "timestamp('9999-12-31T23:59:59Z') + duration('9223372036s')",
    "duration('-2562047h47m16s') - duration('1h')",
    "timestamp(0).getHours('America/New_York') + timestamp(-1).getDayOfWeek('-24:00')",
    "'áé\\u{1F600}'.substring(1, 2).charAt(0).indexOf('\\x41')",
    "'%s %d %.3f %x'.format(['a', 1, 1.5, b'z'])",
    "text.matches('^(a|b)*[^c-d]\\\\d{2,3}$')",
    "text.find('[a-z]+').lowerAscii().replace('a', 'bb', 3).split('')",
    "quantity('10.5Gi').add(quantity('1e3')).compareTo(quantity('0')) == 1",
    "ip('::ffff:1.2.3.4').family() == 4 || cidr('10.0.0.0/8').containsIP('10.1.1.1')",
    "url('https://a:1/b?c=d#e').getQuery()",
    "semver('1.2.3-rc.1+b').isLessThan(semver('1.2.3'))",
    "sets.intersects([1, 2u, 3.0], [dyn('x')])",
    "[3, 1, 2].sort().slice(0, 2).flatten()",
    "optional.of(self).?a.orValue(optional.none()).hasValue()",
    "type(type(1)) == type && string(1.0 / 0.0) != double('NaN')",
    "bytes('abc') + b'\\377' < b'\\x00'",
    "format.named('dns1123Label').value().validate(text)",
    "[[1], [2, 3]].all(x, x.exists(y, y == 1 || 1 / 0 == y))",
];

const PIECES: [&str; 40] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    "?",
    ":",
    "'",
    "\"",
    "`",
    "\\",
    "&&",
    "||",
    "!",
    "-",
    "--",
    "==",
    "in ",
    " ",
    "0",
    "18446744073709551615u",
    "-9223372036854775808",
    "1e308",
    "x",
    "self",
    "list",
    ".map(x, ",
    ".all(x, ",
    "has(",
    "b'",
    "r'",
    "\u{0}",
    "é",
    "[?",
    ".?",
    "null",
    "true",
];

/// A small seeded random generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn mutated(dice: &mut Dice) -> String {
    let mut chars: Vec<char> = SEEDS[dice.roll(SEEDS.len())].chars().collect();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(chars.len() + 1);
        match dice.roll(5) {
            0 if at < chars.len() => drop(chars.remove(at)),
            1 => drop(chars.splice(at..at, PIECES[dice.roll(PIECES.len())].chars())),
            2 => {
                let from = dice.roll(chars.len() + 1).min(at);
                let part: Vec<char> = chars[from..at].to_vec();
                drop(chars.splice(at..at, part));
            }
            3 => {
                let other: Vec<char> = SEEDS[dice.roll(SEEDS.len())].chars().collect();
                let from = dice.roll(other.len() + 1);
                drop(chars.splice(at..at, other[from..].iter().copied()));
            }
            _ => {
                let end = (at + dice.roll(8)).min(chars.len());
                drop(chars.drain(at..end));
            }
        }
    }
    chars.into_iter().collect()
}

#[test]
fn nothing_panics() {
    let env = Env::kubernetes().with_variable("self", Type::Dyn).with_variable("text", Type::String);
    let list = Value::list((0..20).map(Value::Int).collect());
    let this = Value::map(vec![
        ("a".into(), Value::Int(1)),
        ("b".into(), Value::Double(2.5)),
        ("list".into(), list),
    ]);
    let variables = [("self", this), ("text", "abcab12".into())];
    let rounds = number("CEL_FUZZ_ROUNDS", ROUNDS);
    let mut dice = Dice(number("CEL_FUZZ_SEED", SEED));
    let (mut compiled, mut ran) = (0, 0);
    for round in 0..rounds {
        let seed = SEEDS.get(round as usize).map(|seed| (*seed).to_owned());
        let text = seed.unwrap_or_else(|| mutated(&mut dice));
        // An expression that does not compile may still be evaluated unchecked.
        let program = match env.compile(&text) {
            Ok(checked) => {
                compiled += 1;
                checked.plan()
            }
            Err(issues) => {
                assert!(!issues.to_string().is_empty());
                match env.parse(&text) {
                    Ok(ast) => env.plan_unchecked(&ast),
                    Err(_) => continue,
                }
            }
        };
        if let Ok(program) = program {
            let evaluation = program.eval(&variables, Some(BUDGET));
            ran += 1;
            if let Ok(value) = evaluation.result {
                assert!(evaluation.cost <= BUDGET, "{text}");
                assert!(value.to_string().len() < 1 << 20, "{text}");
            }
        }
    }
    assert!(compiled > rounds / 20 && ran > compiled, "{compiled} compiled, {ran} ran");
}

#[test]
fn deep_and_wide_expressions_end() {
    let env = Env::kubernetes().with_variable("x", Type::Int);
    let deep =
        |open: &str, close: &str, count: usize| format!("{}x{}", open.repeat(count), close.repeat(count));
    let texts = [
        deep("(", ")", 10_000),
        deep("[", "]", 10_000),
        deep("!", "", 10_000),
        deep("-", "", 10_000),
        format!("x{}", " + x".repeat(20_000)),
        format!("x == 1{}", " || x == 1".repeat(8_000)),
        format!("true{}", " && true".repeat(10_000)),
        format!("x{}", ".y".repeat(20_000)),
        format!("x{}", "[0]".repeat(20_000)),
        format!("{}1{}", "true ? ".repeat(5_000), " : 1".repeat(5_000)),
        format!("[{}]", "1,".repeat(30_000)),
        deep("[1].map(x, ", ")", 2_000),
        deep("[1].all(x, x == ", ")", 300),
        deep("cel.bind(y, ", ", y)", 300),
        // It is a number or a negation until the whole member is parsed, which has an error at its end.
        format!("-1['a'{} true1]", " + 1".repeat(300)),
        format!("-1[{}", "-1[".repeat(300)),
        format!("f(-922337{}", "[".repeat(4_000)),
    ];
    // The stack size of the server's threads; unoptimized code takes a lot of it.
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let work = move || texts.iter().for_each(|text| compile_and_run(&env, text));
    thread.spawn(work).unwrap().join().unwrap();
}

fn compile_and_run(env: &Env, text: &str) {
    match env.compile(text) {
        Ok(checked) => {
            if let Ok(program) = checked.plan() {
                let _ = program.eval(&[("x", Value::Int(1))], Some(1_000_000));
            }
        }
        Err(issues) => assert!(!issues.to_string().is_empty()),
    }
}
