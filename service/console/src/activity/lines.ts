/** The actor and the object of an audit log line in words. Pure. */
import type { Line } from "./queries";

type About = Pick<Line, "object" | "details" | "names">;

/** "laptop of alice" for a device that is there still, else its id. */
export function actorOf({ actor, names }: Pick<Line, "actor" | "names">): string {
  return names[actor] ?? actor;
}

/** "tunnel to wiki.corp.example, of laptop of alice, at gw-berlin"; "device laptop of alice"; "resource wiki". */
export function objectOf({ object, details, names }: About): string {
  const place = object.indexOf("/");
  const [kind, id] = place < 0 ? [object, ""] : [object.slice(0, place), object.slice(place + 1)];
  if (kind !== "tunnel") return [kind, names[id] ?? id].filter(Boolean).join(" ");
  const device = details["device"];
  const name = details["name"] ?? id;
  const reached = names[name] ?? name;
  return [
    `tunnel to ${reached}`,
    typeof device === "string" && `of ${names[device] ?? device}`,
    details["gateway"] !== undefined && `at ${details["gateway"]}`,
    details["from"] !== undefined && `moved from ${details["from"]}`,
  ]
    .filter(Boolean)
    .join(", ");
}
