//! Header types, instances, stacks and unions: where every field lives.

use std::collections::HashMap;

use crate::bits::byte_len;
use crate::error::LoadError;
use crate::layout::{
    FieldLayout, Header, HeaderIx, HeaderType, Home, Layout, Stack, StackIx, Union, UnionIx,
};
use crate::load::json::Node;

/// The widest field, in bits.
const MAX_WIDTH: u64 = 1 << 16;
/// Fields of all headers together, in slots and in bytes of wide fields: far more than a program has.
const MAX_FIELDS: usize = 1 << 18;
const MAX_WIDE: usize = 1 << 22;

/// The layout with the names that the rest of the JSON refers to.
#[derive(Debug, Default)]
pub struct Names {
    pub layout: Layout,
    pub headers: HashMap<String, HeaderIx>,
    pub stacks: HashMap<String, StackIx>,
    pub unions: HashMap<String, UnionIx>,
}

pub fn load(root: &Node) -> Result<Names, LoadError> {
    let mut names = Names::default();
    let mut types = HashMap::new();
    for node in root.list("header_types")? {
        let header_type = header_type(&node)?;
        types.insert(header_type.name.clone(), names.layout.types.len());
        names.layout.types.push(header_type);
    }
    let mut headers = HashMap::new();
    for node in root.list("headers")? {
        let type_node = node.get("header_type")?;
        let ty = *types
            .get(type_node.str()?)
            .ok_or_else(|| type_node.error("no such header type"))?;
        headers.insert(node.get("id")?.index(u64::MAX)?, names.layout.headers.len());
        names.headers.insert(
            node.get("name")?.str()?.to_owned(),
            names.layout.headers.len(),
        );
        place_header(&node, &mut names.layout, ty)?;
    }
    let mut unions = HashMap::new();
    let member_names = union_types(root)?;
    for node in root.list("header_unions")? {
        let union = names.layout.unions.len();
        unions.insert(node.get("id")?.index(u64::MAX)?, union);
        let name = node.get("name")?.str()?.to_owned();
        let type_node = node.get("union_type")?;
        let member_names = member_names
            .get(type_node.str()?)
            .ok_or_else(|| type_node.error("no such header union type"))?
            .clone();
        let members = resolve(&node.get("header_ids")?, &headers)?;
        if members.len() != member_names.len() {
            return Err(node.error("the union has not as many headers as its type"));
        }
        for member in &members {
            names.layout.headers[*member].union = Some(union);
        }
        names.unions.insert(name, union);
        names.layout.unions.push(Union {
            members,
            member_names,
        });
    }
    for node in root.list("header_stacks")? {
        let members = resolve(&node.get("header_ids")?, &headers)?;
        one_type(&node, &names.layout, &members)?;
        let elements = members.into_iter().map(|header| vec![header]).collect();
        add_stack(&node, &mut names, elements, Vec::new())?;
    }
    for node in root.list("header_union_stacks")? {
        let unions = resolve(&node.get("header_union_ids")?, &unions)?;
        let elements: Vec<_> = unions
            .iter()
            .map(|union| names.layout.unions[*union].members.clone())
            .collect();
        for member in 0..elements.first().map_or(0, Vec::len) {
            let column: Option<Vec<_>> = elements
                .iter()
                .map(|element| element.get(member).copied())
                .collect();
            one_type(
                &node,
                &names.layout,
                &column.ok_or_else(|| node.error("the unions differ"))?,
            )?;
        }
        add_stack(&node, &mut names, elements, unions)?;
    }
    Ok(names)
}

fn header_type(node: &Node) -> Result<HeaderType, LoadError> {
    let mut header_type = HeaderType {
        name: node.get("name")?.str()?.to_owned(),
        ..HeaderType::default()
    };
    let mut fixed_bits = 0_u64;
    for field in node.get("fields")?.items()? {
        let parts = field.items()?;
        let [name, width, rest @ ..] = parts.as_slice() else {
            return Err(field.error("expected a name and a width"));
        };
        // p4c writes 0 for a boolean field.
        let signed = rest
            .first()
            .filter(|flag| flag.number(0).is_err())
            .map_or(Ok(false), Node::bool)?;
        if rest.get(1).is_some_and(|flag| flag.bool() == Ok(true)) {
            return Err(field.error("a field that saturates is not supported"));
        }
        let (home, width) = if width.str().is_ok_and(|text| text == "*") {
            let max = var_max(node, fixed_bits)?;
            let offset = header_type.wide;
            header_type.wide += max;
            (Home::Var { offset, max }, max as u32 * 8)
        } else {
            let width = width.number(MAX_WIDTH)? as u32;
            fixed_bits += u64::from(width);
            if width <= 128 {
                header_type.slots += 1;
                (Home::Slot(header_type.slots - 1), width)
            } else {
                let (offset, len) = (header_type.wide, byte_len(width));
                header_type.wide += len;
                (Home::Wide { offset, len }, width)
            }
        };
        header_type.fields.push(FieldLayout {
            name: name.str()?.to_owned(),
            width,
            signed,
            home,
        });
    }
    if header_type
        .fields
        .iter()
        .filter(|field| matches!(field.home, Home::Var { .. }))
        .count()
        > 1
    {
        return Err(node.error("more than one variable-length field"));
    }
    header_type.fixed_bits = fixed_bits as usize;
    Ok(header_type)
}

/// Bytes that the varbit of a header can hold. `before`: the bits of the fields before it; those behind it count too.
fn var_max(node: &Node, before: u64) -> Result<usize, LoadError> {
    let max = node.get("max_length")?.number(MAX_WIDTH / 8)?;
    let mut behind = 0;
    let fields = node.get("fields")?.items()?;
    for field in fields.iter().rev() {
        match field.items()?.get(1).map(|width| width.number(MAX_WIDTH)) {
            Some(Ok(width)) => behind += width,
            _ => break,
        }
    }
    let fixed = (before + behind).div_ceil(8);
    Ok(max
        .checked_sub(fixed)
        .ok_or_else(|| node.error("max_length is less than the fixed fields take"))?
        as usize)
}

fn place_header(node: &Node, layout: &mut Layout, ty: usize) -> Result<(), LoadError> {
    let header_type = &layout.types[ty];
    let metadata = node
        .find("metadata")
        .map_or(Ok(false), |flag| flag.bool())?;
    if !metadata && !header_type.fixed_bits.is_multiple_of(8) {
        return Err(node.error("a header's fields must fill whole bytes"));
    }
    let slots = layout.slots..layout.slots + header_type.slots;
    let wide = layout.wide..layout.wide + header_type.wide;
    if slots.end > MAX_FIELDS || wide.end > MAX_WIDE {
        return Err(node.error("the program's headers take more room than is supported"));
    }
    (layout.slots, layout.wide) = (slots.end, wide.end);
    layout.headers.push(Header {
        ty,
        metadata,
        slots,
        wide,
        union: None,
    });
    Ok(())
}

fn union_types(root: &Node) -> Result<HashMap<String, Vec<String>>, LoadError> {
    let mut types = HashMap::new();
    for node in root.list("header_union_types")? {
        let mut members = Vec::new();
        for member in node.get("headers")?.items()? {
            let [name, _] = member.tuple::<2>()?;
            members.push(name.str()?.to_owned());
        }
        types.insert(node.get("name")?.str()?.to_owned(), members);
    }
    Ok(types)
}

fn resolve(ids: &Node, by_id: &HashMap<usize, usize>) -> Result<Vec<usize>, LoadError> {
    ids.items()?
        .iter()
        .map(|id| {
            by_id
                .get(&id.index(u64::MAX)?)
                .copied()
                .ok_or_else(|| id.error("no such id"))
        })
        .collect()
}

fn one_type(node: &Node, layout: &Layout, headers: &[HeaderIx]) -> Result<(), LoadError> {
    match headers
        .windows(2)
        .all(|pair| layout.headers[pair[0]].ty == layout.headers[pair[1]].ty)
    {
        true => Ok(()),
        false => Err(node.error("the elements of a stack must have one type")),
    }
}

fn add_stack(
    node: &Node,
    names: &mut Names,
    elements: Vec<Vec<HeaderIx>>,
    unions: Vec<UnionIx>,
) -> Result<(), LoadError> {
    if elements.is_empty() {
        return Err(node.error("a stack needs an element"));
    }
    let name = node.get("name")?.str()?.to_owned();
    names.stacks.insert(name, names.layout.stacks.len());
    names.layout.stacks.push(Stack { elements, unions });
    Ok(())
}
