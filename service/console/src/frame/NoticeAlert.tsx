import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Alert, Button, List, Stack, Text } from "@mantine/core";
import { IconShieldExclamation } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, body } from "../api/client";
import { TimeSince } from "../shared/TimeSince";
import { said, type Notice } from "./notice";

const SHOWN_MAX = 5;

const noticesQuery = {
  queryKey: ["admins", "notices"],
  queryFn: async () => body(await api.GET("/api/v1/session/notices")),
};

/** Shows changes of credentials and guesses of codes, by other owners or strangers, until the person dismisses them. */
export function NoticeAlert({ name }: { name: string }) {
  const queries = useQueryClient();
  const notices: Notice[] = useQuery(noticesQuery).data ?? [];
  const dismiss = useMutation({
    mutationFn: (until: number) =>
      api.DELETE("/api/v1/session/notices/{notice_id}", { params: { path: { notice_id: until } } }),
    onSettled: () => queries.invalidateQueries({ queryKey: noticesQuery.queryKey }),
  });
  const newest = notices[0];
  if (newest === undefined) return null;
  const more = notices.length - SHOWN_MAX;
  return (
    <Alert
      color="yellow"
      variant="light"
      mb="md"
      className="list"
      icon={<IconShieldExclamation />}
      title={t`Access to this controller has changed, or someone tried to get in`}
      role="status"
    >
      <Stack gap="xs" align="flex-start">
        <List size="sm" spacing={4}>
          {notices.slice(0, SHOWN_MAX).map((notice) => (
            <List.Item key={notice.id}>
              <Text span size="sm" className="name">
                {said(notice, name)}
              </Text>{" "}
              <TimeSince at={notice.at} />
            </List.Item>
          ))}
        </List>
        {more > 0 && (
          <Text size="sm">
            <Trans>
              And {more} more: <Link to="/activity">Activity</Link> has them all.
            </Trans>
          </Text>
        )}
        <Button
          size="compact-sm"
          variant="default"
          loading={dismiss.isPending}
          onClick={() => dismiss.mutate(newest.id)}
        >
          <Trans>Dismiss</Trans>
        </Button>
      </Stack>
    </Alert>
  );
}
