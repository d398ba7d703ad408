//! Action profiles, and the tables that take their actions from one.

use std::collections::HashMap;

use crate::error::LoadError;
use crate::ir::{Indirect, Ir};
use crate::load::action::Actions;
use crate::load::expr::Context;
use crate::load::json::Node;
use crate::load::objects;
use crate::spec::{ActionId, ProfileSpec};

#[derive(Debug, Default)]
pub struct Profiles {
    pub specs: Vec<ProfileSpec>,
    by_name: HashMap<String, usize>,
}

impl Profiles {
    /// Loads the profiles of one pipeline.
    pub fn load(
        &mut self,
        pipeline: &Node,
        context: Context,
        ir: &mut Ir,
    ) -> Result<(), LoadError> {
        for node in pipeline.list("action_profiles")? {
            let name = node.get("name")?.str()?.to_owned();
            let selector = match node.find("selector") {
                Some(selector) => {
                    ir.calculations
                        .push(objects::calculation(&selector, &context)?);
                    Some(ir.calculations.len() - 1)
                }
                None => None,
            };
            self.by_name.insert(name.clone(), self.specs.len());
            self.specs.push(ProfileSpec {
                name,
                size: node.get("max_size")?.number(u64::from(u32::MAX))?,
                has_selector: selector.is_some(),
                actions: Vec::new(),
            });
            ir.selectors.push(selector);
        }
        Ok(())
    }

    /// The actions that a table takes from the profile that it names, if it names one.
    pub fn of_table(
        &mut self,
        node: &Node,
        listed: &[usize],
        actions: &Actions,
    ) -> Result<Option<Indirect>, LoadError> {
        let kind = node.find("type").map_or(Ok("simple"), |kind| kind.str())?;
        if kind == "simple" {
            return Ok(None);
        }
        let name = node.get("action_profile")?;
        let profile = *self
            .by_name
            .get(name.str()?)
            .ok_or_else(|| name.error("no such action profile"))?;
        let spec = &mut self.specs[profile];
        match (kind, spec.has_selector) {
            ("indirect", false) | ("indirect_ws", true) => {}
            ("indirect" | "indirect_ws", _) => {
                return Err(name.error(format!("does not go with table type {kind}")));
            }
            _ => return Err(node.error(format!("table type {kind} is not supported"))),
        }
        if spec.actions.is_empty() {
            spec.actions = listed.iter().copied().map(ActionId).collect();
        }
        // p4c repeats an action for each table that uses it.
        let same = |shared: &ActionId| {
            let shared_spec = &actions.specs[shared.0];
            let own = listed.iter().copied();
            own.map(|own| (shared.0, own))
                .find(|(_, own)| actions.specs[*own] == *shared_spec)
        };
        let pairs: Option<Vec<_>> = spec.actions.iter().map(same).collect();
        match pairs.filter(|pairs| pairs.len() == listed.len()) {
            Some(actions) => Ok(Some(Indirect { profile, actions })),
            None => Err(name.error("the tables that share it have other actions than this one")),
        }
    }
}
