//! The loader: bmv2 JSON to [`Ir`] and to the description that a control plane needs.
//!
//! ```text
//!  header_types, headers, stacks, unions ─► layout ─┐
//!  counters, registers, calculations, …  ─► objects ┼─► expressions ─► actions ─► parser, pipelines, checksums
//! ```

mod action;
mod branch;
mod control;
mod entry;
mod expr;
mod json;
mod labels;
mod layout;
mod number;
#[cfg(test)]
mod number_tests;
mod objects;
mod parser;
mod profile;
mod range;
mod reference;

use std::collections::HashSet;

use crate::cond::Cond;
use crate::entry::Entry;
use crate::error::LoadError;
use crate::ir::{Checksum, Ir};
use crate::load::expr::Context;
use crate::load::json::Node;
pub use labels::{Label, Labels};

use crate::spec::{ActionSpec, CounterSpec, DigestSpec, MeterSpec, ProfileSpec, TableSpec};

/// The major version of the format, and all that is known of its minors is compatible.
const FORMAT: u64 = 2;

#[derive(Debug)]
pub struct Loaded {
    pub ir: Ir,
    pub tables: Vec<TableSpec>,
    pub actions: Vec<ActionSpec>,
    pub counters: Vec<CounterSpec>,
    pub digests: Vec<DigestSpec>,
    pub meters: Vec<MeterSpec>,
    pub profiles: Vec<ProfileSpec>,
    /// The entries that the program fixes, for each table.
    pub entries: Vec<Vec<Entry>>,
    pub labels: Labels,
}

pub fn load(json: &[u8]) -> Result<Loaded, LoadError> {
    let value: serde_json::Value = serde_json::from_slice(json).map_err(|error| LoadError {
        place: "JSON".to_owned(),
        cause: error.to_string(),
    })?;
    let root = Node::root(&value);
    let version = root.find("__meta__").and_then(|meta| meta.find("version"));
    if let Some(version) = version {
        let [major, _] = version.tuple::<2>()?;
        if major.number(u64::MAX)? != FORMAT {
            return Err(version.error(format!("expected format version {FORMAT}")));
        }
    }
    check_distinct(&root)?;
    let names = layout::load(&root)?;
    let context = Context {
        names: &names,
        params: &[],
    };
    let mut ir = Ir::default();
    let objects = objects::load(&root, &context, &mut ir)?;
    let actions = action::load(&root, &names, &objects, &mut ir)?;
    parser::load(&root, context, &objects, &mut ir)?;
    let tables = control::load(&root, context, &objects, &actions, &mut ir)?;
    checksums(&root, context, &objects, &mut ir)?;
    deparser(&root, context, &mut ir)?;
    ir.layout = names.layout;
    let (counters, digests) = (objects.counter_specs, objects.digest_specs);
    let meters = objects.meters.specs;
    Ok(Loaded {
        ir,
        tables: tables.specs,
        actions: actions.specs,
        counters,
        digests,
        meters,
        profiles: tables.profiles.specs,
        entries: tables.entries,
        labels: labels::load(&root)?,
    })
}

fn checksums(
    root: &Node,
    context: Context,
    objects: &objects::Objects,
    ir: &mut Ir,
) -> Result<(), LoadError> {
    for node in root.list("checksums")? {
        let calculation = node.get("calculation")?;
        let found = objects.calculations.get(calculation.str()?).copied();
        let flag = |key: &str| node.find(key).map_or(Ok(true), |flag| flag.bool());
        for (wanted, list) in [
            (flag("verify")?, &mut ir.verify),
            (flag("update")?, &mut ir.update),
        ] {
            if wanted {
                list.push(Checksum {
                    calculation: found.ok_or_else(|| calculation.error("no such calculation"))?,
                    target: context.place(&node.get("target")?)?,
                    cond: node
                        .find("if_cond")
                        .map_or(Ok(Cond::Const(true)), |cond| context.cond(&cond))?,
                });
            }
        }
    }
    Ok(())
}

fn deparser(root: &Node, context: Context, ir: &mut Ir) -> Result<(), LoadError> {
    let deparsers = root.get("deparsers")?;
    let nodes = deparsers.items()?;
    let [node] = nodes.as_slice() else {
        return Err(deparsers.error("expected one deparser"));
    };
    if let Some(primitive) = node.list("primitives")?.first() {
        return Err(primitive.error("a deparser's primitives are not supported"));
    }
    for header in node.get("order")?.items()? {
        ir.deparser.push(context.header(&header)?);
    }
    Ok(())
}

/// The lists whose ids and names other parts of the JSON refer to.
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

/// No id and no name stands for two things.
fn check_distinct(root: &Node) -> Result<(), LoadError> {
    for (list, keys) in LISTS {
        for key in keys {
            distinct(root.list(list)?, key, &mut HashSet::new())?;
        }
    }
    for pipeline in root.list("pipelines")? {
        // A table's next step can be a condition, and the reverse: their names must differ.
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
