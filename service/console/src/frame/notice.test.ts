import { expect, test } from "vitest";

import { said, type Notice } from "./notice";

const notice: Notice = {
  id: 1,
  at: "2026-01-31T09:00:00Z",
  actor: "bob",
  source: "192.0.2.7",
  action: "admin.passkey.add",
  object: "admin/bob",
  details: { passkey: "phone" },
};

test("a notice names actor, act and source", () => {
  expect(said(notice, "olga")).toBe("bob added the passkey phone to their account, from 192.0.2.7.");
  const role = {
    ...notice,
    action: "admin.role",
    object: "admin/eve",
    details: { from: "admin", to: "owner" },
  };
  expect(said({ ...role, source: null }, "olga")).toBe("bob changed the role of eve from Admin to Owner.");
});

test("wrong codes for the reader's account come with advice", () => {
  const codes = { ...notice, action: "admin.wrong-codes", details: { codes: 9, from: "2001:db8::/64" } };
  expect(said(codes, "bob")).toContain("9 wrong codes were given with your password, from 2001:db8::/64.");
  expect(said(codes, "bob")).toContain("change your password");
  expect(said(codes, "olga")).toBe("Wrong codes were given with the password of bob, from 2001:db8::/64.");
});

test("an unknown action is shown by its name", () => {
  expect(said({ ...notice, action: "gateway.kek", object: "gateway/gw" }, "olga")).toContain(
    "gateway.kek, gateway/gw",
  );
});
