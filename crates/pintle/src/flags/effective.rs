//! Every flag with its effective value, in the format of kube-apiserver's flag library: for `/flagz` and for the log.

use super::table::{self, Flag, Type};
use super::{FlagValues, Flags};
use pintle_meta::duration::GoDuration;

impl Flags {
    /// Flags of kube-apiserver by name, and after them those that only Pintle has.
    pub(crate) fn effective(&self) -> (FlagValues, FlagValues) {
        let mut all: Vec<(String, String)> =
            table::flags().map(|flag| (flag.name.to_string(), self.display_value(flag))).collect();
        // Another name of the same flag.
        all.push((super::OLD_BACKOFF.into(), self.text(super::BACKOFF).to_string()));
        all.push(("help".into(), "false".into()));
        let version = Some(self.text("version")).filter(|text| !text.is_empty()).unwrap_or("false");
        all.push(("version".into(), version.to_string()));
        all.sort_unstable();
        all.into_iter().partition(|(name, _)| !table::is_own(name))
    }

    fn display_value(&self, flag: &Flag) -> String {
        let text = self.text(flag.name);
        match flag.type_ {
            Type::Bool if text.is_empty() => "false".into(),
            Type::Int | Type::Float if text.is_empty() => "0".into(),
            Type::Duration if text.is_empty() => "0s".into(),
            Type::Duration => {
                GoDuration::parse(text).map_or_else(|_| text.to_string(), |time| time.to_string())
            }
            Type::List | Type::IntList => format!("[{}]", self.list(flag.name).join(",")),
            Type::Values => format!("[{}]", self.values(flag.name).join(";")),
            Type::Map if flag.name == "feature-gates" => {
                let gates = self.list(flag.name);
                let of_component =
                    |gate: &String| if gate.contains(':') { gate.clone() } else { format!(":{gate}") };
                gates.iter().map(of_component).collect::<Vec<_>>().join(",")
            }
            Type::Map if flag.name == "allow-metric-labels" => {
                format!("[{}]", self.list(flag.name).join(","))
            }
            Type::Map => self.list(flag.name).join(","),
            _ => text.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Invocation, parse};

    #[test]
    fn values_are_written_as_the_library_does() {
        let line = "--authorization-mode=RBAC --shutdown-delay-duration=90s --feature-gates=WatchList=true --data-dir=/d --tls-sni-cert-key=a,b:*.c --tls-sni-cert-key=d,e";
        let Ok(Invocation::Serve(flags)) = parse(line.split(' ').map(str::to_string)) else { panic!() };
        let (all, own) = flags.effective();
        let value = |name: &str| all.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        for (name, want) in [
            ("authorization-mode", "[RBAC]"),
            ("shutdown-delay-duration", "1m30s"),
            ("livez-grace-period", "0s"),
            ("feature-gates", ":WatchList=true"),
            ("anonymous-auth", "true"),
            ("profiling", "true"),
            ("help", "false"),
            ("version", "false"),
            ("goaway-chance", "0"),
            ("allow-metric-labels", "[]"),
            ("audit-webhook-batch-initial-backoff", "10s"),
            ("tls-sni-cert-key", "[a,b:*.c;d,e]"),
        ] {
            assert_eq!(value(name), Some(want), "{name}");
        }
        assert!(own.contains(&("data-dir".into(), "/d".into())));
    }
}
