import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Code, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, body } from "../api/client";
import { byField, problemOf } from "../api/problem";
import { typed } from "../settings/ProofFields";
import { Loading } from "../shared/Loading";
import { ProblemNote } from "../shared/ProblemNote";
import { QrSecret } from "../shared/QrSecret";
import { useUnsaved } from "../shared/useUnsaved";
import { CardPage } from "./CardPage";
import { RecoveryCodes } from "./RecoveryCodes";
import { enter } from "./session";
import { ProviderSetUp } from "./SignInAlternatives";
import { AnchorLink, ButtonLink } from "../shared/links";
import { ROLES, sayRole } from "../shared/words";
import { say } from "../locale/language";

const SHORTEST_PASSWORD = 12;

/** The page of an administrator's invitation. Its token is in the fragment (#), which browsers do not send. */
export function SetUpPage() {
  const [token] = useState(() => new URLSearchParams(window.location.hash.slice(1)).get("token") ?? "");
  const form = useForm({ initialValues: { token, name: "", password: "" } });
  const setUp = useMutation({
    mutationFn: async (values: typeof form.values) => body(await api.POST("/api/v1/setup", { body: values })),
    onError: (error) => form.setErrors(byField(problemOf(error), Object.keys(form.values)).fields),
  });
  const [isSignedIn, setSignedIn] = useState(false);
  const { name, password } = form.values;
  const invited = useQuery({
    queryKey: ["setup", token],
    queryFn: async () => body(await api.POST("/api/v1/setup/invitation", { body: { token } })),
    enabled: token !== "" && !setUp.isSuccess,
  });
  useUnsaved(form.isDirty() && !setUp.isSuccess);
  if (setUp.isSuccess && isSignedIn) return <KeepCodes name={name} codes={setUp.data.recovery_codes} />;
  if (setUp.isSuccess)
    return (
      <FirstSignIn
        uri={setUp.data.totp_uri}
        name={name}
        password={password}
        onSignedIn={() => {
          // Until now, the link makes the account anew after a reload.
          window.history.replaceState(window.history.state, "", window.location.pathname);
          setSignedIn(true);
        }}
      />
    );
  if (invited.isLoading) return <Loading forWhat={t`the invitation`} whole />;
  if (invited.isError && isRefused(invited.error))
    return (
      <CardPage title={t`Make your account`}>
        <Refusal error={invited.error} />
      </CardPage>
    );
  return (
    <CardPage title={t`Make your account`} about={aboutRole(invited.data?.role)}>
      <form onSubmit={form.onSubmit((values) => setUp.mutate(values))} noValidate>
        <Stack>
          {token === "" && (
            <TextInput
              label={t`Invitation`}
              description={t`The token that you were given`}
              required
              autoFocus
              {...form.getInputProps("token")}
            />
          )}
          <TextInput
            label={t`Name`}
            description={
              // A refusal says the same.
              form.errors.name === undefined &&
              t`1 to 63 lower-case letters from a to z, digits, dots, hyphens and underscores; it begins with a letter or a digit`
            }
            autoComplete="username"
            autoCapitalize="none"
            spellCheck={false}
            required
            autoFocus={token !== ""}
            {...form.getInputProps("name")}
          />
          <PasswordInput
            label={t`Password`}
            description={form.errors.password === undefined && t`At least ${SHORTEST_PASSWORD} characters`}
            autoComplete="new-password"
            required
            {...form.getInputProps("password")}
          />
          {setUp.isError && byField(problemOf(setUp.error), Object.keys(form.values)).rest && (
            <Refusal error={setUp.error} />
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

function aboutRole(role?: string): string {
  const next = t`An authenticator app is needed next, on a phone or in a password manager.`;
  const known = ROLES.find(({ value }) => value === role);
  if (known === undefined) return next;
  return `${t`Its role is ${sayRole(known.value)}: ${say(known.about)}.`} ${next}`;
}

const isRefused = (error: Error): boolean => problemOf(error).reason === "INVITATION_INVALID";

function Refusal({ error }: { error: Error }) {
  return (
    <Stack>
      <ProblemNote error={error} />
      {isRefused(error) && (
        <>
          <Text size="sm">
            <Trans>
              If the account was made with this link,{" "}
              <AnchorLink to="/" inherit underline="always">
                sign in
              </AnchorLink>
              .
            </Trans>
          </Text>
          <Text size="sm" c="dimmed">
            <Trans>
              The first account’s link is from{" "}
              <Code style={{ whiteSpace: "nowrap" }}>culvert-controller init</Code> on the controller’s host;
              only the newest one is good.
            </Trans>
          </Text>
        </>
      )}
    </Stack>
  );
}

const isWrong = (error: Error): boolean => problemOf(error).reason === "SIGN_IN_WRONG";

/** The first code shows that the authenticator has the secret, which is not shown again. */
function FirstSignIn({
  uri,
  name,
  password,
  onSignedIn,
}: {
  uri: string;
  name: string;
  password: string;
  onSignedIn: () => void;
}) {
  const queries = useQueryClient();
  const form = useForm({ initialValues: { code: "" } });
  const signIn = useMutation({
    mutationFn: async (code: string) =>
      body(await api.POST("/api/v1/session", { body: { name, password, code: typed(code) } })),
    onSuccess: (session) => {
      enter(queries, session);
      onSignedIn();
    },
    onError: (error) => {
      form.setFieldValue("code", "");
      // Name and password are those of the account that was just made.
      if (isWrong(error))
        form.setFieldError(
          "code",
          t`This is not the present code. Check that your authenticator’s clock is right, wait for the next code and type that.`,
        );
    },
  });
  return (
    <CardPage
      title={t`Scan this with your authenticator`}
      about={t`Each sign-in asks for the six-digit code that it shows. After a reload, the set-up begins again.`}
    >
      <form onSubmit={form.onSubmit(({ code }) => signIn.mutate(code))}>
        <Stack>
          <QrSecret value={uri} title={t`QR code for an authenticator`} typed />
          <TextInput
            label={t`A code that it shows`}
            inputMode="numeric"
            autoComplete="one-time-code"
            required
            autoFocus
            {...form.getInputProps("code")}
          />
          {signIn.isError && !isWrong(signIn.error) && <ProblemNote error={signIn.error} />}
          <Button type="submit" loading={signIn.isPending} fullWidth>
            <Trans>Sign in</Trans>
          </Button>
        </Stack>
      </form>
    </CardPage>
  );
}

function KeepCodes({ name, codes }: { name: string; codes: readonly string[] }) {
  return (
    <CardPage
      title={t`Save your recovery codes`}
      about={t`If the authenticator is lost, one of these takes the place of the six digits.`}
    >
      <Stack>
        <RecoveryCodes name={name} codes={codes} />
        <ButtonLink to="/" fullWidth>
          <Trans>I have saved them</Trans>
        </ButtonLink>
      </Stack>
    </CardPage>
  );
}
