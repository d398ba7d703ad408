/** A gateway as its form has it. Pure. */
import { t } from "@lingui/core/macro";

import type { Schemas } from "../api/client";

export type GatewayIn = Schemas["GatewayIn"];
export type GatewayOut = Schemas["GatewayOut"];

export const NEW = {
  name: "",
  kind: "sluice",
  address: "",
  address6: "",
  public_address: "",
  public_address6: "",
  /** The end that connects: only with the controller the gateway has a P4Runtime address. */
  connects: "gateway",
  p4runtime: "",
  pool: "",
  pool6: "",
  suite: "aes-gcm-256",
  legacy_suites: [] as string[],
  device_id: 1,
  wan: { port: 1, vlan: 0, mtu: 1500, mac: "", next_hop: "" },
  lan: {
    port: 2,
    vlan: 0,
    mtu: 1500,
    mac: "",
    address: "",
    prefix: "",
    address6: "",
    prefix6: "",
    neighbours: "",
    routes: "",
  },
};
export type GatewayForm = typeof NEW;

/** A line of an address, and of its MAC address where that is fixed. */
const NEIGHBOUR = /^\s*(\S+?)(?:[\s=,]+(\S+))?\s*$/;
/** A line of a prefix and of the neighbour that leads there. */
const ROUTE = /^\s*(\S+)[\s=,]+(\S+)\s*$/;
const MAC = /^(?:(?:[0-9a-z]{1,2}[:-]){5}[0-9a-z]{1,2}|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}|[0-9a-f]{12})$/i;

export const VALIDATE = {
  lan: {
    neighbours: (lines: string) => {
      const wrong = linesOf(lines).find((line) => !NEIGHBOUR.test(line));
      return wrong === undefined ? null : t`“${wrong}” is neither an address nor an address with its MAC`;
    },
    routes: (lines: string) => {
      const wrong = linesOf(lines).find((line) => !ROUTE.test(line));
      return wrong === undefined ? null : t`“${wrong}” is no prefix with the address of a neighbour`;
    },
  },
};

export function formOf(gateway: GatewayOut): GatewayForm {
  const { wan, lan } = gateway;
  return {
    name: gateway.name,
    kind: gateway.kind,
    address: gateway.address,
    address6: gateway.address6 ?? "",
    public_address: gateway.public_address ?? "",
    public_address6: gateway.public_address6 ?? "",
    connects: gateway.p4runtime === null ? "gateway" : "controller",
    p4runtime: gateway.p4runtime ?? "",
    pool: gateway.pool,
    pool6: gateway.pool6 ?? "",
    suite: gateway.suite,
    legacy_suites: gateway.legacy_suites,
    device_id: gateway.device_id,
    wan: {
      port: wan.port,
      vlan: wan.vlan ?? NEW.wan.vlan,
      mtu: wan.mtu ?? NEW.wan.mtu,
      mac: wan.mac,
      next_hop: [wan.next_hop ?? wan.next_hop_mac ?? []].flat().join(", "),
    },
    lan: {
      port: lan.port,
      vlan: lan.vlan ?? NEW.lan.vlan,
      mtu: lan.mtu ?? NEW.lan.mtu,
      mac: lan.mac,
      address: lan.address,
      prefix: lan.prefix,
      address6: lan.address6 ?? "",
      prefix6: lan.prefix6 ?? "",
      neighbours: Object.entries(lan.neighbours ?? {})
        .map(([address, mac]) => [address, mac].filter(Boolean).join(" "))
        .join("\n"),
      routes: Object.entries(lan.routes ?? {})
        .map((route) => route.join(" "))
        .join("\n"),
    },
  };
}

/** The body to send. */
export function gatewayOf(form: GatewayForm): GatewayIn {
  const { wan, lan } = form;
  const hops = wan.next_hop.split(/[\s,]+/).filter(Boolean);
  return {
    name: form.name.trim(),
    kind: form.kind as NonNullable<GatewayIn["kind"]>,
    address: form.address,
    address6: orNull(form.address6),
    public_address: orNull(form.public_address),
    public_address6: orNull(form.public_address6),
    p4runtime: form.connects === "gateway" ? null : form.p4runtime,
    pool: form.pool,
    pool6: orNull(form.pool6),
    suite: form.suite as NonNullable<GatewayIn["suite"]>,
    legacy_suites: form.legacy_suites as NonNullable<GatewayIn["legacy_suites"]>,
    device_id: form.device_id,
    wan: {
      port: wan.port,
      vlan: wan.vlan,
      mtu: wan.mtu,
      mac: wan.mac,
      [hops.length > 0 && hops.every((hop) => MAC.test(hop)) ? "next_hop_mac" : "next_hop"]:
        hops.length > 1 ? hops : (hops[0] ?? ""),
    },
    lan: {
      port: lan.port,
      vlan: lan.vlan,
      mtu: lan.mtu,
      mac: lan.mac,
      address: lan.address,
      prefix: lan.prefix,
      address6: orNull(lan.address6),
      prefix6: orNull(lan.prefix6),
      neighbours: Object.fromEntries(
        linesOf(lan.neighbours).map((line) => {
          const [, address = "", mac] = NEIGHBOUR.exec(line) ?? [];
          return [address, mac ?? null];
        }),
      ),
      routes: Object.fromEntries(
        linesOf(lan.routes).map((line) => {
          const [, prefix = "", router = ""] = ROUTE.exec(line) ?? [];
          return [prefix, router];
        }),
      ),
    },
  };
}

/** The paths of the form's fields, beside which faults are shown. */
export const FIELDS = [
  ...Object.keys(NEW).filter((field) => field !== "wan" && field !== "lan"),
  ...[...Object.keys(NEW.wan), "next_hop_mac"].map((field) => `wan.${field}`),
  ...Object.keys(NEW.lan).map((field) => `lan.${field}`),
  "wan",
  "lan",
];

/** A fault of a whole port is shown at the field that most of them concern. */
export const RENAMED = { "wan.next_hop_mac": "wan.next_hop", wan: "wan.next_hop", lan: "lan.neighbours" };

const orNull = (text: string): string | null => (text.trim() === "" ? null : text.trim());

const linesOf = (lines: string): string[] => lines.split("\n").filter((line) => line.trim() !== "");
