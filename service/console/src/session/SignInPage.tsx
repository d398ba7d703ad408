import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, PasswordInput, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { byField, problemOf } from "../api/problem";
import { ProblemNote } from "../shared/ProblemNote";
import { CardPage } from "./CardPage";
import { SignInAlternatives } from "./SignInAlternatives";
import { enter, type Session } from "./session";

/** Replaces the requested view until sign-in. */
export function SignInPage() {
  const queries = useQueryClient();
  const form = useForm({ initialValues: { name: "", password: "", code: "" } });
  const signedIn = (session: Session) => enter(queries, session);
  const signIn = useMutation({
    mutationFn: async (values: typeof form.values) =>
      body(await api.POST("/api/v1/session", { body: { ...values, code: values.code.replaceAll(" ", "") } })),
    onSuccess: signedIn,
    onError: (error) => {
      form.setErrors(byField(problemOf(error), Object.keys(form.values)).fields);
      form.setFieldValue("code", "");
    },
  });
  return (
    <CardPage title={t`Sign in`}>
      <form onSubmit={form.onSubmit((values) => signIn.mutate(values))}>
        <Stack>
          <TextInput
            label={t`Name`}
            autoComplete="username"
            autoCapitalize="none"
            spellCheck={false}
            required
            autoFocus
            {...form.getInputProps("name")}
          />
          <PasswordInput
            label={t`Password`}
            autoComplete="current-password"
            required
            {...form.getInputProps("password")}
          />
          <TextInput
            label={t`Code`}
            description={t`Six digits from your authenticator, or a recovery code`}
            autoComplete="one-time-code"
            spellCheck={false}
            required
            {...form.getInputProps("code")}
          />
          {signIn.isError && byField(problemOf(signIn.error), Object.keys(form.values)).rest && (
            <ProblemNote error={signIn.error} />
          )}
          <Button type="submit" loading={signIn.isPending} fullWidth>
            <Trans>Sign in</Trans>
          </Button>
        </Stack>
      </form>
      <SignInAlternatives onSignedIn={signedIn} />
    </CardPage>
  );
}
