import { expect, test } from "vitest";

import type { Gateway, Tunnel } from "../live/live";
import { mayWrite } from "../session/permission";
import { age, closes, rate } from "../shared/words";
import { layout } from "./layout";
import { lossOf, lossWords } from "./losses";

function tunnel(device: string, gateway: string, resource: string, minute = 0): Tunnel {
  return {
    device_id: device,
    device,
    user: `user of ${device}`,
    user_display_name: null,
    gateway,
    resource,
    fqdn: `${resource}.corp.example`,
    display_name: `${resource}.corp.example`,
    opened_at: `2026-01-31T09:${String(minute).padStart(2, "0")}:00Z`,
  } as Tunnel;
}

const gateway = (name: string, more: Partial<Gateway> = {}) =>
  ({ name, state: "online", reason: "", draining_since: null, tunnels: 0, ...more }) as Gateway;

test("tunnels with the same ends share a line with their number", () => {
  const { spans } = layout(
    [tunnel("a", "gw", "wiki"), tunnel("a", "gw", "git"), tunnel("b", "gw", "wiki")],
    [gateway("gw")],
  );
  expect(spans.find(({ id }) => id === "device/a>gateway/gw")?.tunnels).toBe(2);
  expect(spans.find(({ id }) => id === "gateway/gw>resource/wiki")?.tunnels).toBe(2);
  expect(spans).toHaveLength(4);
});

test("a line has its tunnels' total rate and the oldest's opening time", () => {
  const tunnels = [tunnel("a", "gw", "wiki", 5), tunnel("a", "gw", "git", 3)];
  tunnels.forEach((one, at) => (one.id = `t${at}`));
  const rates = new Map([["t0", { from_device: 10, to_device: 5 }]]);
  const { spans } = layout(tunnels, [gateway("gw")], rates);
  expect(spans[0]).toMatchObject({ rate: 15, since: "2026-01-31T09:03:00Z" });
  expect(spans.find(({ to }) => to === "resource/git")?.rate).toBe(0);
});

test("an offline gateway counts its moved and waiting tunnels", () => {
  const moved = (to: string) => ({ ...tunnel("a", to, "wiki"), moved_from: "gw" });
  const tunnels = [moved("paris"), moved("paris"), moved("rome"), tunnel("b", "gw", "git")];
  expect(lossWords(lossOf("gw", tunnels))).toBe(
    "2 tunnels moved to paris, 1 tunnel moved to rome, 1 tunnel waits",
  );
  expect(lossWords(lossOf("paris", []))).toBe("");
  const { spots } = layout(tunnels, [gateway("gw", { state: "offline", reason: "no answer" })]);
  expect(spots.find(({ id }) => id === "gateway/gw")?.about).toContain("moved to paris");
});

test("a gateway without tunnels is drawn with the reason why it is offline", () => {
  const { spots } = layout([], [gateway("gw", { state: "offline", reason: "no answer" })]);
  expect(spots).toEqual([expect.objectContaining({ state: "offline", about: "no answer" })]);
});

test("the newest 24 tunnels are drawn with both ends, and the rest is counted", () => {
  const many = Array.from({ length: 40 }, (_, at) => tunnel(`d${at}`, "gw", "wiki", at));
  const { spots, spans, left } = layout(many, [gateway("gw")]);
  const ids = new Set(spots.map(({ id }) => id));
  expect(left).toBe(16);
  expect(ids.has("device/d39")).toBe(true);
  expect(ids.has("device/d0")).toBe(false);
  expect(spans.every(({ from, to }) => ids.has(from) && ids.has(to))).toBe(true);
});

test("the spots of a column do not overlap", () => {
  const { spots } = layout(
    [tunnel("a", "g", "x"), tunnel("b", "g", "y"), tunnel("c", "h", "x")],
    [gateway("g"), gateway("h")],
  );
  const places = spots.map(({ column, y }) => `${column} ${y}`);
  expect(new Set(places).size).toBe(places.length);
});

test("numbers and times in words", () => {
  expect([closes(1), closes(1200)]).toEqual(["Closes 1 tunnel", "Closes 1,200 tunnels"]);
  expect([age(0, 59_000), age(0, 61_000), age(0, 7_200_000), age(5000, 0)]).toEqual([
    "59 s",
    "1 min",
    "2 h",
    "0 s",
  ]);
});

test("a role may write the areas that the controller permits", () => {
  expect([mayWrite("owner", "admins"), mayWrite("admin", "resources")]).toEqual([true, true]);
  expect([mayWrite("admin", "admins"), mayWrite("auditor", "resources")]).toEqual([false, false]);
});

test("a rate is shown in bits, with two or three figures", () => {
  expect([0, 1, 125, 1_537, 125_000, 15_400_000, 1e15].map(rate)).toEqual([
    "0 bit/s",
    "8 bit/s",
    "1 kbit/s",
    "12 kbit/s",
    "1 Mbit/s",
    "123 Mbit/s",
    "8,000 Tbit/s",
  ]);
});

test("resources without a tunnel stand greyed below the others, as far as there is room", () => {
  const known = ["git", "wiki", "zoo"].map((name) => ({ name, display_name: `${name}.corp.example` }));
  const { spots } = layout([tunnel("a", "gw", "wiki")], [gateway("gw")], undefined, known);
  const resources = spots.filter(({ column }) => column === "resource");
  expect(resources.map(({ title, state }) => [title, state])).toEqual([
    ["wiki.corp.example", "online"],
    ["git.corp.example", "idle"],
    ["zoo.corp.example", "idle"],
  ]);
  const many = Array.from({ length: 40 }, (_, at) => ({ name: `r${at}`, display_name: `r${at}` }));
  expect(layout([], [gateway("gw")], undefined, many).spots).toHaveLength(25);
});
