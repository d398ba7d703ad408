/** The way from an empty controller to the first page that opens. Pure. */
import type { LinkProps } from "@tanstack/react-router";

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
  title: string;
  /** The instruction. */
  how: string;
  act: string;
  to: NonNullable<LinkProps["to"]>;
}

export const STEPS: readonly Step[] = [
  {
    what: "gateway",
    title: "A gateway is connected",
    how: "Add the gateway of a site: one line makes a computer join.",
    act: "Add a gateway",
    to: "/gateways/join",
  },
  {
    what: "resource",
    title: "A resource is added",
    how: "Publish the first name behind the gateway, such as wiki.corp.example.",
    act: "Add a resource",
    to: "/resources/new",
  },
  {
    what: "record",
    title: "The resource’s DNS record is live",
    how: "Culvert writes it into your zone; the DNS page shows its state.",
    act: "Open DNS",
    to: "/dns",
  },
  {
    what: "invited",
    title: "A person is invited",
    how: "Send a person the link that enrols their computer.",
    act: "Open People",
    to: "/people",
  },
  {
    what: "opened",
    title: "The first page is opened",
    how: "The person opens the name in a browser; there is no “connect” button.",
    act: "See what happens",
    to: "/activity",
  },
];

export type State = "unknown" | "under way" | "finished";

/** An opened page needed each step before it, whatever is left of them now. */
export function stateOf(happened: Happened): State {
  if (happened.opened) return "finished";
  const all = STEPS.map(({ what }) => happened[what]);
  if (all.includes(null)) return "unknown";
  return all.includes(false) ? "under way" : "finished";
}

/** The next step: the first that has not happened. */
export const nextOf = (happened: Happened): Step | undefined =>
  STEPS.find(({ what }) => happened[what] === false);
