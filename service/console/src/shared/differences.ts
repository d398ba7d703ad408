/** The differences between two changes of one row, made at the same time. Pure. */

export interface Difference {
  field: string;
  theirs: string;
  mine: string;
}

/** Compares the fields that both have; the form lacks fields that only the server writes. */
export function differences(mine: object, theirs: object): Difference[] {
  const there = theirs as Record<string, unknown>;
  return Object.entries(mine)
    .filter(([field, value]) => field in there && JSON.stringify(there[field]) !== JSON.stringify(value))
    .map(([field, value]) => ({ field, theirs: words(there[field]), mine: words(value) }));
}

function words(value: unknown): string {
  if (value === null || value === undefined || value === "") return "—";
  if (Array.isArray(value)) return value.length === 0 ? "—" : value.map(words).join(", ");
  if (typeof value === "string") return value;
  if (typeof value === "object")
    return Object.entries(value)
      .map(([name, of]) => `${name} ${words(of)}`)
      .join(", ");
  return JSON.stringify(value);
}
