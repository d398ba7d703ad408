//! `culvert-gateway renew`: a new certificate for the same key. The switch reads the replaced file within seconds.

use serde_json::json;

use crate::certificate::{GatewayKey, dates};
use crate::clock;
use crate::controller::field;
use crate::fault::Outcome;
use crate::host::{CERTIFICATE, CONTROLLER_CA, Host, Joined, KEY};
use crate::leave::{controller_of, no_key};

/// Renews after two thirds of the certificate's time, or at once with `now`. Returns whether it was renewed.
pub fn renew(host: &Host, joined: &Joined, now: bool) -> Outcome<bool> {
    let name = &joined.gateway;
    let (from, until) = dates(&host.read_key(name, CERTIFICATE)?).ok_or_else(no_key)?;
    if !now && clock::now() < from + (until - from) / 3 * 2 {
        return Ok(false);
    }
    let owner = host.owner()?;
    let key = GatewayKey::parse(&host.read_key(name, KEY)?).ok_or_else(no_key)?;
    let request = key.request().ok_or_else(no_key)?;
    let answer = controller_of(host, joined)?
        .post("gateway-renewals", &json!({"csr_pem": request}))?
        .done()?;
    let (certificate, ca) = (
        field(&answer, "certificate_pem")?,
        field(&answer, "ca_pem")?,
    );
    host.write_key(name, CONTROLLER_CA, ca.as_bytes(), owner)?;
    host.write_key(name, CERTIFICATE, certificate.as_bytes(), owner)?;
    Ok(true)
}
