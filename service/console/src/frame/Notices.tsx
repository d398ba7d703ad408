import { useNotifications } from "@mantine/notifications";
import { Suspense, useState } from "react";

import { useSoon, view } from "../shared/view";

const NoticeList = view(() => import("./NoticeList"), "NoticeList");

/** Nothing until there is the first. */
export function Notices() {
  const some = useNotifications().notifications.length > 0;
  const [had, setHad] = useState(some);
  if (some && !had) setHad(true);
  useSoon(NoticeList);
  return (
    had && (
      <Suspense>
        <NoticeList />
      </Suspense>
    )
  );
}
