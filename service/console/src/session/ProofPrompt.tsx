import { Suspense, useEffect, useState } from "react";

import { setProofPrompt } from "../api/client";
import { view } from "../shared/view";
import type { Session } from "./session";

const ProofDialog = view(() => import("./ProofDialog"), "ProofDialog");

/** Asks for a proof when a call needs one; calls at the same time share one question. */
export function ProofPrompt({ session }: { session: Session }) {
  const [end, setEnd] = useState<((isProven: boolean) => void) | null>(null);
  useEffect(() => {
    let asked: Promise<boolean> | null = null;
    setProofPrompt(() => {
      asked ??= new Promise<boolean>((resolve) => {
        setEnd(() => (isProven: boolean) => {
          asked = null;
          setEnd(null);
          resolve(isProven);
        });
      });
      return asked;
    });
    return () => setProofPrompt(null);
  }, []);
  if (end === null) return null;
  return (
    <Suspense fallback={null}>
      <ProofDialog session={session} onEnd={end} />
    </Suspense>
  );
}
