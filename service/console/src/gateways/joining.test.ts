import { expect, test } from "vitest";

import { commandOf, progressOf } from "./joining";

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
  expect(commandOf("https://vpn:8443/join#a.b")).toMatch(/ join 'https:\/\/vpn:8443\/join#a\.b'$/);
});
