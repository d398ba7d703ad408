/** The way from an empty controller to the first page that opens. Pure. */
import { msg } from "@lingui/core/macro";
import type { LinkProps } from "@tanstack/react-router";

import type { Text } from "../locale/language";

/** The steps that have happened; null: not known yet. */
export interface Happened {
  gateway: boolean | null;
  zone: boolean | null;
  resource: boolean | null;
  record: boolean | null;
  invited: boolean | null;
  allowed: boolean | null;
  opened: boolean | null;
}

export interface Step {
  what: keyof Happened;
  title: Text;
  /** The instruction. */
  how: Text;
  act: Text;
  /** The steps without which this one cannot be done. */
  needs: readonly (keyof Happened)[];
  to: NonNullable<LinkProps["to"]>;
}

export const STEPS: readonly Step[] = [
  {
    what: "gateway",
    title: msg`A gateway is connected`,
    how: msg`Add the gateway of a site: one line makes a computer join.`,
    act: msg`Add a gateway`,
    needs: [],
    to: "/gateways/join",
  },
  {
    what: "zone",
    title: msg`A zone is added`,
    how: msg`Add the name server at which Culvert publishes names such as wiki.corp.example.`,
    act: msg`Add a zone`,
    needs: [],
    to: "/dns",
  },
  {
    what: "resource",
    title: msg`A resource is added`,
    how: msg`Publish the first name behind the gateway, such as wiki.corp.example.`,
    act: msg`Add a resource`,
    needs: ["gateway"],
    to: "/resources/new",
  },
  {
    what: "record",
    title: msg`The resource’s DNS record is live`,
    how: msg`Culvert writes it into the zone. The DNS page shows what is missing.`,
    act: msg`Open DNS`,
    needs: ["zone", "resource"],
    to: "/dns",
  },
  {
    what: "invited",
    title: msg`A person is invited`,
    how: msg`Send a person the link that enrols their computer.`,
    act: msg`Open People`,
    needs: [],
    to: "/people",
  },
  {
    what: "allowed",
    title: msg`A person may open the resource`,
    how: msg`Choose the people in the resource; until then everybody is denied.`,
    act: msg`Open Resources`,
    needs: ["resource"],
    to: "/resources",
  },
  {
    what: "opened",
    title: msg`The first page is opened`,
    how: msg`The person opens the name in a browser; there is no “connect” button.`,
    act: msg`See what happens`,
    needs: ["gateway", "resource", "invited", "allowed"],
    to: "/activity",
  },
];

const OPTIONAL: ReadonlySet<keyof Happened> = new Set(["zone", "record"]);

export type State = "unknown" | "begun" | "finished";

export interface ShownStep extends Step {
  number: number;
  isDone: boolean;
  /** The numbers of the steps that it needs, which have not happened. */
  missing: number[];
}

/**
 * The steps of this installation. An opened page needed each step before it, whatever is left of them now, but neither a
 * zone nor a record: an own DNS may answer for the names.
 */
export function stepsOf(happened: Happened): readonly ShownStep[] {
  const isShown = ({ what }: Step) => !OPTIONAL.has(what) || happened[what] === true || !happened.opened;
  const isDone = (what: keyof Happened) => happened.opened === true || happened[what] === true;
  const shown = STEPS.filter(isShown);
  return shown.map((step, at) => ({
    ...step,
    number: at + 1,
    isDone: isDone(step.what),
    missing: shown.flatMap(({ what }, place) =>
      step.needs.includes(what) && !isDone(what) ? [place + 1] : [],
    ),
  }));
}

/** `isOld`: lines of the log have been removed by their age; null: not known yet. */
export function stateOf(happened: Happened, isOld: boolean | null): State {
  if (happened.opened) return "finished";
  const { gateway, resource } = happened;
  const all = [...STEPS.map(({ what }) => happened[what]), isOld];
  // The log of an old installation no longer says what has happened; an empty one begins anew.
  if (isOld && (gateway || resource)) return "finished";
  if (all.includes(null)) return "unknown";
  return STEPS.some(({ what }) => happened[what] === false) ? "begun" : "finished";
}

/** The next step: the first that has not happened. */
export const nextOf = (happened: Happened): Step | undefined =>
  STEPS.find(({ what }) => happened[what] === false);
