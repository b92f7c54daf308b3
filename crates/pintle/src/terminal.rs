//! Colours, for terminals only.

use std::io::IsTerminal;

/// A colour of a terminal.
#[derive(Clone, Copy)]
pub(crate) enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// Whether to print colours: stdout is a terminal, and `NO_COLOR` is not set.
pub(crate) fn has_colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// The text in a colour, or unchanged.
pub(crate) fn paint(text: &str, colour: Colour, coloured: bool) -> String {
    if coloured { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_where_they_are_wanted() {
        assert_eq!(paint("x", Colour::Red, true), "\x1b[31mx\x1b[0m");
        assert_eq!(paint("x", Colour::Red, false), "x");
    }
}
