/**
 * The page's one server-sent stream, with every view that some part of it shows. A browser has six connections to a host,
 * so a page holds one, and a hidden page none.
 *
 *   part of the page ─ watch(view) ─► Stream ─► /api/v1/events?view=…&since=…
 *                    ◄── its events ──┘
 */

import type { Begun } from "../first";
import { language } from "../locale/language";

export type Link = "connecting" | "live" | "lost";
export type View = "tunnels" | "traffic" | "gateways" | "dns" | "audit";
/** An event of a view: its `kind`, and the fields of that kind. */
export type Told = { kind: string } & Record<string, unknown>;

const AGAIN_MS = 1000;
// Two pages in a row mostly watch the same views.
const SETTLE_MS = 30;

export class Stream {
  private readonly views = new Map<View, (told: Told) => void>();
  private readonly listeners = new Set<() => void>();
  private source: EventSource | null = null;
  private held = "";
  private last = "";
  /** Views with an event that had no listener: their next stream begins with a snapshot. */
  private readonly missed = new Set<View>();
  private state: Link = "connecting";
  private pending: number | undefined;

  /** `hear` gets each event of the view until the answer is called. */
  watch(view: View, hear: (told: Told) => void): () => void {
    if (this.views.size === 0) document.addEventListener("visibilitychange", this.soon);
    this.views.set(view, hear);
    this.soon();
    return () => {
      // Another part may have begun to watch the view.
      if (this.views.get(view) !== hear) return;
      this.views.delete(view);
      if (this.views.size === 0) document.removeEventListener("visibilitychange", this.soon);
      this.soon();
    };
  }

  readonly link = (): Link => this.state;

  readonly onLink = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  private readonly soon = (): void => this.after(SETTLE_MS);

  private after(milliseconds: number): void {
    window.clearTimeout(this.pending);
    this.pending = window.setTimeout(this.settle, milliseconds);
  }

  /** Opens the stream for the current views, or closes it. */
  readonly settle = (): void => {
    const wanted = document.hidden ? "" : [...this.views.keys()].sort().join();
    if (
      wanted === this.held &&
      this.source !== null &&
      ![...this.views.keys()].some((it) => this.missed.has(it))
    )
      return;
    this.close();
    if (wanted !== "") this.open(wanted);
  };

  /** Begins each view again with a snapshot, in the present language. */
  beginAgain(): void {
    for (const view of this.views.keys()) this.missed.add(view);
    this.settle();
  }

  /** Continues a stream that was opened before this code was loaded. */
  goOn({ source, views, heard }: Begun): void {
    this.close();
    this.hold(source, [...views].sort().join());
    if (source.readyState === EventSource.OPEN) this.tell("live");
    heard.forEach(this.hear);
  }

  private open(wanted: string): void {
    // An event's id is a place for each view, `view=place;view=place`.
    const places = this.last.split(";").filter((place) => !this.missed.has(place.split("=", 1)[0] as View));
    this.last = places.join(";");
    this.missed.clear();
    const asked = new URLSearchParams(wanted.split(",").map((view) => ["view", view]));
    // An EventSource has no headers, and the page's language may be another than the browser's.
    asked.set("language", language());
    if (this.last !== "") asked.set("since", this.last);
    this.hold(new EventSource(`/api/v1/events?${asked.toString()}`), wanted);
  }

  private hold(source: EventSource, wanted: string): void {
    this.source = source;
    this.held = wanted;
    source.onopen = () => this.tell("live");
    // A browser's own retry waits longer, and does not happen after a refusal.
    source.onerror = () => {
      this.tell("lost");
      this.close();
      this.after(AGAIN_MS);
    };
    for (const view of wanted.split(",")) source.addEventListener(view, this.hear);
  }

  private readonly hear = (event: MessageEvent<string>): void => {
    this.last = event.lastEventId;
    const view = event.type as View;
    const hear = this.views.get(view);
    if (hear === undefined) this.missed.add(view);
    else hear(JSON.parse(event.data) as Told);
  };

  private close(): void {
    this.source?.close();
    this.source = null;
    this.held = "";
  }

  private tell(link: Link): void {
    if (link === this.state) return;
    this.state = link;
    for (const listener of this.listeners) listener();
  }
}

export const stream = new Stream();
