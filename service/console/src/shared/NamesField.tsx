/** A choice among names, of which there may be many: the controller searches them as a person types. */
import { t } from "@lingui/core/macro";
import { MultiSelect, Select, type MultiSelectProps, type SelectProps } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { api, body } from "../api/client";
import { inFull } from "./PersonName";

const PAUSE_MS = 150;
const FOUND_AT_MOST = 50;

interface Asked {
  q?: string;
  limit: number;
  /** Limits resources to those of this gateway. */
  gateway?: string;
}

const ASK = {
  groups: ({ q, limit }: Asked) =>
    api.GET("/api/v1/groups", { params: { query: { limit, ...(q && { q }) } } }),
  users: ({ q, limit }: Asked) => api.GET("/api/v1/users", { params: { query: { limit, ...(q && { q }) } } }),
  resources: (asked: Asked) => api.GET("/api/v1/resources", { params: { query: asked } }),
};
export type Area = keyof typeof ASK;

// The controller's matches are all shown: a match may be in another text than the name.
const FOUND: NonNullable<SelectProps["filter"]> = ({ options }) => options;

/** `labels`: of chosen names that the search may not find; people stand with their display names. */
function useNames(
  area: Area,
  chosen: readonly string[],
  labels: Readonly<Record<string, string>>,
  gateway?: string,
) {
  const [typed, setTyped] = useState("");
  const [known] = useState(() => new Map(Object.entries(labels)));
  const [q] = useDebouncedValue(typed.trim(), PAUSE_MS);
  const found = useQuery({
    queryKey: [area, "named", q, gateway],
    queryFn: async () =>
      body<{ name: string; display_name?: string | null }[]>(
        await ASK[area]({ limit: FOUND_AT_MOST, ...(q !== "" && { q }), ...(gateway && { gateway }) }),
      ).map(({ name, display_name }) => ({
        value: name,
        label: area === "users" ? inFull(name, display_name) : name,
      })),
    placeholderData: keepPreviousData,
  });
  // A chosen name keeps its label when another search no longer finds it.
  useEffect(() => found.data?.forEach(({ value, label }) => known.set(value, label)), [found.data, known]);
  const others = chosen.filter((name) => found.data?.every(({ value }) => value !== name) ?? true);
  return {
    data: [...(found.data ?? []), ...others.map((name) => ({ value: name, label: known.get(name) ?? name }))],
    searchable: true,
    searchValue: typed,
    onSearchChange: setTyped,
    filter: FOUND,
    nothingFoundMessage: found.isFetching ? t`Searching…` : q === "" ? t`None yet` : t`No match`,
  };
}

interface Names {
  area: Area;
  /** Display names by login name. */
  named?: Readonly<Record<string, string>>;
}

const labelled = (named: Readonly<Record<string, string>> = {}) =>
  Object.fromEntries(Object.entries(named).map(([name, shown]) => [name, inFull(name, shown)]));

export function NamesField({
  area,
  named,
  gateway,
  ...rest
}: MultiSelectProps & Names & { value?: string[]; gateway?: string }) {
  return <MultiSelect {...useNames(area, rest.value ?? [], labelled(named), gateway)} {...rest} />;
}

export function NameField({ area, named, ...rest }: SelectProps & Names & { value?: string | null }) {
  return <Select {...useNames(area, rest.value ? [rest.value] : [], labelled(named))} {...rest} />;
}
