/** Lists as they were left, with search, filters and order: the deletion of a row leads back to them. */
import { useRouter, type Register } from "@tanstack/react-router";

interface Left {
  search: Record<string, unknown>;
  /** The place among the browser's entries of this page. */
  entry: number;
}

const lists = new Map<string, Left>();

/** Remembers each shown page by its address without the search. */
export function rememberLists(router: Register["router"]): void {
  router.subscribe("onResolved", ({ toLocation: { pathname, search, state } }) => {
    lists.set(pathname, { search, entry: state.__TSR_index });
  });
}

export type List = "/gateways" | "/groups" | "/people" | "/policies" | "/resources" | "/site-tunnels";

/** Leads back to a list as it was left: scrolled as before if it was the last page. */
export function useReturn(): (list: List) => Promise<void> {
  const router = useRouter();
  return async (list) => {
    const left = lists.get(list);
    if (left?.entry !== router.state.location.state.__TSR_index - 1)
      return router.navigate({ to: list, search: left?.search ?? {} });
    const shown = new Promise<void>((resolve) => {
      const stop = router.subscribe("onResolved", () => {
        stop();
        resolve();
      });
    });
    router.history.back();
    return shown;
  };
}
