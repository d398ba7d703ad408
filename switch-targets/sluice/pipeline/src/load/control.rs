//! The two pipelines: tables, conditions, and the order in which they run.

use std::collections::HashMap;

use crate::bits::byte_len;
use crate::cond::Cond;
use crate::entry::{ActionCall, Entry};
use crate::error::LoadError;
use crate::expr::Args;
use crate::ir::{AfterTable, FlowGraph, FlowNode, Ir, Key, Next, Table};
use crate::load::action::Actions;
use crate::load::branch;
use crate::load::expr::Context;
use crate::load::json::Node;
use crate::load::objects::Objects;
use crate::load::profile::Profiles;
use crate::load::reference::constant_bytes;
use crate::spec::{ActionId, KeySpec, MatchKind, ProfileId, TableSpec};
use crate::table::bind_args;

/// The pipelines' definitions for the control plane.
#[derive(Debug, Default)]
pub struct Tables {
    pub specs: Vec<TableSpec>,
    /// The entries that the program fixes, for each table.
    pub entries: Vec<Vec<Entry>>,
    pub profiles: Profiles,
}

pub fn load(
    root: &Node,
    context: Context,
    objects: &Objects,
    actions: &Actions,
    ir: &mut Ir,
) -> Result<Tables, LoadError> {
    let mut tables = Tables::default();
    for node in root.get("pipelines")?.items()? {
        let name = node.get("name")?;
        let flow = Pipeline::load(&node, context, objects, actions, ir, &mut tables)?;
        match name.str()? {
            "ingress" => ir.ingress = flow,
            "egress" => ir.egress = flow,
            other => return Err(name.error(format!("pipeline {other} is not one of v1model's"))),
        }
    }
    Ok(tables)
}

pub struct Pipeline<'a> {
    context: Context<'a>,
    objects: &'a Objects,
    pub actions: &'a Actions,
    nodes: HashMap<&'a str, usize>,
}

impl<'a> Pipeline<'a> {
    fn load(
        node: &Node<'a>,
        context: Context<'a>,
        objects: &'a Objects,
        actions: &'a Actions,
        ir: &mut Ir,
        tables: &mut Tables,
    ) -> Result<FlowGraph, LoadError> {
        let table_nodes = node.list("tables")?;
        let conditionals = node.list("conditionals")?;
        let calls = node.list("action_calls")?;
        let mut nodes = HashMap::new();
        for (at, step) in table_nodes
            .iter()
            .chain(&conditionals)
            .chain(&calls)
            .enumerate()
        {
            nodes.insert(step.get("name")?.str()?, at);
        }
        tables.profiles.load(node, context, ir)?;
        let pipeline = Pipeline {
            context,
            objects,
            actions,
            nodes,
        };
        let mut flow = FlowGraph {
            start: pipeline.next(node, "init_table")?,
            nodes: Vec::new(),
            origins: Vec::new(),
        };
        for table in &table_nodes {
            flow.nodes.push(pipeline.table(table, ir, tables)?);
        }
        let mut conds = Vec::new();
        for conditional in &conditionals {
            conds.push((
                flow.nodes.len(),
                pipeline.context.cond(&conditional.get("expression")?)?,
            ));
            flow.nodes.push(FlowNode::Branch {
                cond: Cond::Const(true),
                yes: pipeline.next(conditional, "true_next")?,
                no: pipeline.next(conditional, "false_next")?,
            });
        }
        for call in &calls {
            let action = pipeline.action_id(&call.get("action_id")?)?;
            if !ir.actions[action].params.is_empty() {
                return Err(call.error("an action that is called directly takes no parameters"));
            }
            flow.nodes.push(FlowNode::Run {
                action,
                args: Args::default(),
                next: pipeline.next(call, "next_node")?,
            });
        }
        flow.origins = (0..flow.nodes.len()).collect();
        for (at, cond) in conds {
            branch::set(&mut flow.nodes, at, cond);
            flow.origins.resize(flow.nodes.len(), at);
        }
        match is_acyclic(&flow, ir) {
            true => Ok(flow),
            false => Err(node.error("the pipeline loops")),
        }
    }

    /// The node that the member `key` names; null is the end.
    fn next(&self, node: &Node, key: &str) -> Result<Next, LoadError> {
        node.find(key)
            .map_or(Ok(None), |next| self.node_named(&next))
    }

    fn node_named(&self, node: &Node) -> Result<Next, LoadError> {
        if node.is_null() {
            return Ok(None);
        }
        let name = node.str()?;
        let found = self.nodes.get(name).copied();
        found
            .map(Some)
            .ok_or_else(|| node.error(format!("no table or condition {name}")))
    }

    pub fn action_id(&self, node: &Node) -> Result<usize, LoadError> {
        let id = node.number(u64::MAX)?;
        self.actions
            .by_id
            .get(&id)
            .copied()
            .ok_or_else(|| node.error(format!("no action {id}")))
    }

    fn table(&self, node: &Node, ir: &mut Ir, tables: &mut Tables) -> Result<FlowNode, LoadError> {
        let mut table = Table {
            key: Vec::new(),
            key_len: 0,
            actions: Vec::new(),
            next: AfterTable::ByAction(Vec::new()),
            base_next: None,
            meter: self.objects.meters.of_table(node)?,
            profile: None,
        };
        let mut keys = Vec::new();
        for key in node.list("key")? {
            keys.push(self.key(&key, &mut table)?);
        }
        for id in node.get("action_ids")?.items()? {
            table.actions.push(self.action_id(&id)?);
        }
        table.profile = tables
            .profiles
            .of_table(node, &table.actions, self.actions)?;
        table.base_next = self.next(node, "base_default_next")?;
        table.next = self.after(node, &table)?;
        if table.profile.is_some() {
            table.base_next = self.after_no_action(&table);
        }
        let default = node
            .find("default_entry")
            .map(|entry| self.default(&entry))
            .transpose()?;
        let entry_nodes = node.list("entries")?;
        let entries = entry_nodes
            .iter()
            .map(|entry| self.entry(entry, &keys))
            .collect::<Result<Vec<_>, _>>()?;
        let prioritised = keys.iter().any(|key| {
            matches!(
                key.kind,
                MatchKind::Ternary | MatchKind::Range | MatchKind::Optional
            )
        });
        let spec = TableSpec {
            name: node.get("name")?.str()?.to_owned(),
            actions: table
                .actions
                .iter()
                .map(|action| ActionId(*action))
                .collect(),
            default,
            size: node
                .find("max_size")
                .map_or(Ok(1024), |size| size.index(u64::from(u32::MAX)))?,
            direct_counter: node.flag("with_counters")?,
            idle_timeout: node.flag("support_timeout")?,
            direct_meter: table.meter.as_ref().map(|meter| meter.unit),
            profile: table.profile.as_ref().map(|it| ProfileId(it.profile)),
            is_const: !entries.is_empty(),
            prioritised,
            keys,
        };
        let step = match &spec.default {
            Some(default) if spec.keys.is_empty() && default.is_const && !spec.direct_counter => {
                let call = ActionCall {
                    action: default.action,
                    args: default.args.clone(),
                };
                let args = bind_args(&self.actions.specs, ir, &call)
                    .map_err(|error| node.error(error.to_string()))?;
                FlowNode::Run {
                    action: default.action.0,
                    args,
                    next: table.after_miss(Some(default.action.0)),
                }
            }
            _ if table.meter.is_some() || table.profile.is_some() => FlowNode::ApplyExtended {
                table: ir.tables.len(),
            },
            _ => FlowNode::Apply {
                table: ir.tables.len(),
            },
        };
        ir.tables.push(table);
        tables.specs.push(spec);
        tables.entries.push(entries);
        Ok(step)
    }

    /// A table with an action profile runs NoAction, which p4c does not say, when it finds no member.
    fn after_no_action(&self, table: &Table) -> Next {
        let named = |action: &&usize| self.actions.specs[**action].name == "NoAction";
        let listed = table.actions.iter().find(named);
        table.after_miss(listed.copied())
    }

    fn key(&self, node: &Node, table: &mut Table) -> Result<KeySpec, LoadError> {
        let kind_node = node.get("match_type")?;
        let target = node.get("target")?;
        let (kind, value, default_name) = match kind_node.str()? {
            "valid" => {
                let header = crate::expr::HeaderRef::Fixed(self.context.header(&target)?);
                let valid = crate::expr::Num::Bool(Box::new(crate::cond::Cond::valid(header)));
                let value = crate::ir::Value {
                    source: crate::ir::Source::Num(valid),
                    width: 1,
                };
                (MatchKind::Exact, value, target.str()?.to_owned())
            }
            text => {
                let kind = match text {
                    "exact" => MatchKind::Exact,
                    "lpm" => MatchKind::Lpm,
                    "ternary" => MatchKind::Ternary,
                    "range" => MatchKind::Range,
                    "optional" => MatchKind::Optional,
                    other => {
                        return Err(kind_node.error(format!("match kind {other} is not supported")));
                    }
                };
                let [header, field] = target.tuple::<2>()?;
                (
                    kind,
                    self.context.field_value(&target)?,
                    format!("{}.{}", header.str()?, field.str()?),
                )
            }
        };
        let len = byte_len(value.width);
        let mask = node
            .find("mask")
            .map(|mask| constant_bytes(&mask, &mask.hex()?, len))
            .transpose()?;
        table.key.push(Key {
            source: value.source,
            width: value.width,
            offset: table.key_len,
            len,
            mask,
        });
        table.key_len += len;
        let name = node
            .find("name")
            .map_or(Ok(default_name), |name| name.str().map(str::to_owned))?;
        Ok(KeySpec {
            name,
            width: value.width,
            kind,
        })
    }

    fn after(&self, node: &Node, table: &Table) -> Result<AfterTable, LoadError> {
        let next_tables = node.get("next_tables")?;
        let members: HashMap<_, _> = next_tables.members()?.into_iter().collect();
        let of = |name: &str| {
            members
                .get(name)
                .map_or(Ok(table.base_next), |next| self.node_named(next))
        };
        if members.contains_key("__HIT__") || members.contains_key("__MISS__") {
            return Ok(AfterTable::HitMiss {
                hit: of("__HIT__")?,
                miss: of("__MISS__")?,
            });
        }
        let names = table
            .actions
            .iter()
            .map(|action| self.actions.specs[*action].name.as_str());
        Ok(AfterTable::ByAction(
            names.map(of).collect::<Result<_, _>>()?,
        ))
    }
}

/// A flow without loops visits each node at most once.
fn is_acyclic(flow: &FlowGraph, ir: &Ir) -> bool {
    let successors: Vec<Vec<Next>> = flow
        .nodes
        .iter()
        .map(|node| match node {
            FlowNode::Branch { yes, no, .. } => vec![*yes, *no],
            FlowNode::Apply { table } | FlowNode::ApplyExtended { table } => {
                ir.tables[*table].successors()
            }
            FlowNode::Run { next, .. } => vec![*next],
        })
        .collect();
    let mut incoming = vec![0_usize; flow.nodes.len()];
    successors
        .iter()
        .flatten()
        .flatten()
        .for_each(|to| incoming[*to] += 1);
    let mut ready: Vec<usize> = (0..flow.nodes.len())
        .filter(|node| incoming[*node] == 0)
        .collect();
    let mut seen = 0;
    while let Some(node) = ready.pop() {
        seen += 1;
        for to in successors[node].iter().flatten() {
            incoming[*to] -= 1;
            if incoming[*to] == 0 {
                ready.push(*to);
            }
        }
    }
    seen == flow.nodes.len()
}
