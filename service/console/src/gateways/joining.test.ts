import { expect, test } from "vitest";

import { commandOf, placementFaults, progressOf } from "./joining";

const ANYWHERE = { publicAddress: "", beside: "", masquerade: false };
const NOW = Date.parse("2026-11-27T00:00:00Z");
const link = (state: "waiting" | "joined" | "expired", minutes: number) => ({
  state,
  expires_at: new Date(NOW + minutes * 60_000).toISOString(),
});

test("a link that waits says for how long it is good", () => {
  expect(progressOf(link("waiting", 60), undefined, NOW)).toEqual({
    state: "waiting",
    words: "The link is good for 60 more minutes",
  });
  expect(progressOf(link("waiting", 0.5), undefined, NOW).words).toContain("1 more minute");
});

test("a link has expired when its time is over, whatever was last heard", () => {
  expect(progressOf(link("waiting", 0), undefined, NOW).state).toBe("expired");
  expect(progressOf(link("expired", -1), undefined, NOW).state).toBe("expired");
});

test("a gateway is online when the controller says so, and not when it has joined", () => {
  expect(progressOf(link("joined", 30), undefined, NOW).state).toBe("joined");
  const offline = { state: "offline", reason: "nothing listens" } as const;
  expect(progressOf(link("joined", 30), offline, NOW).words).toBe("Not yet: nothing listens");
  expect(progressOf(link("joined", -30), { state: "online", reason: "" }, NOW).state).toBe("online");
});

test("the link is quoted for a shell", () => {
  expect(commandOf("https://vpn:8443/join#a.b", ANYWHERE, true)).toBe(
    "culvert-gateway join 'https://vpn:8443/join#a.b'",
  );
});

test("without a repository the line installs the package from its file", () => {
  expect(commandOf("LINK", ANYWHERE, false)).toBe(
    "apt install ./culvert-gateway_*.deb && culvert-gateway join 'LINK'",
  );
});

test("the line has the options of the computer's place", () => {
  const placed = { publicAddress: "203.0.113.7", beside: "eth0.10", masquerade: true };
  expect(commandOf("LINK", placed, true)).toMatch(
    / join --public-address 203\.0\.113\.7 --beside eth0\.10 --masquerade 'LINK'$/,
  );
});

test("a faulty address or interface is named, and left out of the line", () => {
  const faulty = { publicAddress: "203.0.113.256", beside: "eth0; reboot", masquerade: false };
  expect(Object.keys(placementFaults(faulty))).toEqual(["publicAddress", "beside"]);
  expect(commandOf("LINK", faulty, true)).toMatch(/ join 'LINK'$/);
  expect(placementFaults(ANYWHERE)).toEqual({});
});
