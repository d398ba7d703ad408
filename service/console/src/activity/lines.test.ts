import { expect, test } from "vitest";

import { actOf, actorOf, listActs, objectOf, questionOf, sentenceOf } from "./lines";

const ID = "5a3c0c9e-0000-4000-8000-000000000001";
const names = { [ID]: "laptop of alice" };

test("devices and people have their names, or their ids once they are deleted", () => {
  expect(actorOf({ actor: ID, names })).toBe("laptop of alice");
  expect(actorOf({ actor: ID, names: {} })).toBe(ID);
  expect(objectOf({ object: `device/${ID}`, details: {}, names })).toBe("device laptop of alice");
  expect(objectOf({ object: "resource/wiki", details: {}, names })).toBe("resource wiki");
  expect(objectOf({ object: "role/auditor", details: {}, names })).toBe("role Auditor");
  expect(objectOf({ object: "controller", details: {}, names })).toBe("controller");
});

test("names are shown with U-labels", () => {
  const name = "xn--bcher-kva.corp.example";
  const spoken = { [name]: "bücher.corp.example" };
  expect(objectOf({ object: `name/${name}`, details: {}, names: spoken })).toBe("name bücher.corp.example");
  expect(objectOf({ object: "tunnel/x", details: { name }, names: spoken })).toBe(
    "tunnel to bücher.corp.example",
  );
});

test("a tunnel's line has its name, device, gateway and previous gateway", () => {
  const details = { name: "wiki.corp.example", gateway: "gw-paris", from: "gw-berlin" };
  expect(objectOf({ object: "tunnel/x", details, names })).toBe(
    "tunnel to wiki.corp.example, at gw-paris, moved from gw-berlin",
  );
  expect(objectOf({ object: "tunnel/x", details: { name: "wiki", device: ID }, names })).toBe(
    "tunnel to wiki, of laptop of alice",
  );
});

test("a line is a sentence: the actor, the act, and its object", () => {
  const opened = { name: "wiki.corp.example", user: "alice", gateway: "gw-paris" };
  const line = { actor: ID, action: "tunnel.open", outcome: "done", object: "tunnel/x", names } as const;
  expect(sentenceOf({ ...line, details: opened })).toBe(
    "laptop of alice opened wiki.corp.example through gw-paris",
  );
  expect(sentenceOf({ ...line, details: { ...opened, from: "gw-berlin" } })).toBe(
    "laptop of alice moved from gw-berlin to gw-paris with wiki.corp.example",
  );
  expect(sentenceOf({ ...line, object: "name/git.corp.example", outcome: "denied", details: {} })).toBe(
    "laptop of alice was denied git.corp.example",
  );
  const unknown = { actor: "unknown", object: "admin/olga", details: {}, names } as const;
  expect(sentenceOf({ ...unknown, action: "admin.create", outcome: "done" })).toBe(
    "olga made an account with an invitation",
  );
  expect(sentenceOf({ ...unknown, action: "admin.sign-in", outcome: "denied" })).toBe(
    "A sign-in as olga was denied",
  );
  const olgas = { actor: "olga", outcome: "done", details: {}, names } as const;
  expect(sentenceOf({ ...olgas, action: "resource.replace", object: "resource/wiki" })).toBe(
    "olga changed resource wiki",
  );
  expect(sentenceOf({ ...olgas, action: "policy.replace", object: "policy/alice to wiki" })).toBe(
    "olga changed policy “alice to wiki”",
  );
  const replaced = { ...olgas, action: "policy.replace", object: "policy/p" } as const;
  expect(sentenceOf({ ...replaced, details: { changed: "enabled", enabled: "no" } })).toBe(
    "olga turned policy “p” off",
  );
  expect(sentenceOf({ ...replaced, details: { changed: "enabled resources", enabled: "yes" } })).toBe(
    "olga changed policy “p”: turned on, resources",
  );
  expect(sentenceOf({ ...olgas, action: "gateway.drain", object: "gateway/gw-paris" })).toBe(
    "olga: gateway gw-paris, drained",
  );
  expect(sentenceOf({ ...line, action: "device.prove", object: `device/${ID}`, details: {} })).toBe(
    "laptop of alice: code given",
  );
});

test("an act that is new shows as the log names it, and each known act can be chosen once", () => {
  expect(actOf("planet.found")).toBe("planet.found");
  expect(actOf("resource.replace")).toBe("resource: changed");
  const labels = listActs().flatMap(({ items }) => items.map(({ label }) => label));
  expect(new Set(labels).size).toBe(labels.length);
});

test("a name that a person was refused is a question for the access check, at that time", () => {
  const at = "2026-11-28T09:30:00.123456Z";
  const line = { at, action: "tunnel.open", outcome: "denied", object: "name/wiki.corp.example" } as const;
  const details = { user: "alice" };
  expect(questionOf({ ...line, details })).toEqual({ user: "alice", name: "wiki.corp.example", at });
  expect(questionOf({ ...line, details: {} })).toBeNull();
  expect(questionOf({ ...line, details, object: "tunnel/5a3c", outcome: "done" })).toBeNull();
  expect(questionOf({ ...line, details, action: "admin.create", object: "admin/ada" })).toBeNull();
});
