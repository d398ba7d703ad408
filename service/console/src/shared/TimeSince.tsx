import { Text, Tooltip } from "@mantine/core";

import { useNow } from "./useNow";
import { age } from "./words";

const AT: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "medium" };

/** The time since a moment; its tooltip has the exact time. */
export function TimeSince({ at, never = "never" }: { at: string | null; never?: string }) {
  const now = useNow();
  if (at === null)
    return (
      <Text span size="sm" c="dimmed">
        {never}
      </Text>
    );
  return (
    <Tooltip label={new Date(at).toLocaleString([], AT)}>
      <Text span size="sm">
        {age(Date.parse(at), now)} ago
      </Text>
    </Tooltip>
  );
}
