import { ActionIcon, Badge, Button, Group, Stack, Table, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api } from "../api/client";
import { sessionQuery } from "../session/session";
import { Moment } from "../shared/Moment";
import { ProblemNote } from "../shared/ProblemNote";
import { Card } from "./Card";
import { NewAuthenticator } from "./NewAuthenticator";
import { NewPassword } from "./NewPassword";
import { Passkeys } from "./Passkeys";
import { RecoveryCodes } from "./RecoveryCodes";
import { sessionsQuery } from "./queries";

type Doing = "password" | "authenticator" | "codes" | null;

export function Account() {
  const session = useQuery(sessionQuery).data;
  const [doing, setDoing] = useState<Doing>(null);
  const done = () => setDoing(null);
  if (!session) return null;
  return (
    <Stack>
      <Card
        title={session.name}
        about={`You are ${session.role === "owner" ? "an owner" : `an ${session.role}`} of this controller.`}
      />
      {session.has_password && (
        <>
          <Card
            title="Password"
            about="A new one ends your other sessions."
            action={
              <Button variant="default" onClick={() => setDoing("password")}>
                Change password
              </Button>
            }
          />
          <Card
            title="Authenticator"
            about="The app that shows your codes. A new one ends your other sessions, and the old one’s codes."
            action={
              <Button variant="default" onClick={() => setDoing("authenticator")}>
                New authenticator
              </Button>
            }
          />
          <Card
            title="Recovery codes"
            about="Each stands in for a code once, for the day when the authenticator is lost."
            action={
              <Button variant="default" onClick={() => setDoing("codes")}>
                Make new codes
              </Button>
            }
          />
        </>
      )}
      <Passkeys />
      <Sessions />
      {doing === "password" && <NewPassword onClose={done} />}
      {doing === "authenticator" && <NewAuthenticator onClose={done} />}
      {doing === "codes" && <RecoveryCodes onClose={done} />}
    </Stack>
  );
}

function Sessions() {
  const queries = useQueryClient();
  const found = useQuery(sessionsQuery);
  const end = useMutation({
    mutationFn: (id: string) =>
      api.DELETE("/api/v1/session/sessions/{session_id}", { params: { path: { session_id: id } } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["account"] });
      notifications.show({ message: "That session is signed out" });
    },
  });
  return (
    <Card title="Sessions" about="Where you are signed in; each ends by itself after eight hours.">
      {(found.error ?? end.error) && <ProblemNote error={found.error ?? end.error} />}
      <Table aria-label="Sessions">
        <Table.Tbody>
          {found.data?.map(({ id, current, created_at, expires_at }, at) => (
            <Table.Tr key={id}>
              <Table.Td>
                <Group gap="xs">
                  <Text size="sm">signed in</Text>
                  <Moment at={created_at} />
                  {current && (
                    <Badge size="sm" variant="light" tt="none">
                      this one
                    </Badge>
                  )}
                </Group>
              </Table.Td>
              <Table.Td>
                <Text size="sm" c="dimmed">
                  until {new Date(expires_at).toLocaleTimeString([], { timeStyle: "short" })}
                </Text>
              </Table.Td>
              <Table.Td ta="right">
                {!current && (
                  <ActionIcon
                    variant="subtle"
                    color="gray"
                    aria-label={`Sign out session ${at + 1}`}
                    loading={end.isPending}
                    onClick={() => end.mutate(id)}
                  >
                    <IconTrash size={16} />
                  </ActionIcon>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}
