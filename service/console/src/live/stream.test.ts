import { afterEach, expect, test, vi } from "vitest";

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
  tell(view: string, told: object) {
    this.dispatchEvent(new MessageEvent(view, { data: JSON.stringify(told), lastEventId: "1" }));
  }
}

afterEach(() => {
  vi.unstubAllGlobals();
  Source.made = [];
});

test("who stops watching a view that somebody else hears by now takes it from nobody", () => {
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

test("a stream that was opened before goes on with what it has said, and is the page's one", () => {
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
