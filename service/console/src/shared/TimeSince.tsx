import { t } from "@lingui/core/macro";
import { Text, Tooltip } from "@mantine/core";

import { locales } from "../locale/language";
import { useNow } from "./useNow";
import { ago } from "./words";

const AT: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "medium" };

/** The time since a moment; its tooltip has the exact time. */
export function TimeSince({ at, never }: { at: string | null; never?: string }) {
  const now = useNow();
  if (at === null)
    return (
      <Text span size="sm" c="dimmed">
        {never ?? t`never`}
      </Text>
    );
  return (
    <Tooltip label={new Date(at).toLocaleString(locales(), AT)}>
      <Text span size="sm">
        {ago(Date.parse(at), now)}
      </Text>
    </Tooltip>
  );
}
