import { expect, test } from "vitest";

import { changeOf, fieldsOf, formOf, stateOf, VALIDATE } from "./form";
import type { SiteTunnel } from "./queries";

const REKEY = { soft_packets: 7, soft_bytes: 0, soft_seconds: 0 };
const TUNNEL: SiteTunnel = {
  name: "berlin-paris",
  ends: [
    {
      gateway: "gw-berlin",
      resources: [],
      targets: [{ prefix: "10.1.0.0/24", protocol: "tcp", ports: ["443"] }],
      profiles: [],
      address: "198.51.100.1",
      online: true,
    },
    {
      gateway: "gw-paris",
      resources: ["wiki"],
      targets: [],
      profiles: [{ prefix: "10.2.0.10/32", protocol: "any", ports: [] }],
      address: "198.51.100.2",
      online: false,
    },
  ],
  owner: "bob@corp.example",
  suite: null,
  rekey: REKEY,
  effective_suite: "aes-gcm-256",
  effective_rekey: REKEY,
  legacy: false,
  state: "up",
  reason: "",
  generation: 1,
  keyed_at: null,
  created_at: "2026-01-31T09:00:00Z",
};

test("an unchanged form sends the same values, without the server's own fields", () => {
  const [berlin, paris] = TUNNEL.ends;
  expect(changeOf(formOf(TUNNEL))).toEqual({
    ends: [
      { gateway: "gw-berlin", resources: [], targets: berlin?.targets },
      { gateway: "gw-paris", resources: ["wiki"], targets: paris?.targets },
    ],
    owner: "bob@corp.example",
    suite: null,
    rekey: REKEY,
  });
  // Without limits of its own, it keeps following the resources'.
  expect(changeOf(formOf({ ...TUNNEL, rekey: null })).rekey).toBeNull();
});

test("an end needs a resource or an address, and the ends are two gateways", () => {
  const form = formOf(TUNNEL);
  const { gateway, resources } = VALIDATE.ends;
  expect(resources([], form, "ends.1.resources")).toBe("Choose a resource, or add an address");
  expect(resources([], form, "ends.0.resources")).toBeNull();
  expect(gateway("gw-paris", form)).toBeNull();
  const twice = form.ends.map((end) => ({ ...end, gateway: "gw-paris" }));
  expect(gateway("gw-paris", { ...form, ends: twice })).toBe("Choose two different gateways");
});

test("each address of either end has a field for its faults", () => {
  expect(fieldsOf(formOf(TUNNEL))).toEqual(
    expect.arrayContaining(["ends.0.targets.0.prefix", "ends.1.resources", "suite"]),
  );
});

test("a tunnel whose keys change is up", () => {
  expect(stateOf({ state: "switching", generation: 1 }).word).toBe("coming up");
  expect(stateOf({ state: "switching", generation: 2 }).word).toBe("up, changing keys");
});
