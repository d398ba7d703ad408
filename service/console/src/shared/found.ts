/** Suggestions while a name is typed: the controller searches, as in its lists. */
import type { AutocompleteProps } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";

import { api, body } from "../api/client";

const PAUSE_MS = 150;
const FOUND_AT_MOST = 8;

/** A match may be in another text than the name, so that all are shown. */
export const FOUND: NonNullable<AutocompleteProps["filter"]> = ({ options }) => options;

const ASK = {
  users: async (q: string) =>
    body(await api.GET("/api/v1/users", { params: { query: { q, limit: FOUND_AT_MOST } } })).map(
      ({ name }) => name,
    ),
  resources: async (q: string) =>
    body(await api.GET("/api/v1/resources", { params: { query: { q, limit: FOUND_AT_MOST } } })).map(
      ({ display_name }) => display_name,
    ),
};

export function useFound(area: keyof typeof ASK, typed: string): string[] {
  const [q] = useDebouncedValue(typed.trim(), PAUSE_MS);
  const found = useQuery({
    queryKey: [area, "suggested", q],
    queryFn: () => ASK[area](q),
    enabled: q !== "",
    placeholderData: keepPreviousData,
  });
  return q === "" ? [] : (found.data ?? []);
}
