import { Trans } from "@lingui/react/macro";
import { Menu, Text } from "@mantine/core";
import { IconLanguage, IconLogout, IconSettings } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api } from "../api/client";
import { LANGUAGES } from "../locale/language";
import { others, useLanguageChange } from "../locale/LanguageSwitch";
import { sessionQuery, type Session } from "../session/session";
import { AccountButton } from "./AccountButton";
import { sayRole, timeOfDay } from "../shared/words";

export function AccountMenuItems({ session }: { session: Session }) {
  const queries = useQueryClient();
  const changeTo = useLanguageChange();
  const role = sayRole(session.role);
  const until = timeOfDay(session.expires_at);
  const signOut = useMutation({
    mutationFn: () => api.DELETE("/api/v1/session"),
    onSettled: () => {
      queries.setQueryData(sessionQuery.queryKey, null);
      // The next person may have other permissions.
      queries.removeQueries({ predicate: ({ queryKey: [area] }) => area !== "session" });
    },
  });
  return (
    <Menu position="bottom-end" width={220} defaultOpened>
      <Menu.Target>
        <AccountButton name={session.name} />
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          <Text size="sm" fw={600} c="bright" className="name">
            {session.name}
          </Text>
          <Trans>
            {role}, signed in until {until}
          </Trans>
        </Menu.Label>
        <Menu.Item
          renderRoot={(props) => <Link {...props} to="/settings" />}
          leftSection={<IconSettings size={16} />}
        >
          <Trans>Your account</Trans>
        </Menu.Item>
        {others().map((one) => (
          <Menu.Item
            key={one}
            lang={one}
            leftSection={<IconLanguage size={16} />}
            onClick={() => void changeTo(one)}
          >
            {LANGUAGES[one]}
          </Menu.Item>
        ))}
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={() => signOut.mutate()}>
          <Trans>Sign out</Trans>
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
