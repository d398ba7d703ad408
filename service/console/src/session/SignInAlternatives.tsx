/** Sign-in with a passkey or at a provider, if this browser and this controller support it. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Divider, Stack } from "@mantine/core";
import { IconFingerprint, IconLogin2 } from "@tabler/icons-react";
import { queryOptions, useMutation, useQuery } from "@tanstack/react-query";

import { api, body, type Schemas } from "../api/client";
import { ProblemError } from "../api/problem";
import { ProblemNote } from "../shared/ProblemNote";
import { canUsePasskeys, isBrokenOff, signInByPasskey } from "./passkey";
import type { Session } from "./session";

const offerQuery = queryOptions({
  queryKey: ["session", "oidc"],
  queryFn: async () => body(await api.GET("/api/v1/oidc")),
  staleTime: Infinity,
});

export function SignInAlternatives({ onSignedIn }: { onSignedIn: (session: Session) => void }) {
  const byPasskey = useMutation({ mutationFn: signInByPasskey, onSuccess: onSignedIn });
  const { issuer = null, refused = null } = useQuery(offerQuery).data ?? {};
  const { error } = byPasskey;
  if (!canUsePasskeys() && issuer === null) return null;
  return (
    <Stack mt="lg">
      {refused !== null && <ProblemNote error={new ProblemError(refused, null)} />}
      <Divider label={t`or`} />
      {canUsePasskeys() && (
        <Button
          variant="default"
          leftSection={<IconFingerprint size={18} />}
          loading={byPasskey.isPending}
          onClick={() => byPasskey.mutate()}
        >
          <Trans>Use a passkey</Trans>
        </Button>
      )}
      {error && !isBrokenOff(error) && <ProblemNote error={error} />}
      {issuer !== null && <ProviderButton issuer={issuer} asked={{ purpose: "sign-in" }} />}
    </Stack>
  );
}

/** Sets up an account without a password, with the person's account at the provider. */
export function ProviderSetUp({ token, name }: { token: string; name: string }) {
  const issuer = useQuery(offerQuery).data?.issuer ?? null;
  if (issuer === null) return null;
  return (
    <Stack>
      <Divider label={t`or, without a password`} />
      <ProviderButton issuer={issuer} asked={{ purpose: "setup", token, name }} />
    </Stack>
  );
}

function ProviderButton({ issuer, asked }: { issuer: string; asked: Schemas["OidcIn"] }) {
  const begin = useMutation({
    mutationFn: async () => body(await api.POST("/api/v1/oidc", { body: asked })),
    onSuccess: ({ url }) => window.location.assign(url),
  });
  const { host } = new URL(issuer);
  return (
    <>
      <Button
        variant="default"
        leftSection={<IconLogin2 size={18} />}
        loading={begin.isPending || begin.isSuccess}
        onClick={() => begin.mutate()}
      >
        <Trans>Continue at {host}</Trans>
      </Button>
      {begin.error && <ProblemNote error={begin.error} />}
    </>
  );
}
