/**
 * A server-sent stream that many parts of a page share. A hidden page lets go of it: a browser has few connections
 * to one host, and each of its tabs would hold some.
 */

export type Link = "connecting" | "live" | "lost";

const AGAIN_MS = 1000;

export class Source<State> {
  private state: State;
  private link: Link = "connecting";
  private seen: { state: State; link: Link };
  private readonly listeners = new Set<() => void>();
  private stream: EventSource | null = null;
  private retry: number | undefined;

  constructor(
    private readonly url: string,
    initial: State,
    private readonly handlers: Record<string, (state: State, data: unknown) => State>,
  ) {
    this.state = initial;
    this.seen = { state: this.state, link: this.link };
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    if (this.listeners.size === 0) {
      document.addEventListener("visibilitychange", this.follow);
      this.follow();
    }
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      document.removeEventListener("visibilitychange", this.follow);
      this.close();
    };
  };

  readonly current = (): { state: State; link: Link } => this.seen;

  private readonly follow = (): void => {
    if (document.hidden) this.close();
    else if (this.stream === null) this.open();
  };

  private readonly open = (): void => {
    const stream = (this.stream = new EventSource(this.url));
    stream.onopen = () => this.tell(this.state, "live");
    stream.onerror = () => {
      this.tell(this.state, "lost");
      // After a refusal a browser does not come back by itself.
      if (stream.readyState !== EventSource.CLOSED) return;
      this.close();
      this.retry = window.setTimeout(this.open, AGAIN_MS);
    };
    for (const [kind, handle] of Object.entries(this.handlers)) {
      stream.addEventListener(kind, (event: MessageEvent<string>) =>
        this.tell(handle(this.state, JSON.parse(event.data)), "live"),
      );
    }
  };

  private close(): void {
    window.clearTimeout(this.retry);
    this.stream?.close();
    this.stream = null;
  }

  private tell(state: State, link: Link): void {
    if (state === this.state && link === this.link) return;
    this.state = state;
    this.link = link;
    this.seen = { state, link };
    for (const listener of this.listeners) listener();
  }
}
