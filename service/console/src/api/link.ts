/** The next page's cursor in a Link header (RFC 8288). */
export function nextCursor(link: string | null): string | null {
  const next = /<([^>]*)>; rel="next"/.exec(link ?? "")?.[1];
  return next === undefined ? null : new URL(next, "http://controller").searchParams.get("cursor");
}
