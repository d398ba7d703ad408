import { Alert, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconAlertTriangle } from "@tabler/icons-react";

import { problemOf } from "../api/problem";

/** A problem's text and remedy, as the error catalogue has them. */
export function ProblemNote({ error }: { error: unknown }) {
  const problem = problemOf(error);
  return (
    <Alert
      color="red"
      variant="light"
      className="list"
      icon={<IconAlertTriangle />}
      title={problem.detail}
      role="alert"
    >
      <Text size="sm">{problem.remedy}</Text>
    </Alert>
  );
}

/** The same as a notice, for an act without a place of its own on the page. */
export function notifyProblem(error: unknown): void {
  const { detail, remedy } = problemOf(error);
  notifications.show({ color: "red", title: detail, message: remedy });
}
