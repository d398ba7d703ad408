import { Trans } from "@lingui/react/macro";
import { Center, Loader, VisuallyHidden } from "@mantine/core";

export function Loading({ forWhat, whole = false }: { forWhat: string; whole?: boolean }) {
  return (
    <Center role="status" py={64} {...(whole && { h: "100vh" })}>
      <Loader aria-hidden />
      <VisuallyHidden>
        <Trans>Loading {forWhat}</Trans>
      </VisuallyHidden>
    </Center>
  );
}
