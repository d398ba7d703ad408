/** A text of an address's search part, or nothing. */
export function text<Name extends string>(
  search: Record<string, unknown>,
  name: Name,
): Partial<Record<Name, string>> {
  const value = search[name];
  if (typeof value === "number") return { [name]: String(value) } as Partial<Record<Name, string>>;
  return typeof value === "string" && value !== ""
    ? ({ [name]: value } as Partial<Record<Name, string>>)
    : {};
}

/** An allowed value of an address's search part, or nothing. */
export function oneOf<Name extends string, Value extends string | number>(
  search: Record<string, unknown>,
  name: Name,
  allowed: readonly Value[],
): Partial<Record<Name, Value>> {
  const value = allowed.find((one) => one === search[name]);
  return value === undefined ? {} : ({ [name]: value } as Partial<Record<Name, Value>>);
}

/** A list's filters with the order by which it is shown if the address names none. */
export const sorted = <Filter extends { sort?: string }>(
  filter: Filter,
  sort: NonNullable<Filter["sort"]>,
): Filter & { sort: NonNullable<Filter["sort"]> } => ({ ...filter, sort: filter.sort ?? sort });

/** An address's search part after a change, without empty values. */
export function merged<Search extends object>(
  before: Search,
  change: { [Name in keyof Search]?: Search[Name] | undefined },
): Search {
  const all = Object.entries({ ...before, ...change }).filter(
    ([, value]) => value !== "" && value !== undefined,
  );
  return Object.fromEntries(all) as Search;
}
