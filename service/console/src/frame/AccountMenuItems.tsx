import { Menu, Text } from "@mantine/core";
import { IconLogout, IconSettings } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api } from "../api/client";
import { sessionQuery, type Session } from "../session/session";
import { AccountButton } from "./AccountButton";
import { timeOfDay } from "../shared/words";

export function AccountMenuItems({ session }: { session: Session }) {
  const queries = useQueryClient();
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
          {session.role}, signed in until {timeOfDay(session.expires_at)}
        </Menu.Label>
        <Menu.Item
          renderRoot={(props) => <Link {...props} to="/settings" />}
          leftSection={<IconSettings size={16} />}
        >
          Your account
        </Menu.Item>
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={() => signOut.mutate()}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
