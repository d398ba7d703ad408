import { useEffect, useState } from "react";

import type { Schemas } from "../api/client";
import type { Invitation } from "./invitation";

export type Shown = Schemas["InvitationShowOut"];
/** "unknown": the controller does not know it. "silent": no answer from the controller. */
export type Answer = Shown | "loading" | "unknown" | "silent";

const OFTEN_MS = 3_000;
const SELDOM_MS = 20_000;
const OFTEN_FOR_MS = 10 * 60_000;

/** The invitation's state at the controller. It is asked for often for ten minutes after `begun` (ms), while the page is seen. */
export function useInvitation(invitation: Invitation | null, begun: number | null): Answer {
  const [answer, setAnswer] = useState<Answer>("loading");
  const final =
    answer === "unknown" || (typeof answer === "object" && (answer.used_at !== null || answer.expired));
  useEffect(() => {
    if (invitation === null || final) return;
    let timer = 0;
    const gone = new AbortController();
    const ask = async () => {
      if (!document.hidden) {
        const found = await show(invitation, gone.signal);
        if (gone.signal.aborted) return;
        setAnswer((before) => (JSON.stringify(before) === JSON.stringify(found) ? before : found));
      }
      const often = begun !== null && Date.now() - begun < OFTEN_FOR_MS;
      timer = window.setTimeout(() => void ask(), often ? OFTEN_MS : SELDOM_MS);
    };
    void ask();
    return () => {
      gone.abort();
      window.clearTimeout(timer);
    };
  }, [invitation, begun, final]);
  return answer;
}

async function show({ token }: Invitation, signal: AbortSignal): Promise<Answer> {
  try {
    const response = await fetch("/api/v1/enrolments/invitation", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token }),
      signal,
    });
    if (response.ok) return (await response.json()) as Shown;
    return response.status === 403 ? "unknown" : "silent";
  } catch {
    return "silent";
  }
}
