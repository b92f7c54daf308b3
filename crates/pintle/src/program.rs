//! The program that the binary was started as. The name of the file decides, so that links to it can replace other
//! programs.

use std::path::Path;

/// A program that the binary can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// Pintle with its commands, under any other file name.
    Pintle,
    /// kube-apiserver: without the controllers of kube-controller-manager and without files of its own.
    KubeApiserver,
    /// The stand-in for etcd that test frameworks start beside a kube-apiserver.
    Etcd,
}

impl Program {
    /// The program that this process was started as.
    pub(crate) fn current() -> Program {
        std::env::args_os().next().map_or(Program::Pintle, |name| Program::program_named(Path::new(&name)))
    }

    fn program_named(path: &Path) -> Program {
        match path.file_name().and_then(|name| name.to_str()) {
            Some("kube-apiserver") => Program::KubeApiserver,
            Some("etcd") => Program::Etcd,
            _ => Program::Pintle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_file_decides() {
        for (path, want) in [
            ("/assets/kube-apiserver", Program::KubeApiserver),
            ("etcd", Program::Etcd),
            ("/etcd/pintle", Program::Pintle),
            ("etcdctl", Program::Pintle),
            ("", Program::Pintle),
        ] {
            assert_eq!(Program::program_named(Path::new(path)), want, "{path}");
        }
    }
}
