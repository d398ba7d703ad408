//! Ids and names of a P4Info, none of which may stand for two things (section 6.2).

use std::collections::BTreeSet;

use crate::fault::Fault;
use crate::proto::info::Preamble;

/// What the objects before took.
#[derive(Default)]
pub struct Preambles {
    ids: BTreeSet<u32>,
    names: BTreeSet<(&'static str, String)>,
}

impl Preambles {
    /// The id and the name of the next object of this kind.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an object without them, and when another has the same.
    pub fn take(
        &mut self,
        kind: &'static str,
        preamble: Option<&Preamble>,
    ) -> Result<(u32, String), Fault> {
        let preamble = preamble
            .ok_or_else(|| Fault::invalid(format!("a {kind} of the P4Info has no preamble")))?;
        let Preamble { id, name, .. } = preamble;
        let place = format!("{kind} '{name}'");
        if *id == 0 || !self.ids.insert(*id) {
            return Err(Fault::invalid("id 0, or used twice").at(&place));
        }
        if name.is_empty() || !self.names.insert((kind, name.clone())) {
            return Err(Fault::invalid("it has no name, or another has the same").at(&place));
        }
        Ok((*id, name.clone()))
    }
}

/// Checks the ids of one object's parts: match fields, parameters.
///
/// # Errors
/// `INVALID_ARGUMENT` for the id 0, and for one that two parts have.
pub fn distinct(kind: &str, ids: impl IntoIterator<Item = u32>) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    match ids.into_iter().find(|id| *id == 0 || !seen.insert(*id)) {
        None => Ok(()),
        Some(0) => Err(Fault::invalid(format!("a {kind} has the id 0"))),
        Some(id) => Err(Fault::invalid(format!("two {kind}s have the id {id}"))),
    }
}
