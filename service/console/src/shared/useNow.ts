import { useSyncExternalStore } from "react";

const TICK_MS = 1000;
let now = Date.now();

function subscribe(listener: () => void): () => void {
  const timer = window.setInterval(() => {
    now = Date.now();
    listener();
  }, TICK_MS);
  return () => window.clearInterval(timer);
}

/** The time in milliseconds, a second old at most. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}
