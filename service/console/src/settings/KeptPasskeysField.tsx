import { t } from "@lingui/core/macro";
import { Checkbox, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { useNow } from "../shared/useNow";
import { ago } from "../shared/words";
import { credentialsQuery } from "./queries";

/**
 * Lets the person tick the passkeys that stay after a new password or authenticator. A passkey that is not ticked is removed,
 * because a thief with the old password may have added it.
 */
export function KeptPasskeysField({
  kept,
  onChange,
}: {
  kept: string[];
  onChange: (kept: string[]) => void;
}) {
  const now = useNow();
  const passkeys = useQuery(credentialsQuery).data?.passkeys ?? [];
  if (passkeys.length === 0) return null;
  return (
    <Checkbox.Group
      label={t`Passkeys to keep`}
      description={t`Tick the passkeys that you know. All others are removed.`}
      value={kept}
      onChange={onChange}
    >
      <Stack gap="xs" mt="xs">
        {passkeys.map(({ id, name, created_at, last_used_at }) => (
          <Checkbox
            key={id}
            value={id}
            label={
              <Text size="sm" className="name">
                {name}
              </Text>
            }
            description={[
              t`added ${ago(Date.parse(created_at), now)}`,
              last_used_at === null ? t`never used` : t`used ${ago(Date.parse(last_used_at), now)}`,
            ].join(", ")}
          />
        ))}
      </Stack>
    </Checkbox.Group>
  );
}
