import { useSyncExternalStore } from "react";

const TICK_MS = 1000;
const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval>;

/** One time for all parts of a page, so that two of them never disagree. */
export const clock = {
  subscribe: (listener: () => void): (() => void) => {
    if (listeners.size === 0) {
      timer = setInterval(() => {
        now = Date.now();
        for (const each of listeners) each();
      }, TICK_MS);
    }
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) clearInterval(timer);
    };
  },
  current: (): number => {
    // The time stood still while nothing showed it.
    if (listeners.size === 0 && Date.now() - now >= TICK_MS) now = Date.now();
    return now;
  },
};

/** The time in milliseconds, a second old at most. */
export function useNow(): number {
  return useSyncExternalStore(clock.subscribe, clock.current);
}
