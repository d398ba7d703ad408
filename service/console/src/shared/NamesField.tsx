/** A choice among names, of which there may be many: the controller searches them as a person types. */
import { t } from "@lingui/core/macro";
import { MultiSelect, Select, type MultiSelectProps, type SelectProps } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, body } from "../api/client";

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

function useNames(area: Area, chosen: readonly string[], gateway?: string) {
  const [typed, setTyped] = useState("");
  const [q] = useDebouncedValue(typed.trim(), PAUSE_MS);
  const found = useQuery({
    queryKey: [area, "named", q, gateway],
    queryFn: async () =>
      body<{ name: string }[]>(
        await ASK[area]({ limit: FOUND_AT_MOST, ...(q !== "" && { q }), ...(gateway && { gateway }) }),
      ).map(({ name }) => name),
    placeholderData: keepPreviousData,
  });
  return {
    data: [...new Set([...(found.data ?? []), ...chosen])],
    searchable: true,
    searchValue: typed,
    onSearchChange: setTyped,
    filter: FOUND,
    nothingFoundMessage: found.isFetching ? t`Searching…` : t`No match`,
  };
}

type OfMany = MultiSelectProps & { area: Area; value?: string[]; gateway?: string };

export function NamesField({ area, gateway, ...rest }: OfMany) {
  return <MultiSelect {...useNames(area, rest.value ?? [], gateway)} {...rest} />;
}

export function NameField({ area, ...rest }: SelectProps & { area: Area; value?: string | null }) {
  return <Select {...useNames(area, rest.value ? [rest.value] : [])} {...rest} />;
}
