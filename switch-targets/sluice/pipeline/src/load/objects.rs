//! Objects that actions refer to by name or id: counters, registers, calculations, digests, field lists, extern objects.

use std::collections::HashMap;

use crate::bits::{Bits, byte_len};
use crate::error::LoadError;
use crate::hash::Algorithm;
use crate::ir::{
    Attributes, CalcInput, Calculation, DirectMeter, FieldSum, Instance, Ir, Place, Target,
};
use crate::layout::Home;
use crate::load::expr::Context;
use crate::load::json::Node;
use crate::load::reference::constant_bytes;
use crate::queue::{QueueFact, QueueField};
use crate::spec::{CounterSpec, DigestSpec, FieldSpec, MeterSpec, MeterUnit, RegisterSpec};
use crate::standard::Standard;

/// Cells of all counters and registers together, and a few for each meter.
const MAX_CELLS: u64 = 1 << 26;
/// The parts of the JSON in which a field is used. A field list hands a field on, and uses it nowhere.
const USES: [&str; 6] = [
    "parsers",
    "actions",
    "pipelines",
    "calculations",
    "checksums",
    "learn_lists",
];

/// A meter, configured, takes the memory of this many counters.
const METER_CELLS: u64 = 12;

#[derive(Debug, Default)]
pub struct Meters {
    pub arrays: HashMap<String, usize>,
    pub specs: Vec<MeterSpec>,
    direct: HashMap<String, DirectMeter>,
}

#[derive(Debug, Default)]
pub struct Objects {
    pub counters: HashMap<String, usize>,
    pub registers: HashMap<String, usize>,
    pub calculations: HashMap<String, usize>,
    /// Digests by learn list id.
    pub digests: HashMap<u64, usize>,
    /// Field lists by their id.
    pub field_lists: HashMap<u64, usize>,
    pub instances: HashMap<String, usize>,
    pub counter_specs: Vec<CounterSpec>,
    pub digest_specs: Vec<DigestSpec>,
    pub meters: Meters,
    cells: u64,
}

/// Loads all of them into `ir`.
pub fn load(root: &Node, context: &Context, ir: &mut Ir) -> Result<Objects, LoadError> {
    let mut objects = Objects::default();
    meters(root, context, &mut objects)?;
    ir.meters = objects
        .meters
        .specs
        .iter()
        .map(|meter| meter.unit)
        .collect();
    counters(root, &mut objects)?;
    registers(root, &mut objects, ir)?;
    for node in root.list("calculations")? {
        objects
            .calculations
            .insert(node.get("name")?.str()?.to_owned(), ir.calculations.len());
        ir.calculations.push(calculation(&node, context)?);
    }
    for node in root.list("field_lists")? {
        objects
            .field_lists
            .insert(node.get("id")?.number(u64::MAX)?, ir.field_lists.len());
        let mut places = Vec::new();
        for element in node.get("elements")?.items()? {
            match element.typed()? {
                ("field", field) => places.push(context.place(&field)?),
                (kind, _) => {
                    return Err(element.error(format!("{kind} is not supported in a field list")));
                }
            }
        }
        ir.field_lists.push(places);
    }
    digests(root, context, &mut objects, ir)?;
    for node in root.list("extern_instances")? {
        let instance = instance(&node)?;
        objects
            .instances
            .insert(instance.name.clone(), ir.instances.len());
        ir.instances.push(instance);
    }
    errors(root, ir)?;
    ir.standard = standard(root, context)?;
    Ok(objects)
}

impl Objects {
    fn take_cells(&mut self, size: &Node) -> Result<usize, LoadError> {
        self.take(size, 1)
    }

    /// An array whose elements are as large as `cells` counters.
    fn take(&mut self, size: &Node, cells: u64) -> Result<usize, LoadError> {
        let length = size.number(MAX_CELLS)?;
        self.cells += length * cells;
        match self.cells <= MAX_CELLS {
            true => Ok(length as usize),
            false => Err(size.error(format!(
                "counters, meters and registers have more than {MAX_CELLS} cells in all"
            ))),
        }
    }
}

fn meters(root: &Node, context: &Context, objects: &mut Objects) -> Result<(), LoadError> {
    for node in root.list("meter_arrays")? {
        let name = node.get("name")?.str()?.to_owned();
        let kind = node.get("type")?;
        let unit = match kind.str()? {
            "packets" => MeterUnit::Packets,
            "bytes" => MeterUnit::Bytes,
            other => return Err(kind.error(format!("a meter of {other} is not supported"))),
        };
        let rates = node.get("rate_count")?;
        if rates.number(u64::MAX)? != 2 {
            return Err(rates.error("a meter has two rates"));
        }
        if node.flag("is_direct")? {
            let target = Target::Field(context.place(&node.get("result_target")?)?);
            objects
                .meters
                .direct
                .insert(name, DirectMeter { unit, target });
        } else {
            let size = objects.take(&node.get("size")?, METER_CELLS)?;
            let meters = &mut objects.meters;
            meters.arrays.insert(name.clone(), meters.specs.len());
            meters.specs.push(MeterSpec { name, size, unit });
        }
    }
    Ok(())
}

impl Meters {
    /// The one that `table` names.
    pub fn of_table(&self, table: &Node) -> Result<Option<DirectMeter>, LoadError> {
        let Some(name) = table.find("direct_meters") else {
            return Ok(None);
        };
        let found = self.direct.get(name.str()?);
        found
            .cloned()
            .map(Some)
            .ok_or_else(|| name.error("no such direct meter"))
    }
}

fn counters(root: &Node, objects: &mut Objects) -> Result<(), LoadError> {
    for node in root.list("counter_arrays")? {
        if node.flag("is_direct")? {
            continue;
        }
        let size = objects.take_cells(&node.get("size")?)?;
        let name = node.get("name")?.str()?.to_owned();
        objects
            .counters
            .insert(name.clone(), objects.counter_specs.len());
        objects.counter_specs.push(CounterSpec { name, size });
    }
    Ok(())
}

fn registers(root: &Node, objects: &mut Objects, ir: &mut Ir) -> Result<(), LoadError> {
    for node in root.list("register_arrays")? {
        let size = objects.take_cells(&node.get("size")?)?;
        let name = node.get("name")?.str()?.to_owned();
        objects.registers.insert(name.clone(), ir.registers.len());
        let width = node.get("bitwidth")?.number(128)? as u32;
        ir.registers.push(RegisterSpec { name, width, size });
    }
    Ok(())
}

pub fn calculation(node: &Node, context: &Context) -> Result<Calculation, LoadError> {
    let algorithm_node = node.get("algo")?;
    let name = algorithm_node.str()?;
    let algorithm = Algorithm::named(name)
        .ok_or_else(|| algorithm_node.error(format!("hash algorithm {name} is not supported")))?;
    let mut input = Vec::new();
    for part in node.get("input")?.items()? {
        input.push(match part.get("type")?.str()? {
            "payload" => CalcInput::Payload,
            "field" => CalcInput::Field(context.place(&part.get("value")?)?),
            "header" => CalcInput::Header(context.header(&part.get("value")?)?),
            "hexstr" => {
                let width = part.get("bitwidth")?.number(1 << 16)? as u32;
                let value = part.get("value")?;
                CalcInput::Const {
                    value: constant_bytes(&value, &value.hex()?, byte_len(width))?,
                    width,
                }
            }
            kind => return Err(part.error(format!("{kind} is not supported in a calculation"))),
        });
    }
    let sum = (algorithm == Algorithm::Csum16)
        .then(|| field_sum(&input))
        .flatten();
    Ok(Calculation {
        algorithm,
        input,
        sum,
    })
}

/// Sixteen-bit words are added, so that a field counts for its value shifted to its place in its word. Fields of up to 32
/// bits, shifted by less than 16, add up in 64 bits.
fn field_sum(input: &[CalcInput]) -> Option<FieldSum> {
    let mut terms = Vec::new();
    let (mut end, mut header) = (0, None);
    for part in input {
        let CalcInput::Field(Place {
            header: of,
            home: Home::Slot(slot),
            width: width @ ..=32,
        }) = part
        else {
            return None;
        };
        if header.is_some_and(|header| header != *of) {
            return None;
        }
        header = Some(*of);
        end += width;
        terms.push((*slot, (16 - end % 16) % 16));
    }
    header.map(|header| FieldSum { header, terms })
}

fn digests(
    root: &Node,
    context: &Context,
    objects: &mut Objects,
    ir: &mut Ir,
) -> Result<(), LoadError> {
    for node in root.list("learn_lists")? {
        objects
            .digests
            .insert(node.get("id")?.number(u64::MAX)?, ir.digests.len());
        let (mut values, mut fields) = (Vec::new(), Vec::new());
        for (at, element) in node.get("elements")?.items()?.iter().enumerate() {
            let value = context.value(element)?;
            let name = match element.typed()? {
                ("field", parts) => parts.tuple::<2>()?[1].str()?.to_owned(),
                _ => at.to_string(),
            };
            fields.push(FieldSpec {
                name,
                width: value.width,
            });
            values.push(value);
        }
        ir.digests.push(values);
        objects.digest_specs.push(DigestSpec {
            name: node.get("name")?.str()?.to_owned(),
            fields,
        });
    }
    Ok(())
}

fn instance(node: &Node) -> Result<Instance, LoadError> {
    let mut attributes = Attributes::new();
    for attribute in node.list("attribute_values")? {
        let (kind, value) = attribute.typed()?;
        if kind != "hexstr" {
            return Err(attribute.error(format!("an attribute of type {kind} is not supported")));
        }
        let number = value.hex()?;
        let len = (number.bits() as usize).div_ceil(8).max(1);
        let bits = Bits::new(len as u32 * 8, &constant_bytes(&value, &number, len)?);
        attributes.insert(
            attribute.get("name")?.str()?.to_owned(),
            bits.map_err(|error| value.error(error.to_string()))?,
        );
    }
    Ok(Instance {
        place: node.error("").place,
        name: node.get("name")?.str()?.to_owned(),
        type_name: node.get("type")?.str()?.to_owned(),
        attributes,
    })
}

fn errors(root: &Node, ir: &mut Ir) -> Result<(), LoadError> {
    for node in root.list("errors")? {
        let [name, code] = node.tuple::<2>()?;
        let code = u128::from(code.number(u64::from(u32::MAX))?);
        match name.str()? {
            "NoError" => ir.errors.no_error = code,
            "PacketTooShort" => ir.errors.packet_too_short = code,
            "NoMatch" => ir.errors.no_match = code,
            "StackOutOfBounds" => ir.errors.stack_out_of_bounds = code,
            "HeaderTooShort" => ir.errors.header_too_short = code,
            "ParserTimeout" => ir.errors.timeout = code,
            "ParserInvalidArgument" => ir.errors.invalid_argument = code,
            _ => {}
        }
    }
    Ok(())
}

/// The fields that the switch knows, by simple_switch's names or through the program's aliases for them.
fn standard(root: &Node, context: &Context) -> Result<Standard, LoadError> {
    let mut aliases = HashMap::new();
    for node in root.list("field_aliases")? {
        let [name, field] = node.tuple::<2>()?;
        aliases.insert(name.str()?, field);
    }
    let place = |header: &str, field: &str| -> Result<Option<(usize, u32)>, LoadError> {
        let place = match aliases.get(format!("{header}.{field}").as_str()) {
            Some(alias) => context.place(alias)?,
            None => {
                let layout = &context.names.layout;
                let Some(header) = context.names.headers.get(header).copied() else {
                    return Ok(None);
                };
                let Some(field) = layout
                    .type_of(header)
                    .fields
                    .iter()
                    .find(|known| known.name == field)
                else {
                    return Ok(None);
                };
                let home = field.home.within(&layout.headers[header]);
                Place {
                    header,
                    home,
                    width: field.width,
                }
            }
        };
        match place.home {
            Home::Slot(slot) => Ok(Some((slot, place.width))),
            _ => Err(root.error(format!("{header}.{field} is too wide"))),
        }
    };
    let slot = |header: &str, field: &str| -> Result<Option<usize>, LoadError> {
        Ok(place(header, field)?.map(|(slot, _)| slot))
    };
    let header = "queueing_metadata";
    let mut queue = Vec::new();
    for (field, tells) in [
        ("enq_qdepth", QueueFact::Depth),
        ("deq_qdepth", QueueFact::Depth),
        ("deq_timedelta", QueueFact::Wait),
    ] {
        let name = match aliases.get(format!("{header}.{field}").as_str()) {
            Some(alias) => {
                let [header, field] = alias.tuple::<2>()?;
                [header.str()?, field.str()?]
            }
            None => [header, field],
        };
        let mut uses = USES.iter().filter_map(|part| root.find(part));
        if let (Some((slot, width)), true) =
            (place(header, field)?, uses.any(|part| part.has(name)))
        {
            queue.push(QueueField { slot, width, tells });
        }
    }
    Ok(Standard {
        ingress_port: slot("standard_metadata", "ingress_port")?,
        egress_spec: slot("standard_metadata", "egress_spec")?,
        egress_port: slot("standard_metadata", "egress_port")?,
        instance_type: slot("standard_metadata", "instance_type")?,
        packet_length: slot("standard_metadata", "packet_length")?,
        parser_error: slot("standard_metadata", "parser_error")?,
        checksum_error: slot("standard_metadata", "checksum_error")?,
        mcast_grp: slot("intrinsic_metadata", "mcast_grp")?,
        egress_rid: slot("intrinsic_metadata", "egress_rid")?,
        ingress_timestamp: slot("intrinsic_metadata", "ingress_global_timestamp")?,
        egress_timestamp: slot("intrinsic_metadata", "egress_global_timestamp")?,
        enqueue_timestamp: slot("queueing_metadata", "enq_timestamp")?,
        queue,
    })
}
