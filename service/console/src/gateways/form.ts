/** A new gateway as its form has it. Pure. */
import type { Schemas } from "../api/client";

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
  wan: { port: 1, mac: "", next_hop_mac: "" },
  lan: { port: 2, mac: "", address: "", prefix: "", neighbours: "" },
};
export type GatewayForm = typeof NEW;

/** A line of the neighbours' field is an address and its MAC. */
const NEIGHBOUR = /^\s*(\S+)[\s=,]+(\S+)\s*$/;

export const VALIDATE = {
  lan: {
    neighbours: (lines: string) => {
      const wrong = linesOf(lines).find((line) => !NEIGHBOUR.test(line));
      return wrong === undefined ? null : `“${wrong}” is no address with its MAC`;
    },
  },
};

export function gatewayOf({
  lan,
  wan,
  address6,
  public_address,
  public_address6,
  pool6,
  kind,
  connects,
  p4runtime,
  ...rest
}: GatewayForm): Schemas["GatewayIn"] {
  const { neighbours, ...port } = lan;
  const pairs = linesOf(neighbours).map((line) => NEIGHBOUR.exec(line)?.slice(1, 3) ?? []);
  return {
    ...rest,
    kind: kind as NonNullable<Schemas["GatewayIn"]["kind"]>,
    p4runtime: connects === "gateway" ? null : p4runtime,
    ...(address6 !== "" && { address6 }),
    ...(public_address !== "" && { public_address }),
    ...(public_address6 !== "" && { public_address6 }),
    ...(pool6 !== "" && { pool6 }),
    wan,
    lan: { ...port, neighbours: Object.fromEntries(pairs) as Record<string, string> },
  };
}

/** The paths of the form's fields, beside which faults are shown. */
export const FIELDS = [
  ...Object.keys(NEW).filter((field) => field !== "wan" && field !== "lan"),
  ...Object.keys(NEW.wan).map((field) => `wan.${field}`),
  ...Object.keys(NEW.lan).map((field) => `lan.${field}`),
];

const linesOf = (lines: string): string[] => lines.split("\n").filter((line) => line.trim() !== "");
