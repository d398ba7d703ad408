import { Button, Stack, Text, Title } from "@mantine/core";
import { useRouter } from "@tanstack/react-router";

import { ProblemError } from "../api/problem";
import { ButtonLink } from "../shared/links";
import { ProblemNote } from "../shared/ProblemNote";

export function ErrorPage({ error }: { error: unknown }) {
  const router = useRouter();
  return (
    <Stack align="flex-start" p="xl" maw={640}>
      <Title size="h2">This view could not be shown</Title>
      {error instanceof ProblemError ? (
        <ProblemNote error={error} />
      ) : (
        <Text>{error instanceof Error ? error.message : String(error)}</Text>
      )}
      <Button onClick={() => void router.invalidate()}>Try again</Button>
    </Stack>
  );
}

export function NotFoundPage() {
  return (
    <Stack align="flex-start">
      <Title size="h2">There is nothing at this address</Title>
      <Text>The link may be old, or what it showed may have been deleted.</Text>
      <ButtonLink to="/">Open Overview</ButtonLink>
    </Stack>
  );
}
