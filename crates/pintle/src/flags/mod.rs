//! The command line: one table of flags, a parser and a help text that derive from it, and typed access to the result.

mod earlier_gates;
mod effective;
mod gate_values;
mod gates;
pub(crate) mod sections;
pub(crate) mod table;
mod values;

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use pintle_http::version::{GIT_VERSION, may_be_called};
use pintle_meta::duration::GoDuration;
use pintle_meta::strconv::parse_bool;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use table::{FLAGS, Flag, Type};
use values::value_parser;

pub(crate) use gate_values::gate_stages;

/// Names of flags with their values.
pub(crate) type FlagValues = Vec<(String, String)>;

/// Flags that kube-apiserver does not have.
pub(crate) const OWN_FLAGS: [&str; 7] = [
    "console",
    "controllers",
    "data-dir",
    "ephemeral",
    "history-retention",
    "stop-with-stdin",
    "watch-history-bytes",
];
/// A flag with a deprecated name.
const BACKOFF: &str = "audit-webhook-initial-backoff";
/// The name of the arguments that are not flags; there must be none.
const OPERANDS: &str = "operands";
const OLD_BACKOFF: &str = "audit-webhook-batch-initial-backoff";

/// The parsed command line: flags of a server, or a text to print.
pub(crate) enum Invocation {
    /// Run the server.
    Serve(Flags),
    /// Print this to stdout and exit.
    Print(String),
}

/// The parsed flags. Names are those of the table.
pub(crate) struct Flags {
    matches: ArgMatches,
}

/// Why a command line is invalid, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct FlagError(String);

impl FlagError {
    pub(crate) fn new(why: &str) -> Self {
        FlagError(why.to_string())
    }

    /// Fails if there are errors. Several ones are printed in brackets, like Go's aggregates.
    pub(crate) fn aggregate(errors: Vec<String>) -> Result<(), FlagError> {
        if errors.is_empty() { Ok(()) } else { Err(FlagError(pintle_auth::aggregate(errors))) }
    }
}

/// Parses a command line without the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Invocation, FlagError> {
    let args: Vec<String> = args.into_iter().map(dashes_for_underscores).collect();
    match clap_command().try_get_matches_from(&args) {
        Ok(matches) => {
            let flags = Flags { matches };
            let operands: Vec<String> = flags.values(OPERANDS);
            if operands.iter().any(|operand| !operand.is_empty()) {
                let operands: Vec<String> = operands.iter().map(|text| format!("{text:?}")).collect();
                let operands = operands.join(" ");
                return Err(FlagError(format!(
                    "\"kube-apiserver\" does not take any arguments, got [{operands}]"
                )));
            }
            crate::flag_checks::check_values(&flags)?;
            flags.gates()?;
            match flags.text("version") {
                "true" | "raw" => Ok(Invocation::Print(format!("Kubernetes {GIT_VERSION}\n"))),
                _ => Ok(Invocation::Serve(flags)),
            }
        }
        Err(e) if e.kind() == clap::error::ErrorKind::DisplayHelp => Ok(Invocation::Print(help())),
        Err(e) if e.kind() == clap::error::ErrorKind::UnknownArgument => Err(unknown_argument(&e, &args)),
        Err(e) if e.kind() == clap::error::ErrorKind::ValueValidation => Err(invalid_value(&e)),
        Err(e) if e.kind() == clap::error::ErrorKind::InvalidValue => Err(missing_value(&e, &args)),
        Err(e) => Err(FlagError(first_line(&e.to_string()))),
    }
}

/// The error for an unknown flag, with the nearest known one.
fn unknown_argument(error: &clap::Error, args: &[String]) -> FlagError {
    let given = match error.get(clap::error::ContextKind::InvalidArg) {
        Some(clap::error::ContextValue::String(given)) => given.as_str(),
        _ => return FlagError(first_line(&error.to_string())),
    };
    match given.strip_prefix("--") {
        Some(name) => {
            let near = crate::commands::nearest_name(name, FLAGS.iter().map(|flag| flag.name));
            let hint =
                near.map_or("pintle help lists them".to_string(), |near| format!("did you mean --{near}?"));
            FlagError(format!("unknown flag: --{name} ({hint})"))
        }
        None => match given.strip_prefix('-').and_then(|rest| rest.chars().next()) {
            Some(letter) => {
                let whole = args.iter().find(|arg| arg.starts_with(given)).map_or(given, String::as_str);
                FlagError(format!("unknown shorthand flag: {letter:?} in {whole}"))
            }
            None => FlagError(format!("unexpected argument {given:?}")),
        },
    }
}

/// The error for an invalid value, with kube-apiserver's message.
fn invalid_value(error: &clap::Error) -> FlagError {
    use clap::error::{ContextKind, ContextValue};
    use std::error::Error;
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let name = text(ContextKind::InvalidArg).split(' ').next().unwrap_or("");
    let name = name.split(['=', '[']).next().unwrap_or(name);
    let why = error.source().map(ToString::to_string).unwrap_or_default();
    // The verbosity is klog's own flag, which has a short name.
    let name = if name == "--v" { "-v, --v" } else { name };
    FlagError(format!("invalid argument {:?} for {name:?} flag: {why}", text(ContextKind::InvalidValue)))
}

/// The error for a flag without its value, which only the last argument can be.
fn missing_value(error: &clap::Error, args: &[String]) -> FlagError {
    match args.last() {
        Some(last) if last.starts_with("--") => FlagError(format!("flag needs an argument: {last}")),
        Some(last) if last == "-v" => FlagError("flag needs an argument: 'v' in -v".to_string()),
        _ => FlagError(first_line(&error.to_string())),
    }
}

impl Flags {
    /// The text of a flag; "" if unset.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.matches.get_one::<String>(name).map_or("", String::as_str)
    }

    /// Whether a boolean flag is set to true.
    pub(crate) fn bool(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// The number of a flag; 0 if unset.
    pub(crate) fn int(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// The duration of a flag; zero if unset or negative.
    pub(crate) fn duration(&self, name: &str) -> Duration {
        go_duration(self.text(name)).unwrap_or(Duration::ZERO)
    }

    /// The duration of a flag, which may be below zero.
    pub(crate) fn signed_duration(&self, name: &str) -> GoDuration {
        GoDuration::parse(self.text(name)).unwrap_or_default()
    }

    /// The value of a flag as an IP address.
    pub(crate) fn ip(&self, name: &str) -> Option<IpAddr> {
        self.text(name).parse().ok()
    }

    /// The items of a list flag, including blank ones.
    pub(crate) fn raw_list(&self, name: &str) -> Vec<String> {
        let values = self.matches.get_many::<String>(name).into_iter().flatten();
        values.filter(|v| !v.is_empty()).flat_map(|v| v.split(',')).map(str::to_string).collect()
    }

    /// The items of a list flag, in order.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let values = self.matches.get_many::<String>(name).into_iter().flatten();
        values
            .flat_map(|v| v.split(','))
            .map(str::trim)
            .filter(|s| !s.is_empty())
            .map(str::to_string)
            .collect()
    }

    /// The values of a flag that may be repeated, each as it was given.
    pub(crate) fn values(&self, name: &str) -> Vec<String> {
        self.matches.get_many::<String>(name).into_iter().flatten().cloned().collect()
    }

    /// The entries of a map flag; a key alone has the value `true`.
    pub(crate) fn map(&self, name: &str) -> BTreeMap<String, String> {
        let entry = |item: String| match item.split_once('=') {
            Some((key, value)) => (key.trim().to_string(), value.trim().to_string()),
            None => (item, "true".to_string()),
        };
        self.list(name).into_iter().map(entry).collect()
    }

    /// Returns whether a flag was given rather than defaulted.
    pub(crate) fn given(&self, name: &str) -> bool {
        self.matches.value_source(name) == Some(ValueSource::CommandLine)
    }

    /// The given flags without effect.
    pub(crate) fn without_effect(&self) -> Vec<&'static str> {
        let given = FLAGS.iter().filter(|flag| flag.help.is_none() && self.given(flag.name));
        given.map(|flag| flag.name).collect()
    }
}

fn clap_command() -> Command {
    let version = Arg::new("version").long("version").num_args(0..=1).require_equals(true);
    let version = version.default_missing_value("true").value_parser(version_parser());
    let mut command = Command::new("pintle").no_binary_name(true).disable_version_flag(true).arg(version);
    for flag in FLAGS {
        command = command.arg(clap_argument(flag));
    }
    command.arg(Arg::new(OPERANDS).num_args(0..))
}

fn clap_argument(flag: &'static Flag) -> Arg {
    let mut arg = Arg::new(flag.name)
        .long(flag.name)
        .value_parser(value_parser(flag))
        .allow_hyphen_values(true)
        .overrides_with(flag.name);
    if flag.name == "v" {
        arg = arg.short('v');
    }
    if matches!(flag.type_, Type::List | Type::Map | Type::IntList | Type::Values) {
        arg = Arg::new(flag.name)
            .long(flag.name)
            .value_parser(value_parser(flag))
            .allow_hyphen_values(true)
            .action(ArgAction::Append);
    }
    if flag.type_ == Type::Bool {
        arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
    } else {
        arg = arg.num_args(1);
    }
    if flag.default.is_empty() { arg } else { arg.default_value(flag.default) }
}

/// `--version` and `--version=raw` print the version, `--version=v1.2.3-own` sets the version that the server reports.
fn version_parser() -> ValueParser {
    ValueParser::new(|text: &str| match (text, parse_bool(text)) {
        ("raw", _) => Ok(text.to_string()),
        (_, Some(value)) => Ok(value.to_string()),
        _ if may_be_called(text) => Ok(text.to_string()),
        _ => Err(format!("it must match major/minor/patch of default version {GIT_VERSION:?}")),
    })
}

/// A Go duration that is not negative.
fn go_duration(text: &str) -> Option<Duration> {
    let nanos = GoDuration::parse(text).ok()?.0;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

/// Accepts `--secure_port` for `--secure-port`, as kube-apiserver does.
fn dashes_for_underscores(arg: String) -> String {
    let Some(rest) = arg.strip_prefix("--") else { return arg };
    let (name, value) = rest.split_once('=').map_or((rest, None), |(name, value)| (name, Some(value)));
    let name = name.replace('_', "-");
    let name = if name == OLD_BACKOFF { BACKOFF } else { &name };
    value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}"))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or("bad command line").trim_start_matches("error: ").to_string()
}

/// The text of `--help`.
pub(crate) fn help() -> String {
    let mut out = String::from(
        "The Kubernetes API server in one binary.\n\nUsage:\n  pintle [serve] [flags]\n  pintle COMMAND [flags]\n\nCommands:\n",
    );
    for command in crate::commands::SUBCOMMANDS {
        out.push_str(&format!("  {:<12} {}\n", command.name, command.summary));
    }
    out.push_str("\npintle COMMAND --help says more about one. The flags of serve:\n");
    for section in sections::SECTIONS {
        out.push_str(&format!("\n{} flags:\n\n", section.name));
        section.flags().into_iter().for_each(|flag| push_flag(&mut out, flag));
    }
    out.push_str(
        "\nGlobal flags:\n\n  -h, --help                                               Print this\n      --version version[=raw|vX.Y.Z-name]                  Print the version and leave, or what the server calls itself\n",
    );
    out
}

fn push_flag(out: &mut String, flag: &Flag) {
    use std::fmt::Write;
    let short = if flag.name == "v" { "  -v, " } else { "      " };
    let head = format!("{short}--{} {}", flag.name, flag.type_.name());
    _ = write!(out, "{head:<56} {}", flag.text());
    if !flag.default.is_empty() {
        _ = write!(out, " (default {})", flag.default);
    }
    let end = out.trim_end().len();
    out.truncate(end);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(line: &str) -> Result<Flags, String> {
        match parse(line.split_whitespace().map(str::to_string)) {
            Ok(Invocation::Serve(flags)) => Ok(flags),
            Ok(Invocation::Print(text)) => Err(text),
            Err(e) => Err(e.to_string()),
        }
    }

    #[test]
    fn forms_of_values() {
        let f = flags("--secure-port=0 --anonymous-auth=false --allow-privileged --authorization-mode Node,RBAC --authorization-mode=Webhook -v=3 --request_timeout 1m5s").unwrap();
        assert_eq!(f.int("secure-port"), 0);
        assert!(!f.bool("anonymous-auth"));
        assert!(f.bool("allow-privileged"));
        assert_eq!(f.list("authorization-mode"), ["Node", "RBAC", "Webhook"]);
        assert_eq!(f.int("v"), 3);
        assert_eq!(f.duration("request-timeout"), Duration::from_secs(65));
        assert_eq!(f.text("bind-address"), "127.0.0.1");
        assert_eq!(flags("--watch-cache=false --etcd-prefix=/x").unwrap().without_effect(), ["watch-cache"]);
    }

    #[test]
    fn bad_values_are_refused_in_one_line() {
        for line in [
            "--nope",
            "--secure-port=x",
            "--bind-address=localhost",
            "--request-timeout=5",
            "--anonymous-auth=maybe",
            "--feature-gates=Nope=true",
            "--feature-gates=BtreeWatchCache=false",
            "extra",
        ] {
            let error = flags(line).err().unwrap_or_default();
            assert!(!error.is_empty() && !error.contains('\n'), "{line}: {error}");
        }
    }

    #[test]
    fn faults_of_values_have_kube_apiservers_words() {
        for (line, want) in [
            ("--secure-port", "flag needs an argument: --secure-port"),
            ("--anonymous-auth --oidc-ca-file", "flag needs an argument: --oidc-ca-file"),
            ("-v", "flag needs an argument: 'v' in -v"),
            (
                "--secure-port=99999999999999999999",
                "invalid argument \"99999999999999999999\" for \"--secure-port\" flag: strconv.ParseInt: parsing \
                 \"99999999999999999999\": value out of range",
            ),
            (
                "--v=-1",
                "invalid argument \"-1\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"-1\": invalid syntax",
            ),
            (
                "--tls-curve-preferences=a",
                "invalid argument \"a\" for \"--tls-curve-preferences\" flag: strconv.ParseInt: parsing \"a\": invalid \
                 syntax",
            ),
            (
                "--event-ttl=99999999999999999999",
                "invalid argument \"99999999999999999999\" for \"--event-ttl\" flag: time: invalid duration \
                 \"99999999999999999999\"",
            ),
            (
                "--feature-gates=Nope=maybe",
                "invalid value of Nope=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                "--feature-gates=WatchList=true,kube:APIServerIdentity=true",
                "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
            ),
            ("--emulated-version=1", "illegal version string \"1\""),
            ("--emulated-version=x=y", "could not parse \"y\" as version"),
            ("--emulated-version=x=1.35", "component not registered: x"),
            (
                "--min-compatibility-version=01.35",
                "illegal zero-prefixed version component \"01\" in \"01.35\"",
            ),
        ] {
            assert_eq!(flags(line).err().as_deref(), Some(want), "{line}");
        }
        assert_eq!(
            flags("--secure-port=0x1F90 --emulated-version=v1.35-beta").unwrap().int("secure-port"),
            8080
        );
    }

    #[test]
    fn gates_need_the_gates_that_they_depend_on() {
        assert!(flags("--feature-gates=GenericWorkload=true,GangScheduling=true").is_ok());
        let why = "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]";
        assert!(flags("--feature-gates=GangScheduling=true").err().unwrap().contains(why));
    }

    #[test]
    fn gates_follow_their_stage_and_the_command_line() {
        let gates = flags("--feature-gates=kube:CBORServingAndStorage=true,kube:WatchList=false")
            .unwrap()
            .gates()
            .unwrap();
        assert_eq!(gates.get("CBORServingAndStorage"), Some(&true));
        assert_eq!(gates.get("WatchList"), Some(&false));
        assert_eq!(gates.get("BtreeWatchCache"), Some(&true));
        let gates = flags("--feature-gates=AllAlpha=true").unwrap().gates().unwrap();
        assert_eq!(gates.get("CBORServingAndStorage"), Some(&true));
    }

    #[test]
    fn help_and_version_are_printed() {
        let help = flags("--help").err().unwrap();
        assert!(help.contains("--data-dir string"));
        let names = ["Pintle", "Generic", "Etcd", "Secure serving", "Auditing", "Misc", "Global"];
        let places: Vec<usize> =
            names.iter().map(|name| help.find(&format!("\n{name} flags:\n\n")).unwrap()).collect();
        assert!(places.is_sorted(), "{help}");
        assert_eq!(flags("--version").err().unwrap(), "Kubernetes v1.36.4\n");
        assert_eq!(flags("--version=v1.36.4-own").unwrap().text("version"), "v1.36.4-own");
        for wrong in ["--version=v1.35.0", "--version=v1.36.4x", "--version=v1.36.4-\""] {
            assert!(flags(wrong).err().unwrap().contains("default version"), "{wrong}");
        }
    }
}
