//! A packet's way as text, or as one JSON object a packet. Wide values are not told: they are keys.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use sluice_pipeline::{Bits, MatchValue, Named, Queue, Step};

use super::Explained;

/// Bits of the widest value that is told: an IPv6 address. Wrapped keys are wider.
const WIDEST: u32 = 128;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line for each step
    #[default]
    Text,
    /// A JSON object a packet, on one line
    Json,
}

/// The `number`th packet, with a line end.
pub fn render(format: Format, number: usize, packet: &Explained) -> String {
    match format {
        Format::Text => text(number, packet),
        Format::Json => json_line(number, packet),
    }
}

fn text(number: usize, packet: &Explained) -> String {
    let mut out = String::new();
    if packet.lost > 0 {
        let _ = writeln!(
            out,
            "({} packets came too fast to be looked at)",
            packet.lost
        );
    }
    let _ = writeln!(
        out,
        "packet {number}: port {}, {} bytes",
        packet.port,
        packet.frame.len()
    );
    for step in &packet.steps {
        let _ = writeln!(out, "{}", line(step));
    }
    out
}

fn line(step: &Step) -> String {
    match step {
        Step::Pass {
            reason,
            port,
            bytes,
        } => format!("  {reason} at port {port}: {bytes} bytes"),
        Step::Egress { port, queue: None } => format!("  egress to port {port}"),
        Step::Egress {
            port,
            queue: Some(Queue { depth, wait }),
        } => format!(
            "  egress to port {port}: {depth} packets wait, the first for {} µs",
            wait.as_micros()
        ),
        Step::State { name } => format!("    parser {name}"),
        Step::Extracted { header, fields } => format!("      {header} {}", named(fields)),
        Step::ParserError { name } => format!("    parser error {name}"),
        Step::BadChecksum => "    a checksum is wrong".to_owned(),
        Step::Condition { source, holds } => format!("    {source} -> {holds}"),
        Step::Statement { source } => format!("    {source}"),
        Step::Table {
            name,
            key,
            entry,
            action,
            args,
        } => {
            let found = match entry {
                Some(entry) => {
                    let fields = key.iter().zip(&entry.key);
                    let fields = fields.map(|((name, _), it)| format!("{name}={}", matched(it)));
                    let priority = match entry.priority {
                        0 => String::new(),
                        priority => format!(" priority {priority}"),
                    };
                    format!("hit {{{}}}{priority}", fields.collect::<Vec<_>>().join(" "))
                }
                None => "miss".to_owned(),
            };
            let action = action.as_deref().unwrap_or("no action");
            let args = named(args);
            format!(
                "    table {name} [{}] {found} -> {action}({args})",
                named(key)
            )
        }
        Step::Called { object, method } => format!("      {object}.{method}()"),
        Step::Changed { field, value } => format!("      {field} = {}", shown(value)),
        Step::Header { name, valid: true } => format!("      {name} is valid now"),
        Step::Header { name, valid: false } => format!("      {name} is invalid now"),
        Step::Digest { name, fields } => format!("      digest {name} {}", named(fields)),
        Step::Copied { port, instance } => format!("    copy {instance} for port {port}"),
        Step::Dropped { reason } => format!("  dropped: {reason}"),
        Step::Sent { port, bytes } => {
            format!(
                "  sent to port {port}: {} bytes {}",
                bytes.len(),
                hex(bytes)
            )
        }
        Step::CutOff => "  (the rest is left out)".to_owned(),
    }
}

fn named(fields: &[Named]) -> String {
    let fields = fields.iter();
    let fields = fields.map(|(name, value)| format!("{name}={}", shown(value)));
    fields.collect::<Vec<_>>().join(" ")
}

fn shown(value: &Bits) -> String {
    match value.width() {
        0 => "-".to_owned(),
        1..=WIDEST => format!("0x{}", hex(value.bytes())),
        width => format!("<{width} bits>"),
    }
}

fn matched(value: &MatchValue) -> String {
    match value {
        MatchValue::Exact(value) | MatchValue::Optional(Some(value)) => shown(value),
        MatchValue::Lpm { value, len } => format!("{}/{len}", shown(value)),
        MatchValue::Ternary { value, mask } => format!("{}&{}", shown(value), shown(mask)),
        MatchValue::Range { low, high } => format!("{}..{}", shown(low), shown(high)),
        MatchValue::Optional(None) => "*".to_owned(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn json_line(number: usize, packet: &Explained) -> String {
    let steps: Vec<Value> = packet.steps.iter().map(object).collect();
    let line = json!({
        "packet": number, "port": packet.port, "bytes": packet.frame.len(), "lost_before": packet.lost, "steps": steps,
    });
    format!("{line}\n")
}

fn object(step: &Step) -> Value {
    match step {
        Step::Pass {
            reason,
            port,
            bytes,
        } => json!({"step": "pass", "reason": reason, "port": port, "bytes": bytes}),
        Step::Egress { port, queue: None } => json!({"step": "egress", "port": port}),
        Step::Egress {
            port,
            queue: Some(Queue { depth, wait }),
        } => {
            json!({"step": "egress", "port": port, "depth": depth, "wait_us": wait.as_micros() as u64})
        }
        Step::State { name } => json!({"step": "state", "name": name}),
        Step::Extracted { header, fields } => {
            json!({"step": "extracted", "header": header, "fields": members(fields)})
        }
        Step::ParserError { name } => json!({"step": "parser_error", "name": name}),
        Step::BadChecksum => json!({"step": "bad_checksum"}),
        Step::Condition { source, holds } => {
            json!({"step": "condition", "source": source, "holds": holds})
        }
        Step::Statement { source } => json!({"step": "statement", "source": source}),
        Step::Table {
            name,
            key,
            entry,
            action,
            args,
        } => {
            let entry = entry.as_ref().map(|entry| {
                let fields = key.iter().zip(&entry.key);
                let fields: Map<_, _> = fields
                    .map(|((name, _), it)| (name.clone(), matched(it).into()))
                    .collect();
                json!({"match": fields, "priority": entry.priority})
            });
            json!({
                "step": "table", "name": name, "key": members(key), "hit": entry.is_some(), "entry": entry,
                "action": action, "args": members(args),
            })
        }
        Step::Called { object, method } => {
            json!({"step": "called", "object": object, "method": method})
        }
        Step::Changed { field, value } => {
            json!({"step": "changed", "field": field, "value": shown(value)})
        }
        Step::Header { name, valid } => json!({"step": "header", "name": name, "valid": valid}),
        Step::Digest { name, fields } => {
            json!({"step": "digest", "name": name, "fields": members(fields)})
        }
        Step::Copied { port, instance } => {
            json!({"step": "copied", "port": port, "instance": instance})
        }
        Step::Dropped { reason } => json!({"step": "dropped", "reason": reason}),
        Step::Sent { port, bytes } => json!({"step": "sent", "port": port, "bytes": hex(bytes)}),
        Step::CutOff => json!({"step": "cut_off"}),
    }
}

fn members(fields: &[Named]) -> Map<String, Value> {
    fields
        .iter()
        .map(|(name, value)| (name.clone(), shown(value).into()))
        .collect()
}
