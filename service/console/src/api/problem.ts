/** The API's refusals: application/problem+json (RFC 9457). */
import { t } from "@lingui/core/macro";
import type { components } from "./schema";

export type Problem = components["schemas"]["Problem"];

export class ProblemError extends Error {
  constructor(
    readonly problem: Problem,
    /** The current version, after another administrator has changed the row. */
    readonly etag: string | null,
  ) {
    super(problem.detail);
    this.name = "ProblemError";
  }

  get reason(): string {
    return this.problem.reason;
  }
}

const unreachable = (status: number): Problem => ({
  type: "about:blank",
  title: t`Controller unreachable`,
  status,
  detail: t`The controller does not answer.`,
  reason: "CONTROLLER_UNREACHABLE",
  remedy: t`Check that it runs and that this computer reaches it, then try again.`,
  errors: [],
});

/** The problem of a failed call. */
export function problemOf(error: unknown): Problem {
  return error instanceof ProblemError ? error.problem : unreachable(0);
}

/** The error of an answer without success. */
export async function refusal(response: Response): Promise<ProblemError> {
  const isProblem = response.headers.get("Content-Type")?.startsWith("application/problem+json");
  const problem = isProblem ? ((await response.clone().json()) as Problem) : unreachable(response.status);
  return new ProblemError(problem, response.headers.get("ETag"));
}

/** Pydantic's own beginning of a message says nothing to a person. Names such as gw-berlin and fd20::1 keep their case. */
const said = (detail: string): string =>
  detail
    .replace(/^Value error, /, "")
    .replace(/^\p{Ll}(?=[\p{L}'’]*(?:[\s,:]|$))/u, (letter) => letter.toUpperCase());

/**
 * Sorts a problem's faults by the form's fields; `rest` is set if a fault belongs to none. A field is named by its path,
 * `targets.0.prefix`; a fault below the form's own fields is shown at the nearest one. `renamed`: the API's names of fields to
 * the form's.
 */
export function byField(
  problem: Problem,
  fields: readonly string[],
  renamed: Readonly<Record<string, string>> = {},
): { fields: Record<string, string>; rest: Problem | null } {
  const found: Record<string, string> = {};
  let unplaced = problem.errors?.length === 0 || problem.errors === undefined;
  for (const { pointer, detail } of problem.errors ?? []) {
    const parts = pointer
      .split("/")
      .slice(1)
      .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
    const place = nearest(parts, fields);
    const field = place === null ? null : (renamed[place] ?? place);
    if (field === null) unplaced = true;
    else found[field] = found[field] ? `${found[field]}; ${said(detail)}` : said(detail);
  }
  return { fields: found, rest: unplaced ? problem : null };
}

function nearest(parts: string[], fields: readonly string[]): string | null {
  for (let length = parts.length; length > 0; length -= 1) {
    const path = parts.slice(0, length).join(".");
    if (fields.includes(path)) return path;
  }
  return null;
}
