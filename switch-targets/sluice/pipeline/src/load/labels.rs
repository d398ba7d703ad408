//! Names of the program's parts, for telling a packet's way in the program's own words.

use std::collections::{BTreeMap, HashMap};

use crate::error::LoadError;
use crate::ir::Next;
use crate::load::json::Node;

/// Labels by the same indices as in [`crate::ir::Ir`].
#[derive(Clone, Debug, Default)]
pub struct Labels {
    pub headers: Vec<String>,
    pub states: Vec<String>,
    /// Parser errors by number.
    pub errors: BTreeMap<u128, String>,
    pub ingress: Vec<Label>,
    pub egress: Vec<Label>,
}

/// A step of a pipeline, as [`crate::ir::FlowGraph::origins`] numbers them.
#[derive(Clone, Debug)]
pub struct Label {
    /// Place in the source, and the text there.
    pub source: String,
    /// The next node of a condition that holds.
    pub yes: Next,
}

pub fn load(root: &Node) -> Result<Labels, LoadError> {
    let names = |list: Vec<Node>| -> Result<Vec<String>, LoadError> {
        list.iter()
            .map(|node| Ok(node.get("name")?.str()?.to_owned()))
            .collect()
    };
    let mut labels = Labels {
        headers: names(root.list("headers")?)?,
        ..Labels::default()
    };
    for parser in root.list("parsers")? {
        labels.states = names(parser.list("parse_states")?)?;
    }
    for node in root.list("errors")? {
        let [name, code] = node.tuple::<2>()?;
        let code = u128::from(code.number(u64::from(u32::MAX))?);
        labels.errors.insert(code, name.str()?.to_owned());
    }
    for pipeline in root.list("pipelines")? {
        match pipeline.get("name")?.str()? {
            "ingress" => labels.ingress = steps(&pipeline)?,
            _ => labels.egress = steps(&pipeline)?,
        }
    }
    Ok(labels)
}

fn steps(pipeline: &Node) -> Result<Vec<Label>, LoadError> {
    let mut nodes = Vec::new();
    for list in ["tables", "conditionals", "action_calls"] {
        nodes.extend(pipeline.list(list)?);
    }
    let mut indices = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        indices.insert(node.get("name")?.str()?, at);
    }
    let label = |node: &Node| {
        let yes = node.find("true_next").and_then(|next| next.str().ok());
        Ok(Label {
            source: source(node)?,
            yes: yes.and_then(|name| indices.get(name).copied()),
        })
    };
    nodes.iter().map(label).collect()
}

/// `gateway/admit.p4:24: hdr.vlan.isValid()`; what p4c wrote without a place has its name.
fn source(node: &Node) -> Result<String, LoadError> {
    let name = node.get("name")?.str()?;
    let Some(info) = node.find("source_info") else {
        return Ok(name.to_owned());
    };
    let text = |key| info.find(key).and_then(|text| text.str().ok());
    let line = info
        .find("line")
        .and_then(|line| line.number(u64::MAX).ok());
    Ok(match (text("filename"), line, text("source_fragment")) {
        (Some(file), Some(line), Some(fragment)) => format!("{file}:{line}: {fragment}"),
        _ => name.to_owned(),
    })
}
