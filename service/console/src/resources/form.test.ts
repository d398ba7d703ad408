import { expect, test } from "vitest";

import { differences } from "../shared/differences";
import { completed, fieldsOf, formOf, isOutside, NEW, resourceOf, zoneNames } from "./form";
import type { Resource } from "./queries";
import { rowOf, shown, targetOf } from "./target";

const WIKI: Resource = {
  name: "wiki",
  fqdn: "wiki.corp.example",
  display_name: "wiki.corp.example",
  targets: [{ prefix: "10.20.0.10/32", protocol: "tcp", ports: ["443", "8000-8100"] }],
  gateways: ["gw-berlin", "gw-paris"],
  weights: { "gw-berlin": 3, "gw-paris": 1 },
  users: ["alice"],
  owner: "bob@corp.example",
  idle_seconds: 60,
  rekey: { soft_packets: 7, soft_bytes: 0, soft_seconds: 0 },
  suite: "chacha20-poly1305",
  created_at: "2026-01-31T09:00:00Z",
};

test("a name is outside of the zones unless it is in one of them, however that is written", () => {
  const zones = [
    { name: "dev.corp.example", display_name: "dev.corp.example" },
    { name: "xn--bcher-kva.example", display_name: "bücher.example" },
  ];
  expect(zoneNames(zones)).toEqual(["bücher.example", "dev.corp.example"]);
  for (const name of ["Wiki.dev.corp.example.", "*.dev.corp.example", "a.bücher.example", "dev.corp.example"])
    expect(isOutside(name, zones)).toBe(false);
  for (const name of ["wiki.corp.example", "xdev.corp.example"]) expect(isOutside(name, zones)).toBe(true);
  // The controller says that a name of one part is no full name.
  expect(isOutside("wiki", zones)).toBe(false);
});

test("a name of one part gets the only zone appended", () => {
  const [dev, corp] = [{ display_name: "dev.example" }, { display_name: "corp.example" }];
  expect(completed(" wiki ", [corp])).toBe("wiki.corp.example");
  for (const name of ["", "wiki.dev", "*"]) expect(completed(name, [corp])).toBe(name);
  for (const zones of [[], [dev, corp]]) expect(completed("wiki", zones)).toBe("wiki");
});

test("a pasted URL becomes its host name", () => {
  for (const url of [
    "https://hr.corp.example/",
    " http://hr.corp.example:8080/a:b?c#d ",
    "https://eve@hr.corp.example",
    "hr.corp.example:443",
    "hr.corp.example/start",
  ]) {
    expect(completed(url, [])).toBe("hr.corp.example");
    expect(resourceOf({ ...NEW, fqdn: url }).fqdn).toBe("hr.corp.example");
  }
  expect(completed("https://bücher/", [{ display_name: "corp.example" }])).toBe("bücher.corp.example");
  for (const other of ["*.dev.corp.example", "hr corp.example", "https://", "a://b://c"])
    expect(completed(other, [])).toBe(other);
});

test("an unchanged form makes the same resource", () => {
  const { created_at, display_name } = WIKI;
  expect({ ...resourceOf(formOf(WIKI), WIKI), created_at, display_name }).toEqual(WIKI);
});

test("a name is edited with U-labels, unless it could pass for another", () => {
  const books = { ...WIKI, fqdn: "xn--bcher-kva.corp.example", display_name: "bücher.corp.example" };
  expect(formOf(books).fqdn).toBe("bücher.corp.example");
  expect(resourceOf(formOf(books), books).fqdn).toBe(books.fqdn);
  const alike = "xn--e1awd7f.corp.example";
  expect(formOf({ ...WIKI, fqdn: alike, display_name: `еріс.corp.example (${alike})` }).fqdn).toBe(alike);
});

test("each gateway has a weight while weights decide, and a single one has none", () => {
  const form = formOf(WIKI);
  expect(resourceOf({ ...form, gateways: ["gw-paris", "gw-berlin"] }, WIKI).weights).toEqual(WIKI.weights);
  expect(resourceOf({ ...form, gateways: ["gw-paris", "gw-rome"] }, WIKI).weights).toEqual({
    "gw-paris": 1,
    "gw-rome": 1,
  });
  expect(resourceOf({ ...form, gateways: ["gw-paris"] }, WIKI).weights).toEqual({});
  expect(resourceOf({ ...form, weighted: false }, WIKI).weights).toEqual({});
});

test("ports are separated by commas or spaces, and dropped for protocols without ports", () => {
  expect(targetOf({ prefix: " 10.0.0.1 ", protocol: "tcp", ports: "443,  80-90 22" })).toEqual({
    prefix: "10.0.0.1",
    protocol: "tcp",
    ports: ["443", "80-90", "22"],
  });
  expect(targetOf({ prefix: "10.0.0.1", protocol: "icmp", ports: "443" }).ports).toEqual([]);
  expect(rowOf({ prefix: "fd00::1/128" })).toEqual({ prefix: "fd00::1/128", protocol: "any", ports: "" });
});

test("a host is shown without its prefix length", () => {
  expect(shown({ prefix: "10.20.0.10/32", protocol: "tcp", ports: ["443"] })).toBe("10.20.0.10 tcp 443");
  expect(shown({ prefix: "fd00::32/128" })).toBe("fd00::32");
  expect(shown({ prefix: "10.20.0.0/16" })).toBe("10.20.0.0/16");
});

test("each target has a field for its faults", () => {
  expect(fieldsOf(NEW)).toEqual(expect.arrayContaining(["name", "targets", "targets.0.prefix"]));
});

test("two versions' differences leave out the server's own fields", () => {
  const mine = resourceOf({ ...formOf(WIKI), owner: "eve@corp.example", users: [] }, WIKI);
  expect(differences(mine, WIKI)).toEqual([
    { field: "People", theirs: "alice", mine: "—" },
    { field: "Owner", theirs: "bob@corp.example", mine: "eve@corp.example" },
  ]);
});

test("of a field with parts, only the differing parts are shown", () => {
  const mine = { enabled: true, conditions: { code_max_age_seconds: 600, sources: ["10.0.0.0/8"] } };
  const theirs = { enabled: false, conditions: { code_max_age_seconds: null, sources: ["10.0.0.0/8"] } };
  expect(differences(mine, theirs)).toEqual([
    { field: "In force", theirs: "no", mine: "yes" },
    { field: "Conditions: code max age seconds", theirs: "—", mine: "600" },
  ]);
});
