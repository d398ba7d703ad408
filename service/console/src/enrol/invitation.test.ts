import { expect, test } from "vitest";

import { desktopLink, readInvitation } from "./invitation";

const CA = "ab".repeat(32);

test("a link becomes the desktop's form", () => {
  const invitation = readInvitation(`#t_-1.${CA}`);
  expect(invitation).toEqual({ token: "t_-1", ca: CA, controller: null });
  const made = new URL(
    desktopLink("https://vpn.corp.example:8443", { token: "t_-1", ca: CA, controller: null }),
  );
  expect([made.protocol, made.host]).toEqual(["culvert:", "enroll"]);
  expect(Object.fromEntries(made.searchParams)).toEqual({
    controller: "https://vpn.corp.example:8443",
    token: "t_-1",
    ca: `sha256:${CA}`,
  });
});

test("behind a proxy, devices get another address than browsers", () => {
  const invitation = readInvitation(`#t.${CA}.[2001:db8::1]:8443`);
  expect(invitation?.controller).toBe("https://[2001:db8::1]:8443");
  const made = new URL(
    desktopLink("https://vpn.example", invitation ?? { token: "", ca: "", controller: null }),
  );
  expect(made.searchParams.get("controller")).toBe("https://[2001:db8::1]:8443");
});

test.each(["", "#", "#token", `#.${CA}`, `#t.${CA.slice(1)}`, `#t.${CA}.`, `#t.${CA}&x`, `#<b>.${CA}`])(
  "a link that is cut or changed is none: %s",
  (hash) => expect(readInvitation(hash)).toBeNull(),
);
