import { expect, test } from "vitest";

import type { Gateway, Zone } from "../live/live";
import { deniedSince, needsOf, type Known } from "./needs";

const NOW = Date.parse("2026-11-27T12:00:00Z");
const NOTHING: Known = {
  pending: { count: 0, isMore: false },
  deniedToday: 0,
  gateways: [],
  zones: [],
  certificates: [],
  broken: 0,
  unused: { count: 0, isMore: false },
};
const gateway = (name: string, certificate_expires_at: string | null) =>
  ({ name, keys: { certificate_expires_at } }) as Gateway;
const zone = (state: Zone["state"], message: string | null) =>
  ({ name: state, display_name: "corp.example", state, message }) as Zone;
const words = (known: Partial<Known>) => needsOf({ ...NOTHING, ...known }, NOW).map((need) => need.words);

test("nothing needs anybody where nothing is wrong", () => {
  expect(words({ gateways: [gateway("gw", null), gateway("gw2", "2027-11-27T12:00:00Z")] })).toEqual([]);
  expect(words({ zones: [zone("live", "its key may not write TXT"), zone("pending", null)] })).toEqual([]);
});

test("assertions that do not hold are counted", () => {
  expect(words({ broken: 1 })).toEqual(["1 assertion does not hold"]);
  expect(words({ broken: 1200 })).toEqual(["1,200 assertions do not hold"]);
});

test("policies that nobody uses are counted", () => {
  expect(words({ unused: { count: 1, isMore: false } })).toEqual([
    "1 policy that nobody has used for 90 days",
  ]);
  expect(words({ unused: { count: 20, isMore: true } })).toEqual([
    "More than 20 policies that nobody has used for 90 days",
  ]);
});

test("certificates are said before they end, and zones with their reason", () => {
  expect(
    words({ gateways: [gateway("gw", "2026-12-20T12:00:00Z"), gateway("old", "2026-11-26T12:00:00Z")] }),
  ).toEqual([
    expect.stringMatching(/^The certificate of gw ends on /),
    expect.stringMatching(/^The certificate of old ended on /),
  ]);
  const ca = (kind: "ca" | "server", expires_at: string) => ({
    name: "devices",
    kind,
    expires_at,
    fingerprint: "",
  });
  expect(
    words({ certificates: [ca("ca", "2027-01-27T12:00:00Z"), ca("server", "2026-12-01T12:00:00Z")] }),
  ).toEqual([expect.stringMatching(/^The authority “devices” ends on /)]);
  expect(words({ zones: [zone("refused", "ns1 refused the update."), zone("unreachable", null)] })).toEqual([
    "ns1 refused the update.",
    "Records of corp.example are not live",
  ]);
});

test("devices that wait and denials of the day are counted", () => {
  expect(words({ pending: { count: 1, isMore: false }, deniedToday: 12 })).toEqual([
    "1 device waits for approval",
    "12 denials today",
  ]);
  expect(words({ pending: { count: 20, isMore: true } })).toEqual(["More than 20 devices wait for approval"]);
  const midnight = new Date(NOW).setHours(0, 0, 0, 0);
  const hour = (at: number, denied: number) => ({ at: new Date(at).toISOString(), opened: 0, denied });
  expect(
    deniedSince([hour(midnight - 3_600_000, 5), hour(midnight, 2), hour(midnight + 3_600_000, 1)], NOW),
  ).toBe(3);
});

test("gateways to upgrade are one line, which leads to the one or to all", () => {
  const of = (name: string, is_outdated: boolean) => ({
    ...gateway(name, null),
    software: is_outdated ? "0.9.0" : null,
    is_outdated,
  });
  expect(words({ gateways: [of("direct", false)] })).toEqual([]);
  const [one] = needsOf({ ...NOTHING, gateways: [of("gw", true), of("direct", false)] }, NOW);
  expect(one?.words).toBe("gw runs version 0.9.0, which is older than the controller’s");
  expect(one?.to).toEqual({ to: "/gateways/of/$name", params: { name: "gw" } });
  const [both, ...rest] = needsOf({ ...NOTHING, gateways: [of("gw", true), of("gw2", true)] }, NOW);
  expect([both?.words, both?.to, rest]).toEqual([
    "2 gateways to upgrade: their version is older than the controller’s",
    { to: "/gateways" },
    [],
  ]);
});
