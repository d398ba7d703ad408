//! The link of the console's wizard: `https://NAME:PORT/join#TOKEN.FINGERPRINT`.
//!
//! TOKEN is 20 bytes in base32 and FINGERPRINT the SHA-256 of the controller's CA certificate in base64url, without padding.
//! A fragment is no part of a request, so no proxy's log has it.

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use zeroize::Zeroizing;

use crate::fault::{Fault, Outcome};

pub const TOKEN_LEN: usize = 20;
const PORT: u16 = 443;

/// A controller's REST port. `host` is a name or an address, IPv6 without brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub host: String,
    pub port: u16,
}

impl Place {
    /// Reads `https://HOST[:PORT]`, with or without a path.
    pub fn parse(url: &str) -> Option<Self> {
        let authority = url.strip_prefix("https://")?.split(['/', '?']).next()?;
        let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
            let (host, after) = rest.split_once(']')?;
            (host, after.strip_prefix(':'))
        } else if let Some((host, port)) = authority.rsplit_once(':') {
            (host, Some(port))
        } else {
            (authority, None)
        };
        let port = port.map_or(Some(PORT), |text| text.parse().ok().filter(|it| *it != 0))?;
        let good = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_' | ':');
        (!host.is_empty() && host.chars().all(good)).then(|| Self {
            host: host.to_owned(),
            port,
        })
    }

    /// The URL's authority, as in a Host header.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

pub struct Link {
    pub place: Place,
    /// The token as it is sent.
    pub token: Zeroizing<String>,
    pub token_bytes: Zeroizing<[u8; TOKEN_LEN]>,
    pub fingerprint: [u8; 32],
}

impl Link {
    pub fn parse(text: &str) -> Outcome<Self> {
        Self::read(text.trim()).ok_or_else(|| {
            Fault::new(
                "This is not a whole link of a gateway: https://NAME:PORT/join#TOKEN.FINGERPRINT.",
                "Copy the line from the console again, with the link in quotation marks: a shell takes # for a comment after a space.",
            )
        })
    }

    fn read(text: &str) -> Option<Self> {
        let (url, fragment) = text.split_once('#')?;
        let place = Place::parse(url)?;
        if url.strip_suffix("/join")? != format!("https://{}", url.split('/').nth(2)?) {
            return None;
        }
        let (token, fingerprint) = fragment.split_once('.')?;
        let bytes = Zeroizing::new(
            BASE32_NOPAD
                .decode(token.to_ascii_uppercase().as_bytes())
                .ok()?,
        );
        Some(Self {
            place,
            token: Zeroizing::new(token.to_owned()),
            token_bytes: Zeroizing::new(bytes.as_slice().try_into().ok()?),
            fingerprint: BASE64URL_NOPAD
                .decode(fingerprint.as_bytes())
                .ok()?
                .try_into()
                .ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "https://vpn.example.org:8443/join#lgc6c5jmpstmvzlnluppfwcbfmula5uo.47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";

    #[test]
    fn a_whole_link_is_read() {
        let link = Link::parse(GOOD).ok();
        let place = link.as_ref().map(|it| it.place.clone());
        assert_eq!(
            place,
            Some(Place {
                host: "vpn.example.org".to_owned(),
                port: 8443
            })
        );
        assert_eq!(link.map(|it| it.fingerprint[0]), Some(0xe3));
    }

    #[test]
    fn an_ipv6_address_stands_in_brackets() {
        let place = Place::parse("https://[2001:db8::1]:8443/x");
        assert_eq!(
            place.as_ref().map(Place::authority).as_deref(),
            Some("[2001:db8::1]:8443")
        );
    }

    #[test]
    fn an_altered_link_is_refused() {
        for cut in 1..GOOD.len() {
            assert!(Link::parse(&GOOD[..cut]).is_err(), "{cut}");
        }
        for other in [
            GOOD.replace("https", "http"),
            GOOD.replace("/join", "/other"),
            GOOD.replace("lgc6", "lg!6"),
            GOOD.replace(':', ""),
            GOOD.replace("vpn", "v p n"),
        ] {
            assert!(Link::parse(&other).is_err(), "{other}");
        }
    }
}
