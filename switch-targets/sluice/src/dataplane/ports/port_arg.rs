//! A port as the command line names it.

use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortArg {
    pub number: u16,
    pub interface: String,
    /// Through AF_XDP rather than a packet socket.
    pub xdp: bool,
}

/// The highest port number; 511 means drop in v1model.
pub const MAX_PORT: u16 = 510;
/// IFNAMSIZ without its final zero.
const MAX_INTERFACE: usize = 15;

impl FromStr for PortArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, interface) = text
            .split_once('=')
            .ok_or("must be NUMBER=INTERFACE, for example 1=wan")?;
        let (interface, xdp) = match interface.split_once(',') {
            Some((interface, "xdp")) => (interface, true),
            Some((_, way)) => return Err(format!("xdp may stand behind the comma, not {way}")),
            None => (interface, false),
        };
        Self::new(number, interface, xdp)
    }
}

impl PortArg {
    /// # Errors
    /// A text for the user.
    pub fn new(number: &str, interface: &str, xdp: bool) -> Result<Self, String> {
        let number = number.parse().ok().filter(|number| *number <= MAX_PORT);
        let number = number.ok_or_else(|| format!("the port number must be 0 to {MAX_PORT}"))?;
        if interface.is_empty() || interface.len() > MAX_INTERFACE {
            return Err(format!(
                "an interface name has 1 to {MAX_INTERFACE} characters"
            ));
        }
        Ok(Self {
            number,
            interface: interface.to_owned(),
            xdp,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ports_parse_or_say_why_not() {
        for (text, number, xdp) in [("0=lan", 0, false), ("510=lan,xdp", 510, true)] {
            let port = PortArg {
                number,
                interface: "lan".into(),
                xdp,
            };
            assert_eq!(text.parse(), Ok(port));
        }
        for (text, reason) in [
            ("wan", "NUMBER=INTERFACE"),
            ("-1=wan", "0 to 510"),
            ("511=wan", "0 to 510"),
            ("x=wan", "0 to 510"),
            ("1=", "1 to 15 characters"),
            ("1=wan,xpd", "not xpd"),
            ("1=sixteen-letters-", "1 to 15 characters"),
        ] {
            let error = text.parse::<PortArg>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
