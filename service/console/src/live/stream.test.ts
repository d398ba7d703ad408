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
