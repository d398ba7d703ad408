//! Ids and names that other parts of the JSON refer to: none stands for two things.

use std::collections::HashSet;

use super::json::Node;
use crate::error::LoadError;

const LISTS: [(&str, &[&str]); 16] = [
    ("header_types", &["name"]),
    ("header_union_types", &["name"]),
    ("headers", &["id", "name"]),
    ("header_stacks", &["id", "name"]),
    ("header_unions", &["id", "name"]),
    ("header_union_stacks", &["id", "name"]),
    ("parse_vsets", &["name"]),
    ("field_lists", &["id"]),
    ("learn_lists", &["id"]),
    ("calculations", &["name"]),
    ("counter_arrays", &["name"]),
    ("meter_arrays", &["name"]),
    ("register_arrays", &["name"]),
    ("extern_instances", &["name"]),
    ("actions", &["id"]),
    ("pipelines", &["name"]),
];

pub fn check(root: &Node) -> Result<(), LoadError> {
    for (list, keys) in LISTS {
        for key in keys {
            distinct(root.list(list)?, key, &mut HashSet::new())?;
        }
    }
    for pipeline in root.list("pipelines")? {
        // One is the other's next step.
        let mut steps = HashSet::new();
        distinct(pipeline.list("tables")?, "name", &mut steps)?;
        distinct(pipeline.list("conditionals")?, "name", &mut steps)?;
        distinct(
            pipeline.list("action_profiles")?,
            "name",
            &mut HashSet::new(),
        )?;
    }
    for parser in root.list("parsers")? {
        distinct(parser.list("parse_states")?, "name", &mut HashSet::new())?;
    }
    Ok(())
}

fn distinct(nodes: Vec<Node>, key: &str, seen: &mut HashSet<String>) -> Result<(), LoadError> {
    for node in nodes {
        let value = node.get(key)?;
        if !seen.insert(value.shown()) {
            return Err(value.error(format!("another one has the same {key}")));
        }
    }
    Ok(())
}
