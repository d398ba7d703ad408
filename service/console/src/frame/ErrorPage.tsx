import { Trans } from "@lingui/react/macro";
import { Button, Stack, Text, Title } from "@mantine/core";
import { useRouter } from "@tanstack/react-router";

import { ProblemError } from "../api/problem";
import { ButtonLink } from "../shared/links";
import { ProblemNote } from "../shared/ProblemNote";

/** As Chromium and Firefox say it, and as Safari does. */
const NOT_LOADED = /dynamically imported module|importing a module/i;

export function ErrorPage({ error }: { error: unknown }) {
  const router = useRouter();
  // The router would not load the view again.
  const isLost = error instanceof Error && NOT_LOADED.test(error.message);
  return (
    <Stack align="flex-start" p="xl" maw={640}>
      <Title size="h2">
        <Trans>This view could not be shown</Trans>
      </Title>
      {isLost || error instanceof ProblemError ? (
        <ProblemNote error={error} />
      ) : (
        <Text className="name">{error instanceof Error ? error.message : String(error)}</Text>
      )}
      <Button onClick={() => (isLost ? window.location.reload() : void router.invalidate())}>
        <Trans>Try again</Trans>
      </Button>
    </Stack>
  );
}

export function NotFoundPage() {
  return (
    <Stack align="flex-start">
      <Title size="h2">
        <Trans>There is nothing at this address</Trans>
      </Title>
      <Text>
        <Trans>The link may be old, or what it showed may have been deleted.</Trans>
      </Text>
      <ButtonLink to="/">
        <Trans>Open Overview</Trans>
      </ButtonLink>
    </Stack>
  );
}
