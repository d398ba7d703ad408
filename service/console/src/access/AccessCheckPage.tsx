import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Alert, Autocomplete, Button, Group, Paper, Stack, Text, TextInput, ThemeIcon } from "@mantine/core";
import { useForm } from "@mantine/form";
import { IconCheck, IconX } from "@tabler/icons-react";
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, type ReactNode } from "react";

import { api, body, type Schemas } from "../api/client";
import { byField, problemOf } from "../api/problem";
import { useGateways } from "../live/live";
import { AnchorLink } from "../shared/links";
import { Name } from "../shared/Name";
import { PageHead } from "../shared/PageHead";
import { ProblemNote } from "../shared/ProblemNote";
import { Loading } from "../shared/Loading";
import { day, either, moment } from "../shared/words";
import { findLogins, useFound } from "../shared/found";
import { hostOf } from "../shared/suggestion";
import { Remedy } from "./Remedy";
import { WithoutDevice } from "./WithoutDevice";

type Trace = Schemas["TraceOut"];

type Step = Trace["steps"][number];

/** The step in a sentence; of a condition, what the policy asks for, whether it is met or not. */
function sentenceOf({ check, subject, holds }: Step): string | null {
  switch (check) {
    case "device":
      return holds ? t`The device ${subject} is enrolled.` : null;
    case "name":
      return holds ? t`${subject} is the name of a resource.` : null;
    case "policy":
      if (subject === "") return null;
      return holds
        ? t`Policy “${subject}” is for this person and this resource.`
        : t`Policy “${subject}” is turned off.`;
    case "code":
      return holds
        ? t`A code is valid, for which policy “${subject}” asks.`
        : t`Policy “${subject}” asks for a code.`;
    case "source":
      return t`Policy “${subject}” asks for certain addresses of the device.`;
    case "posture":
      return t`Policy “${subject}” asks for facts about the computer.`;
    case "hours":
      return t`Policy “${subject}” permits certain hours.`;
    case "approval":
      return t`Policy “${subject}” asks for an approved device.`;
    case "gateway":
      return holds ? t`The gateway ${subject} is online.` : null;
  }
}

/** The obstacle in the controller's words, unless the sentence says it. */
const obstacleOf = ({ check, subject, message }: Step): string | null =>
  check === "policy" && subject !== "" ? null : message;

const FIELDS = ["user", "name", "at"];

const tracesQuery = (user: string, name: string, at?: string) =>
  queryOptions({
    queryKey: ["access", user, name, at],
    queryFn: async () =>
      body(
        await api.GET("/api/v1/access", {
          params: { query: { user, name, ...(at !== undefined && { at }) } },
        }),
      ),
    staleTime: 0,
  });

/** "Why can't Alice reach git?": the controller walks the same code that decides. */
export function AccessCheckPage() {
  const asked = useSearch({ from: "/frame/access" });
  const navigate = useNavigate({ from: "/access" });
  const form = useForm({
    initialValues: { user: "", name: "", at: "" },
  });
  const people = useFound("users", form.values.user);
  const resources = useFound("resources", form.values.name);
  const { user, name, at } = asked;
  const { setErrors, setValues } = form;
  useEffect(() => {
    setValues({ user: user ?? "", name: name ?? "", at: at === undefined ? "" : localTime(at) });
  }, [setValues, user, name, at]);
  const history = useQuery({
    queryKey: ["access", "history"],
    queryFn: async () => body(await api.GET("/api/v1/access/history")),
  });
  const traces = useQuery({
    ...tracesQuery(user ?? "", name ?? "", at),
    enabled: user !== undefined && name !== undefined,
  });
  const { error } = traces;
  useEffect(() => {
    if (error) setErrors(byField(problemOf(error), FIELDS).fields);
  }, [setErrors, error]);
  const queries = useQueryClient();
  const { rows } = useGateways();
  const standing = [...(rows?.values() ?? [])].map((it) => `${it.name} ${it.state}`).join();
  useEffect(() => {
    // A gateway that comes or goes writes no line of the log.
    if (standing !== "") void queries.invalidateQueries({ queryKey: ["access"] });
  }, [queries, standing]);
  return (
    <Stack maw={820}>
      <PageHead
        title={t`Access check`}
        about={t`Whether each of a person’s devices may open a name, now or at a time before, and why.`}
      />
      <form
        onSubmit={form.onSubmit(async ({ user: person, name: typed, at: time }) => {
          // The field has no seconds: a time that nobody has changed stays the one of the address.
          const chosen = at !== undefined && time === localTime(at) ? at : time;
          const logins = await findLogins(person.trim()).catch(() => []);
          if (logins.length > 1) {
            const listed = either(logins);
            form.setFieldError("user", t`Several people have this name: ${listed}. Enter one of these.`);
            return;
          }
          const login = logins[0] ?? person.trim();
          const host = hostOf(typed).trim();
          form.setValues({ user: login, name: host });
          await navigate({
            search: {
              user: login,
              name: host,
              ...(chosen !== "" && { at: new Date(chosen).toISOString() }),
            },
          });
          void traces.refetch();
        })}
      >
        <Group align="flex-start">
          <Autocomplete
            label={t`Person`}
            placeholder={t`alice or Alice Smith`}
            required
            spellCheck={false}
            w={{ base: "100%", xs: "auto" }}
            {...people}
            {...form.getInputProps("user")}
          />
          <Autocomplete
            label={t`Name`}
            placeholder={t`git or git.corp.example`}
            required
            spellCheck={false}
            flex={1}
            miw={220}
            {...resources}
            {...form.getInputProps("name")}
          />
          <TextInput
            type="datetime-local"
            label={t`Time`}
            description={history.data && timeHint(form.values.at, history.data.since)}
            inputWrapperOrder={["label", "input", "description", "error"]}
            w={215}
            {...form.getInputProps("at")}
          />
          <Button type="submit" mt={22} loading={traces.isFetching}>
            <Trans>Check</Trans>
          </Button>
        </Group>
      </form>
      {traces.isLoading && <Loading forWhat={t`the answer`} />}
      {error && byField(problemOf(error), FIELDS).rest && <ProblemNote error={error} />}
      {traces.data?.length === 0 &&
        user !== undefined &&
        name !== undefined &&
        (at === undefined ? (
          <WithoutDevice user={user} name={name} />
        ) : (
          <Alert variant="light" color="yellow" title={t`${user} had no device at this time`} />
        ))}
      {at !== undefined && user !== undefined && name !== undefined && (
        <Text size="sm" c="dimmed">
          {traces.data !== undefined && traces.data.length > 0 && (
            <Trans>
              As of {moment(at)}, with the people, devices, policies, resources and gateways of then. The
              controller’s settings are today’s.
            </Trans>
          )}{" "}
          <AnchorLink to="/access" search={{ user, name }} inherit underline="always">
            <Trans>Check for now</Trans>
          </AnchorLink>
        </Text>
      )}
      {traces.data?.map((trace) => (
        <Answer
          key={trace.device_id}
          trace={trace}
          remedy={
            user === undefined || name === undefined ? null : at === undefined ? (
              <Remedy user={user} fqdn={name} trace={trace} />
            ) : (
              <Today user={user} name={name} past={trace} />
            )
          }
        />
      ))}
    </Stack>
  );
}

/** The browser writes the field as its own settings say, in whichever language the page is. */
function timeHint(at: string, since: string): string {
  if (at === "") return t`Empty: now. Kept since ${day(since)}`;
  return t`${moment(at)}. Kept since ${day(since)}`;
}

/** A time as a field of the kind `datetime-local` has it: to the minute, in local time. */
function localTime(at: string): string {
  const time = new Date(at);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The answer of now and the remedy, below a denial in the past. */
function Today({ user, name, past }: { user: string; name: string; past: Trace }) {
  const today = useQuery(tracesQuery(user, name)).data?.find(({ device_id }) => device_id === past.device_id);
  if (today === undefined) return null;
  const gateways = today.gateways.join(", ");
  const answer = today.message ?? t`yes, through ${gateways}`;
  return (
    <>
      {answer !== past.message && (
        <Text size="sm" c="dimmed" className="name measure">
          <Trans>Now: {answer}</Trans>
        </Text>
      )}
      {today.verdict === "deny" && <Remedy user={user} fqdn={name} trace={today} />}
    </>
  );
}

function Answer({ trace, remedy }: { trace: Trace; remedy: ReactNode }) {
  const permits = trace.verdict === "permit";
  const gateways = trace.gateways.join(", ");
  return (
    <Paper withBorder p="lg" component="section" aria-label={t`Answer to ${trace.device}`}>
      <Group wrap="nowrap" align="flex-start" mb="md">
        <Mark holds={permits} size="lg" />
        <Stack gap={2} align="flex-start">
          <Text fw={600} className="name">
            <Name>{`${trace.device}: ${permits ? t`yes, through ${gateways}` : trace.message}`}</Name>
          </Text>
          {permits ? (
            <Text size="sm" c="dimmed">
              {trace.permitted_until !== null && t`until ${moment(trace.permitted_until)}`}
            </Text>
          ) : (
            remedy
          )}
        </Stack>
      </Group>
      <Stack component="ol" gap="xs" m={0} p={0}>
        {trace.steps.map((step, at) => (
          <Group key={at} component="li" wrap="nowrap" align="flex-start" gap="sm">
            <Mark holds={step.holds} size="xs" />
            <Text size="sm" className="name measure" miw={0}>
              <Name>{[sentenceOf(step), obstacleOf(step)].filter(Boolean).join(" ")}</Name>
            </Text>
          </Group>
        ))}
      </Stack>
    </Paper>
  );
}

function Mark({ holds, size }: { holds: boolean; size: string }) {
  return (
    <ThemeIcon
      size={size}
      radius="xl"
      color={holds ? "culvert" : "red"}
      role="img"
      aria-label={holds ? t`holds` : t`does not hold`}
    >
      {holds ? <IconCheck size="70%" /> : <IconX size="70%" />}
    </ThemeIcon>
  );
}
