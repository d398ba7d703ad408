import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, PasswordInput, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { api, body } from "../api/client";
import { byField, problemOf } from "../api/problem";
import { ProblemNote } from "../shared/ProblemNote";
import { QrSecret } from "../shared/QrSecret";
import { CardPage } from "./CardPage";
import { ProviderSetUp } from "./SignInAlternatives";
import { ButtonLink } from "../shared/links";

const SHORTEST_PASSWORD = 12;

/** The page of an administrator's invitation. Its token is in the fragment (#), which browsers do not send. */
export function SetUpPage() {
  const [token] = useState(() => new URLSearchParams(window.location.hash.slice(1)).get("token") ?? "");
  const form = useForm({ initialValues: { token, name: "", password: "" } });
  const setUp = useMutation({
    mutationFn: async (values: typeof form.values) => body(await api.POST("/api/v1/setup", { body: values })),
    onSuccess: () => window.history.replaceState(window.history.state, "", window.location.pathname),
    onError: (error) => form.setErrors(byField(problemOf(error), Object.keys(form.values)).fields),
  });
  if (setUp.isSuccess) return <ScanIt uri={setUp.data.totp_uri} />;
  return (
    <CardPage title={t`Make your account`} about={t`You have been invited to administer this controller.`}>
      <form onSubmit={form.onSubmit((values) => setUp.mutate(values))}>
        <Stack>
          {token === "" && (
            <TextInput
              label={t`Invitation`}
              description={t`The token that you were given`}
              required
              {...form.getInputProps("token")}
            />
          )}
          <TextInput
            label={t`Name`}
            description={t`Lower-case letters, digits, dots and hyphens`}
            autoComplete="username"
            autoCapitalize="none"
            spellCheck={false}
            required
            {...form.getInputProps("name")}
          />
          <PasswordInput
            label={t`Password`}
            description={t`At least ${SHORTEST_PASSWORD} characters`}
            autoComplete="new-password"
            minLength={SHORTEST_PASSWORD}
            required
            {...form.getInputProps("password")}
          />
          {setUp.isError && byField(problemOf(setUp.error), Object.keys(form.values)).rest && (
            <ProblemNote error={setUp.error} />
          )}
          <Button type="submit" loading={setUp.isPending} fullWidth>
            <Trans>Continue</Trans>
          </Button>
          {form.values.name !== "" && (
            <ProviderSetUp token={form.values.token} name={form.values.name.trim()} />
          )}
        </Stack>
      </form>
    </CardPage>
  );
}

function ScanIt({ uri }: { uri: string }) {
  return (
    <CardPage
      title={t`Scan this with your authenticator`}
      about={t`Each sign-in asks for the six-digit code that it shows. This page is shown once.`}
    >
      <Stack>
        <QrSecret value={uri} title={t`QR code for an authenticator`} typed />
        <ButtonLink to="/" fullWidth>
          <Trans>I have scanned it: sign in</Trans>
        </ButtonLink>
      </Stack>
    </CardPage>
  );
}
