/** The requests that public/first.js made while this code was loading; each is taken over once. */
import type { View } from "./live/stream";

export interface Begun {
  source: EventSource;
  views: View[];
  /** The events until now. */
  heard: MessageEvent<string>[];
}

declare global {
  interface Window {
    first?: {
      session?: Promise<Response>;
      stream?: Begun & { hear: (event: MessageEvent<string>) => void };
    };
  }
}

/** The answer with the session. */
export function firstSession(): Promise<Response> | null {
  const session = window.first?.session;
  delete window.first?.session;
  return session ?? null;
}

/** The overview's stream, without its listeners. */
export function firstStream(): Begun | null {
  const begun = window.first?.stream;
  delete window.first?.stream;
  if (begun === undefined) return null;
  for (const view of begun.views) begun.source.removeEventListener(view, begun.hear);
  return begun;
}
