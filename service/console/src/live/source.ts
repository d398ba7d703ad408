/** A live view's state, for the components that show it. It is kept while no component shows it. */
import type { Stream, Told, View } from "./stream";

export class Source<State> {
  private readonly listeners = new Set<() => void>();
  private unwatch: (() => void) | null = null;

  constructor(
    private readonly stream: Stream,
    private readonly view: View,
    private state: State,
    private readonly after: (state: State, told: Told) => State,
  ) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.unwatch ??= this.stream.watch(this.view, this.hear);
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      this.unwatch?.();
      this.unwatch = null;
    };
  };

  readonly current = (): State => this.state;

  private readonly hear = (told: Told): void => {
    this.state = this.after(this.state, told);
    for (const listener of this.listeners) listener();
  };
}
