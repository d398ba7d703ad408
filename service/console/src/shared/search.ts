/** A text of an address's search part; absent where it is none. */
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
