import { Suspense, useState } from "react";

import type { Session } from "../session/session";
import { useSoon, view } from "../shared/view";
import { MyButton } from "./MyButton";

const load = () => import("./MyMenu");
const MyMenu = view(load, "MyMenu");

/** A button alone until it is first clicked. */
export function Me({ session }: { session: Session }) {
  const [asked, setAsked] = useState(false);
  useSoon(load);
  const button = <MyButton name={session.name} onClick={() => setAsked(true)} />;
  if (!asked) return button;
  return (
    <Suspense fallback={button}>
      <MyMenu session={session} />
    </Suspense>
  );
}
