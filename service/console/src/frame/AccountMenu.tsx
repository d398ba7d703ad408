import { Suspense, useState } from "react";

import type { Session } from "../session/session";
import { useSoon, view } from "../shared/view";
import { AccountButton } from "./AccountButton";

const load = () => import("./AccountMenuItems");
const AccountMenuItems = view(load, "AccountMenuItems");

/** A button alone until it is first clicked. */
export function AccountMenu({ session }: { session: Session }) {
  const [asked, setAsked] = useState(false);
  useSoon(load);
  const button = <AccountButton name={session.name} onClick={() => setAsked(true)} />;
  if (!asked) return button;
  return (
    <Suspense fallback={button}>
      <AccountMenuItems session={session} />
    </Suspense>
  );
}
