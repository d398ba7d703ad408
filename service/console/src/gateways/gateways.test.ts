import { expect, test } from "vitest";

import { byTable, words } from "./entries";
import { formOf, gatewayOf, NEW, type GatewayOut, VALIDATE } from "./form";
import { rate } from "../shared/words";
import { dropRows, timeTicks, trafficRows, trip, valueTicks } from "./samples";
import { driftOf, keysOf, silentOf, stateOf } from "./state";

test("the state of a gateway's keys is shown in words", () => {
  const keys = { bundled_at: null, certificate_expires_at: null, rekeying_since: null, sas_left: null };
  expect(keysOf({ keys: { ...keys, state: "waiting" } })).toContain("not installed yet");
  expect(keysOf({ keys: { ...keys, state: "rekeying", sas_left: 12 } })).toBe(
    "12 keys are still to be replaced",
  );
});

test("an offline gateway is shown as offline also while it drains", () => {
  const since = "2026-01-31T09:00:00Z";
  expect(stateOf({ state: "offline", draining_since: since }).word).toBe("offline");
  expect(stateOf({ state: "online", draining_since: since }).word).toBe("draining");
  expect(stateOf({ state: "online", draining_since: null }).word).toBe("online");
});

test("a neighbour that does not answer is said with its last MAC address", () => {
  const hop = { side: "wan" as const, address: "198.51.100.1", mac: "02:00:00:00:01:02", silent_since: null };
  expect(silentOf({ neighbours: [hop] })).toEqual([]);
  const since = "2026-11-27T11:00:00Z";
  const wiki = { side: "lan" as const, address: "2001:db8::10", mac: null, silent_since: since };
  expect(silentOf({ neighbours: [{ ...hop, silent_since: since }, wiki] })).toEqual([
    "The next hop 198.51.100.1 does not answer ARP; packets go to its last MAC address 02:00:00:00:01:02",
    "The neighbour 2001:db8::10 does not answer Neighbor Solicitation",
  ]);
  expect(silentOf({ neighbours: [{ ...wiki, silent_since: null }] })[0]).toContain("has not been found yet");
});

test("drift shows its count and the last differences", () => {
  const checked = { state: "online" as const, reconciled_at: "2026-11-27T11:00:00Z" };
  expect(driftOf({ ...checked, drift: {} })).toBe("Every entry is in place.");
  expect(driftOf({ ...checked, drift: {}, state: "offline" })).toBe(
    "Every entry was in place at the last check.",
  );
  expect(driftOf({ drift: {}, state: "offline", reconciled_at: null })).toBe("Not checked yet.");
  expect(driftOf({ ...checked, drift: { repaired: 1, foreign: 2 } })).toBe(
    "Corrected once; the last time 2 were not Culvert’s.",
  );
  expect(driftOf({ ...checked, drift: { repaired: 3, missing: 1, changed: 1 } })).toBe(
    "Corrected 3 times; the last time 1 was missing, 1 had changed.",
  );
});

test("a chart shows the drops between samples, also over a gateway's restart", () => {
  const sample = (second: number, drops: Record<string, number>) => ({
    at: `2026-01-31T09:00:${second}Z`,
    drops,
    round_trip_us: null,
    received: null,
    sent: null,
    tunnels: null,
  });
  const { rows, causes } = dropRows([
    sample(10, { icv: 5 }),
    sample(20, { icv: 7, replay: 10 }),
    sample(30, { icv: 1, replay: 10 }),
  ]);
  expect(causes).toEqual(["replay", "icv"]);
  expect(rows.map(({ icv, replay }) => [icv, replay])).toEqual([
    [2, 10],
    [1, 0],
  ]);
  expect(dropRows([]).rows).toEqual([]);
  expect([trip(null), trip(420), trip(15_300)]).toEqual(["not measured yet", "0.42 ms", "15 ms"]);
});

test("a chart's axis shows no minute twice, over seconds and over a day", () => {
  const from = Date.parse("2026-01-31T09:00:20Z");
  const clock = (at: number) => new Date(at).toISOString().slice(11, 16);
  expect(timeTicks([from, from + 150_000]).map(clock)).toEqual(["09:01", "09:02"]);
  expect(timeTicks([from, from + 3_600_000]).map(clock)).toEqual([
    "09:10",
    "09:20",
    "09:30",
    "09:40",
    "09:50",
    "10:00",
  ]);
  expect(timeTicks([from, from + 86_400_000]).length).toBeLessThanOrEqual(7);
  expect(timeTicks([from]).length).toBe(0);
  expect(timeTicks([])).toEqual([]);
});

test("hours on an axis are whole where local time is half an hour from UTC", () => {
  const zone = process.env.TZ;
  process.env.TZ = "Asia/Kolkata";
  try {
    const from = Date.parse("2026-01-31T09:00:20Z");
    const hours = timeTicks([from, from + 86_400_000]).map((at) => new Date(at).toTimeString().slice(0, 5));
    expect(hours).toEqual(["18:00", "00:00", "06:00", "12:00"]);
  } finally {
    process.env.TZ = zone;
  }
});

test("a chart of traffic breaks where nothing was measured, and begins anew", () => {
  const sample = (minute: number, received: number | null) => ({
    at: new Date(minute * 60_000).toISOString(),
    drops: {},
    round_trip_us: null,
    received,
    sent: received,
    tunnels: 3,
  });
  const rows = trafficRows([sample(0, 100), sample(1, null), sample(2, 50), sample(9, 1)], 1);
  expect(rows.map(({ received }) => received)).toEqual([800, 400, null, 8]);
  expect(rows.map(({ at }) => at)).toEqual([0, 120_000, 120_001, 540_000]);
  // A day has a sample for six minutes.
  expect(trafficRows([sample(0, 1), sample(6, 1), sample(12, 1)], 24).length).toBe(3);
  expect(trafficRows([], 24)).toEqual([]);
});

test("an axis of rates names no value twice, from a bit to a terabit", () => {
  for (let power = -2; power < 13; power += 1)
    for (const digit of [1, 1.01, 1.9, 2, 3.3, 4.99, 5, 7.5, 9.99]) {
      const most = digit * 10 ** power;
      const ticks = valueTicks(most);
      const labels = ticks.map((bits) => rate(bits / 8));
      expect(new Set(labels).size, labels.join()).toBe(labels.length);
      expect(ticks.length).toBeLessThanOrEqual(6);
      expect(ticks[0]).toBe(0);
      expect(ticks.at(-1)).toBeGreaterThanOrEqual(most * 0.999);
    }
  expect(valueTicks(0)).toEqual([0, 1]);
  expect(valueTicks(1, 1)).toEqual([0, 1]);
  expect(valueTicks(3, 1)).toEqual([0, 1, 2, 3]);
  expect(valueTicks(1000, 1)).toEqual([0, 200, 400, 600, 800, 1000]);
  expect(valueTicks(110, 1, 2)).toEqual([0, 100, 200]);
});

test("a gateway's form makes a valid body and names a bad neighbour line", () => {
  const lan = { ...NEW.lan, neighbours: "10.20.0.10 02:00:00:00:02:10\n\n 10.20.0.11=02:00:00:00:02:11 " };
  const made = gatewayOf({ ...NEW, name: "gw", lan });
  expect(made.lan.neighbours).toEqual({
    "10.20.0.10": "02:00:00:00:02:10",
    "10.20.0.11": "02:00:00:00:02:11",
  });
  expect([made.address6, made.public_address]).toEqual([null, null]);
  const behindNat = gatewayOf({ ...NEW, address: "10.0.0.4", public_address: "203.0.113.7" });
  expect(behindNat).toMatchObject({ address: "10.0.0.4", public_address: "203.0.113.7" });
  expect(made.p4runtime).toBeNull();
  const direct = { ...NEW, connects: "controller", p4runtime: "10.255.0.2:9559" };
  expect(gatewayOf(direct).p4runtime).toBe("10.255.0.2:9559");
  // An address that was typed before the choice changed is not sent.
  expect(gatewayOf({ ...direct, connects: "gateway" }).p4runtime).toBeNull();
  expect(VALIDATE.lan.neighbours("10.20.0.10 02:00:00:00:02:10 x")).toContain("10.20.0.10");
  expect(VALIDATE.lan.neighbours("10.20.0.10\n")).toBeNull();
  expect(VALIDATE.lan.routes("10.30.0.0/16")).toContain("10.30.0.0/16");
});

test("a router is an address that the gateway resolves, or a fixed MAC address, or several", () => {
  const wan = (next_hop: string) => gatewayOf({ ...NEW, wan: { ...NEW.wan, next_hop } }).wan;
  expect(wan("198.51.100.1")).toEqual({ port: 1, vlan: 0, mtu: 1500, mac: "", next_hop: "198.51.100.1" });
  expect(wan("2001:db8::1, 198.51.100.1").next_hop).toEqual(["2001:db8::1", "198.51.100.1"]);
  for (const mac of ["02:00:00:00:01:02", "02-00-00-00-01-02", "0200.0000.0102", "020000000102"])
    expect(wan(mac).next_hop_mac).toBe(mac);
  expect(wan("")).toMatchObject({ next_hop: "" });
});

test("a gateway that is opened and saved without a change stays as it was", () => {
  const asked = {
    name: "gw",
    kind: "bmv2" as const,
    address: "198.51.100.2",
    address6: null,
    public_address: null,
    public_address6: "2001:db8::2",
    p4runtime: "10.255.0.2:9559",
    device_id: 7,
    pool: "10.99.0.0/24",
    pool6: null,
    suite: "aes-gcm-128" as const,
    legacy_suites: ["aes-cbc-256-hmac-sha256" as never],
    wan: {
      port: 1,
      mac: "02:00:00:00:01:01",
      next_hop: ["198.51.100.1", "198.51.100.3"],
      vlan: 7,
      mtu: 1400,
    },
    lan: {
      port: 2,
      mac: "02:00:00:00:02:01",
      address: "10.20.0.1",
      prefix: "10.20.0.0/16",
      neighbours: { "10.20.0.10": null, "10.20.0.254": "02:00:00:00:02:fe" },
      routes: { "10.30.0.0/16": "10.20.0.254" },
      address6: null,
      prefix6: null,
      vlan: 8,
      mtu: 9000,
    },
  };
  const shown = { ...asked, state: "online", tunnels: 3 } as unknown as GatewayOut;
  expect(gatewayOf(formOf(shown))).toEqual(asked);
});

test("entries are grouped by table and show their fields", () => {
  const entry = (table: string) => ({
    table,
    priority: 0,
    match: { spi: 7, dst: [8, 24] as [number, number] },
    action: "a",
    params: {},
  });
  expect(byTable([entry("b"), entry("a"), entry("b")]).map(([table, rows]) => [table, rows.length])).toEqual([
    ["a", 1],
    ["b", 2],
  ]);
  expect(words(entry("a").match)).toBe("spi 7  dst 8/24");
  expect(words({ dst: 0xffff_0a14_000a, spi: 0xffff_0a14_000a })).toBe("dst 10.20.0.10  spi 281470850826250");
});
