/** The way from an empty controller to the first page that opens. Pure. */
import { msg } from "@lingui/core/macro";
import type { LinkProps } from "@tanstack/react-router";

import type { Text } from "../locale/language";

/** The steps that have happened; null: not known yet. */
export interface Happened {
  gateway: boolean | null;
  resource: boolean | null;
  record: boolean | null;
  invited: boolean | null;
  opened: boolean | null;
}

export interface Step {
  what: keyof Happened;
  title: Text;
  /** The instruction. */
  how: Text;
  act: Text;
  to: NonNullable<LinkProps["to"]>;
}

export const STEPS: readonly Step[] = [
  {
    what: "gateway",
    title: msg`A gateway is connected`,
    how: msg`Add the gateway of a site: one line makes a computer join.`,
    act: msg`Add a gateway`,
    to: "/gateways/join",
  },
  {
    what: "resource",
    title: msg`A resource is added`,
    how: msg`Publish the first name behind the gateway, such as wiki.corp.example.`,
    act: msg`Add a resource`,
    to: "/resources/new",
  },
  {
    what: "record",
    title: msg`The resource’s DNS record is live`,
    how: msg`Culvert writes it into your zone; the DNS page shows its state.`,
    act: msg`Open DNS`,
    to: "/dns",
  },
  {
    what: "invited",
    title: msg`A person is invited`,
    how: msg`Send a person the link that enrols their computer.`,
    act: msg`Open People`,
    to: "/people",
  },
  {
    what: "opened",
    title: msg`The first page is opened`,
    how: msg`The person opens the name in a browser; there is no “connect” button.`,
    act: msg`See what happens`,
    to: "/activity",
  },
];

export type State = "unknown" | "begun" | "finished";

/** An opened page needed each step before it, whatever is left of them now. */
export function stateOf(happened: Happened): State {
  if (happened.opened) return "finished";
  const all = STEPS.map(({ what }) => happened[what]);
  if (all.includes(null)) return "unknown";
  return all.includes(false) ? "begun" : "finished";
}

/** The next step: the first that has not happened. */
export const nextOf = (happened: Happened): Step | undefined =>
  STEPS.find(({ what }) => happened[what] === false);
