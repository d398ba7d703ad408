import { useLingui } from "@lingui/react";
import { lazyRouteComponent, type AsyncRouteComponent } from "@tanstack/react-router";
import { createElement, useEffect } from "react";

const DRAWN_MS = 1_500;
const WAITS_MS = [200, 1_000];

/** Calls `load` up to three times, because a browser aborts connections when the computer's network changes. */
export async function again<T>(load: () => Promise<T>): Promise<T> {
  for (const wait of WAITS_MS) {
    try {
      return await load();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
  return await load();
}

/** A component of a module that is loaded when it is first shown. */
export const view = ((load, name) =>
  spoken(lazyRouteComponent(() => again(load), name))) as typeof lazyRouteComponent;

/** The component, drawn again in another language. The router draws its own parts only at another address. */
export function spoken<Props extends object>(shown: AsyncRouteComponent<Props>): AsyncRouteComponent<Props> {
  const Spoken: AsyncRouteComponent<Props> = (props: Props) => {
    useLingui();
    return createElement(shown, props);
  };
  if (shown.preload) Spoken.preload = shown.preload;
  return Spoken;
}

/**
 * A part that a click shows is loaded as soon as the page is likely to be drawn, so that the click need not wait. If that
 * fails, the click loads it. `load` must be the same function each time.
 */
export function useSoon(load: () => Promise<unknown>): void {
  useEffect(() => {
    const timer = window.setTimeout(() => void load().catch(() => undefined), DRAWN_MS);
    return () => window.clearTimeout(timer);
  }, [load]);
}
