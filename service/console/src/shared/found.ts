/** Suggestions while a name is typed: the controller searches, as in its lists. */
import type { AutocompleteProps } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { ProblemError } from "../api/problem";
import { inFull } from "./PersonName";

const PAUSE_MS = 150;
const FOUND_AT_MOST = 8;
// As the controller's UserName.
const LOGIN = /^[a-z0-9][a-z0-9._-]{0,62}$/;

const readPeople = async (q: string) =>
  body(await api.GET("/api/v1/users", { params: { query: { q, limit: FOUND_AT_MOST } } }));

const ASK = {
  users: async (q: string) =>
    (await readPeople(q)).map(({ name, display_name }) => ({
      value: name,
      label: inFull(name, display_name),
    })),
  resources: async (q: string) =>
    body(await api.GET("/api/v1/resources", { params: { query: { q, limit: FOUND_AT_MOST } } })).map(
      ({ display_name }) => ({ value: display_name, label: display_name }),
    ),
};

/** The login names of people who are called so: the one with this login name, or those with this display name. */
export async function findLogins(typed: string): Promise<string[]> {
  const asked = typed.toLowerCase();
  if (LOGIN.test(asked) && (await isLogin(asked))) return [asked];
  return (await readPeople(typed))
    .filter((it) => it.display_name?.toLowerCase() === asked)
    .map(({ name }) => name);
}

async function isLogin(name: string): Promise<boolean> {
  try {
    await api.GET("/api/v1/users/{name}", { params: { path: { name } } });
    return true;
  } catch (error) {
    if (error instanceof ProblemError && error.reason === "NOT_FOUND") return false;
    throw error;
  }
}

/** Suggestions of an Autocomplete: logins of people, with their display names beside them, or names of resources. */
export function useFound(
  area: keyof typeof ASK,
  typed: string,
): Required<Pick<AutocompleteProps, "data" | "filter" | "renderOption">> {
  const [q] = useDebouncedValue(typed.trim(), PAUSE_MS);
  const found = useQuery({
    queryKey: [area, "suggested", q],
    queryFn: () => ASK[area](q),
    enabled: q !== "",
    placeholderData: keepPreviousData,
  });
  const options = q === "" ? [] : (found.data ?? []);
  const labels = new Map(options.map(({ value, label }) => [value, label]));
  return {
    data: options.map(({ value }) => value),
    // A match may be in another text than the name, so that all are shown.
    filter: ({ options }) => options,
    renderOption: ({ option: { value } }) => labels.get(value) ?? value,
  };
}
