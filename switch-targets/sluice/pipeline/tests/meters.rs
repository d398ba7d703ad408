//! Meters as packets meet them, with `tests/programs/meters.p4`.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use sluice_pipeline::{
    ActionCall, Bits, Entry, ExternRegistry, MatchValue, MeterConfig, MeterUnit, Outcome, Program,
    Switch, TableError, TableId,
};

const JSON: &[u8] = include_bytes!("../../tests/programs/meters.json");
const BYTES: usize = 8 + 92;

struct Bench {
    switch: Switch,
    metered: TableId,
}

impl Bench {
    fn new() -> Bench {
        let program = Program::load(JSON).unwrap();
        let metered = program.table("MeterIngress.metered").unwrap();
        let switch = Switch::new(program, &ExternRegistry::new()).unwrap();
        Bench { switch, metered }
    }

    fn entry(&self, table: TableId, flow: u128, port: u128) -> Entry {
        let program = self.switch.program();
        let action = program.tables()[table.0].actions[0];
        Entry {
            key: key(flow),
            priority: 0,
            action: ActionCall {
                action,
                args: vec![Bits::from_u128(9, port)],
            }
            .into(),
        }
    }

    /// Colours of the array and of the entry.
    fn sends(&mut self, cell: u32, flow: u16, seconds: u64) -> Option<(u8, u8)> {
        let mut packet = vec![0; BYTES];
        packet[..4].copy_from_slice(&cell.to_be_bytes());
        packet[4..6].copy_from_slice(&flow.to_be_bytes());
        packet[6..8].copy_from_slice(&[0xee, 0xee]);
        let mut out = Outcome::new();
        self.switch
            .process(1, &packet, Duration::from_secs(seconds), &mut out);
        let sent = out.sent.first()?;
        Some((sent.bytes[6], sent.bytes[7]))
    }
}

fn key(flow: u128) -> Vec<MatchValue> {
    vec![MatchValue::Exact(Bits::from_u128(16, flow))]
}

fn rates(cir: u64, cburst: u64, pir: u64, pburst: u64) -> Option<MeterConfig> {
    Some(MeterConfig::TwoRate {
        cir,
        cburst,
        pir,
        pburst,
    })
}

#[test]
fn an_array_marks_bytes_by_index() {
    let mut bench = Bench::new();
    bench
        .switch
        .insert(bench.metered, bench.entry(bench.metered, 7, 2))
        .unwrap();
    let array = bench.switch.program().meter("MeterIngress.array").unwrap();
    let spec = &bench.switch.program().meters()[array.0];
    assert_eq!((spec.size, spec.unit), (16, MeterUnit::Bytes));
    let bytes = BYTES as u64;
    let cell = bench.switch.meter_mut(array, 3).unwrap();
    cell.configure(rates(bytes, bytes, 2 * bytes, 2 * bytes));
    let colors: Vec<u8> = (0..3).map(|_| bench.sends(3, 7, 0).unwrap().0).collect();
    assert_eq!(colors, [0, 1, 2]);
    assert_eq!(bench.sends(3, 7, 1).unwrap().0, 0, "a second later");
    assert_eq!(bench.sends(4, 7, 1).unwrap().0, 0, "another cell");
    assert_eq!(
        bench.sends(16, 7, 1).unwrap().0,
        0xee,
        "beyond the array nothing is written"
    );
    let counts = bench.switch.meter(array, 3).unwrap().counts;
    assert_eq!(
        [
            counts.green.packets,
            counts.yellow.packets,
            counts.red.bytes
        ],
        [2, 1, bytes]
    );
    assert_eq!(
        bench.switch.meter(array, 16).map(|_| ()),
        Err(TableError::BadIndex {
            index: 16,
            size: 16
        })
    );
}

#[test]
fn an_entry_has_a_meter_of_its_own() {
    let mut bench = Bench::new();
    let (metered, plain) = (
        bench.metered,
        bench.switch.program().table("MeterIngress.plain").unwrap(),
    );
    for flow in [7, 8] {
        bench
            .switch
            .insert(metered, bench.entry(metered, flow, 2))
            .unwrap();
    }
    bench
        .switch
        .insert(plain, bench.entry(plain, 9, 2))
        .unwrap();
    let meter = bench.switch.direct_meter_mut(metered, &key(7), 0).unwrap();
    meter.configure(rates(1, 1, 2, 2));
    let colors: Vec<u8> = (0..3).map(|_| bench.sends(0, 7, 0).unwrap().1).collect();
    assert_eq!(colors, [0, 1, 2]);
    assert_eq!(bench.sends(0, 8, 0).unwrap().1, 0);
    assert_eq!(
        bench.sends(0, 9, 0).unwrap().1,
        0xee,
        "a miss marks nothing"
    );

    bench.switch.delete(metered, &key(7), 0).unwrap();
    bench
        .switch
        .insert(metered, bench.entry(metered, 7, 2))
        .unwrap();
    let colors: Vec<u8> = (0..3).map(|_| bench.sends(0, 7, 0).unwrap().1).collect();
    assert_eq!(colors, [0, 0, 0], "a new entry's meter is a new one");

    assert_eq!(
        bench.switch.direct_meter_mut(plain, &key(9), 0).map(|_| ()),
        Err(TableError::NoDirectMeter)
    );
    let views: Vec<_> = bench
        .switch
        .entries(metered)
        .map(|view| view.meter.unwrap().counts.green.packets)
        .collect();
    assert_eq!(views.iter().sum::<u64>(), 4);
}

#[test]
fn another_process_goes_on_where_the_buckets_are() {
    let bench = |flows: &[u128]| {
        let mut bench = Bench::new();
        let metered = bench.metered;
        for flow in flows {
            let entry = bench.entry(metered, *flow, 2);
            bench.switch.insert(metered, entry).unwrap();
        }
        let meter = bench.switch.direct_meter_mut(metered, &key(7), 0).unwrap();
        meter.configure(rates(1, 1, 2, 2));
        bench
    };
    let mut old = bench(&[7, 8]);
    assert_eq!(old.sends(0, 7, 0).unwrap().1, 0);
    let state = old.switch.snapshot();
    let mut new = bench(&[7, 8]);
    new.switch.restore(&state).unwrap();
    assert_eq!(new.switch.snapshot(), state);
    let next = |bench: &mut Bench| [0, 0, 1, 9].map(|at| bench.sends(0, 7, at));
    assert_eq!(next(&mut new), next(&mut old));
    assert_eq!(new.switch.snapshot(), old.switch.snapshot());

    for other in [&[8, 7][..], &[7], &[7, 9]] {
        let refused = bench(other).switch.restore(&state).unwrap_err();
        assert!(refused.to_string().contains("other entries"), "{other:?}");
    }
    let mut unmetered = bench(&[7, 8]);
    let meter = unmetered.switch.direct_meter_mut(old.metered, &key(7), 0);
    meter.unwrap().configure(None);
    let refused = unmetered.switch.restore(&state).unwrap_err();
    assert!(refused.to_string().contains("configured otherwise"));
    let mut renamed = state;
    renamed.counters.clear();
    renamed.tables[0].name = "none".into();
    assert!(bench(&[7, 8]).switch.restore(&renamed).is_err());
}

#[test]
fn malformed_meters_are_refused_with_their_place() {
    let json = String::from_utf8(JSON.to_vec()).unwrap();
    for (from, to, place) in [
        (
            r#""type" : "bytes""#,
            r#""type" : "smells""#,
            "meter_arrays[0].type",
        ),
        (
            r#""direct_meters" : "MeterIngress.direct""#,
            r#""direct_meters" : "none""#,
            "pipelines[0].tables[1].direct_meters",
        ),
        (
            r#""rate_count" : 2"#,
            r#""rate_count" : 3"#,
            "meter_arrays[0].rate_count",
        ),
        (
            r#""size" : 16"#,
            r#""size" : 60000000"#,
            "meter_arrays[0].size",
        ),
    ] {
        assert!(json.contains(from), "{from}");
        let error = Program::load(json.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert_eq!(error.place, place);
    }
}
