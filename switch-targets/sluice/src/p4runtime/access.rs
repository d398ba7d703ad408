//! Checks whether a client may change the switch (section 12).

use crate::fault::Fault;
use crate::p4runtime::arbitration::ElectionId;
use crate::p4runtime::state::Device;
use crate::proto::p4rt;
use crate::schema::role::Access;

impl Device {
    /// # Errors
    /// `NOT_FOUND` for another device.
    pub fn check_id(&self, device_id: u64) -> Result<(), Fault> {
        match device_id == self.id {
            true => Ok(()),
            false => Err(Fault::not_found(format!(
                "this switch is device {}, not device {device_id}",
                self.id
            ))),
        }
    }

    /// Checks whether a request may change the switch (section 12, in the order that it asks for). Returns the parts that it may change.
    ///
    /// # Errors
    /// `NOT_FOUND` for another device or role, `PERMISSION_DENIED` for a client that is not primary.
    pub fn check_writer(
        &self,
        device_id: u64,
        role: &str,
        election_id: Option<p4rt::Uint128>,
    ) -> Result<Access, Fault> {
        self.check_id(device_id)?;
        let sessions = self.sessions.lock();
        let access = sessions.access(role).ok_or_else(|| unknown_role(role))?;
        let given = election_id.map(election_id_of);
        if sessions.is_primary(role, given) {
            return Ok(access);
        }
        let why = match (sessions.primary_id(role), given) {
            (None, _) => "no client is primary".to_owned(),
            (Some(_), None) => "the request has no election id".to_owned(),
            (Some(ElectionId(primary)), Some(ElectionId(given))) => {
                format!("its election id is {primary}, that of the request {given}")
            }
        };
        Err(Fault::denied(format!(
            "only the primary client may change this switch: {why}"
        )))
    }
}

pub fn unknown_role(role: &str) -> Fault {
    Fault::not_found(format!(
        "role '{role}' is not known: no client has taken it"
    ))
}

/// Clients of P4Runtime before 1.4 have numbers for roles.
pub fn role_name(name: String, id: u64) -> String {
    match name.is_empty() && id != 0 {
        true => id.to_string(),
        false => name,
    }
}

pub fn election_id_of(id: p4rt::Uint128) -> ElectionId {
    ElectionId(u128::from(id.high) << 64 | u128::from(id.low))
}
