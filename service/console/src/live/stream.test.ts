import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { Stream } from "./stream";

class Source extends EventTarget {
  static made: Source[] = [];
  onopen = null;
  onerror = null;
  isClosed = false;
  constructor(readonly url: string) {
    super();
    Source.made.push(this);
  }
  close() {
    this.isClosed = true;
  }
  tell(view: string, told: object, lastEventId = "1") {
    this.dispatchEvent(new MessageEvent(view, { data: JSON.stringify(told), lastEventId }));
  }
}

// A timer of a stream must not fire after its test, when the page's globals are gone.
beforeEach(() => vi.useFakeTimers());

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  Source.made = [];
});

test("a late release does not end another part's watch", () => {
  vi.stubGlobal("EventSource", Source);
  vi.stubGlobal("document", { hidden: false, addEventListener: vi.fn(), removeEventListener: vi.fn() });
  vi.stubGlobal("window", globalThis);
  const stream = new Stream();
  const heard: string[] = [];
  const release = stream.watch("audit", () => heard.push("first"));
  stream.settle();
  Source.made[0]?.tell("audit", { kind: "begins" });
  const leave = stream.watch("audit", () => heard.push("second"));
  release();
  stream.settle();
  Source.made[0]?.tell("audit", { kind: "line" });
  expect(heard).toEqual(["first", "second"]);
  expect(Source.made).toHaveLength(1);
  leave();
  stream.settle();
  expect(Source.made.map(({ isClosed }) => isClosed)).toEqual([true]);
});

test("a stream opened before the page continues as the page's stream", () => {
  vi.stubGlobal("EventSource", Source);
  vi.stubGlobal("document", { hidden: false, addEventListener: vi.fn(), removeEventListener: vi.fn() });
  vi.stubGlobal("window", globalThis);
  const source = new Source("/api/v1/events?view=audit");
  const said = new MessageEvent<string>("audit", { data: '{"kind":"begins"}', lastEventId: "1" });
  const stream = new Stream();
  const heard: string[] = [];
  const leave = stream.watch("audit", ({ kind }) => heard.push(kind));
  stream.goOn({ source: source as unknown as EventSource, views: ["audit"], heard: [said] });
  source.tell("audit", { kind: "line" });
  stream.settle();
  expect(heard).toEqual(["begins", "line"]);
  expect(Source.made).toHaveLength(1);
  leave();
  stream.settle();
  expect(source.isClosed).toBe(true);
});

test("events without a listener are sent again to the next one", () => {
  vi.stubGlobal("EventSource", Source);
  vi.stubGlobal("document", { hidden: false, addEventListener: vi.fn(), removeEventListener: vi.fn() });
  vi.stubGlobal("window", globalThis);
  const stream = new Stream();
  const asked = () => Source.made.map(({ url }) => new URL(url, "https://here").searchParams.get("since"));
  stream.watch("audit", () => undefined);
  const leave = stream.watch("gateways", () => undefined);
  stream.settle();
  Source.made[0]?.tell("audit", { kind: "begins" }, "audit=a");
  leave();
  // The stream is still the one of both.
  Source.made[0]?.tell("gateways", { kind: "snapshot" }, "audit=a;gateways=g");
  const leaveAgain = stream.watch("gateways", () => undefined);
  stream.settle();
  expect(asked()).toEqual([null, "audit=a"]);
  Source.made[1]?.tell("gateways", { kind: "snapshot" }, "audit=a;gateways=g");
  leaveAgain();
  stream.settle();
  stream.watch("gateways", () => undefined);
  stream.settle();
  expect(asked()).toEqual([null, "audit=a", "audit=a;gateways=g", "audit=a;gateways=g"]);
});
