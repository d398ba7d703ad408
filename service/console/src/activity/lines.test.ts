import { expect, test } from "vitest";

import { actorOf, objectOf } from "./lines";

const ID = "5a3c0c9e-0000-4000-8000-000000000001";
const names = { [ID]: "laptop of alice" };

test("devices and people have their names, or their ids once they are deleted", () => {
  expect(actorOf({ actor: ID, names })).toBe("laptop of alice");
  expect(actorOf({ actor: ID, names: {} })).toBe(ID);
  expect(objectOf({ object: `device/${ID}`, details: {}, names })).toBe("device laptop of alice");
  expect(objectOf({ object: "resource/wiki", details: {}, names })).toBe("resource wiki");
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
