import { plural, t } from "@lingui/core/macro";
import { CloseButton, Group, Paper, Progress, Stack, Text, ThemeIcon, Title } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { IconCheck } from "@tabler/icons-react";
import { useState } from "react";

import { say } from "../locale/language";
import { useMayWrite } from "../session/session";
import { nextOf, stateOf, stepsOf, type ShownStep } from "./steps";
import { useHappened, useOld } from "./useHappened";
import { both } from "../shared/words";
import { ButtonLink } from "../shared/links";

const TICK_PX = 26;

/** The way from an empty controller to the first opened page, for those with write access, until finished or dismissed. */
export function Wizard() {
  const mayWrite = useMayWrite("resources");
  const [dismissed, setDismissed] = useLocalStorage({
    key: "culvert-wizard-dismissed",
    defaultValue: false,
    getInitialValueInEffect: false,
  });
  if (!mayWrite || dismissed) return null;
  return <Steps onDismiss={() => setDismissed(true)} />;
}

function Steps({ onDismiss }: { onDismiss: () => void }) {
  const happened = useHappened();
  const state = stateOf(happened, useOld());
  // A person who saw the steps also sees that they are finished; a later visitor sees nothing.
  const [seen, setSeen] = useState(false);
  if (state === "begun" && !seen) setSeen(true);
  if (state === "unknown" ? !seen : state === "finished" && !seen) return null;
  const steps = stepsOf(happened);
  const done = steps.filter(({ isDone }) => isDone).length;
  return (
    <Paper withBorder p="lg" mb="lg" component="section" aria-label={t`First steps`} className="list">
      <Group justify="space-between" align="flex-start" wrap="nowrap" mb="xs">
        <div>
          <Title order={2} size="h4">
            {state === "finished" ? t`It works: the first tunnel is open` : t`First steps`}
          </Title>
          <Text size="sm" c="dimmed">
            {state === "finished"
              ? t`Everybody you invite can now open what a policy permits.`
              : t`${done} of ${steps.length} done; each is ticked as it happens.`}
          </Text>
        </div>
        <CloseButton aria-label={t`Dismiss the first steps`} onClick={onDismiss} />
      </Group>
      <Progress value={(100 * done) / steps.length} mb="md" aria-label={t`First steps done`} />
      <Stack component="ol" gap="sm" m={0} p={0} style={{ listStyle: "none" }}>
        {steps.map((step) => (
          <WizardStep
            key={step.what}
            step={step}
            isNext={state === "begun" && nextOf(happened)?.what === step.what}
          />
        ))}
      </Stack>
    </Paper>
  );
}

function WizardStep({
  step: { number, title, how, act, to, isDone, missing },
  isNext,
}: {
  step: ShownStep;
  isNext: boolean;
}) {
  const steps = both(missing.map(String));
  return (
    <Group component="li" wrap="nowrap" align="flex-start" gap="sm" data-done={isDone}>
      <ThemeIcon
        size={TICK_PX}
        radius="xl"
        variant={isDone ? "filled" : isNext ? "light" : "default"}
        role="img"
        aria-label={isDone ? t`done` : t`to do`}
      >
        {isDone ? <IconCheck size={16} /> : <Text size="xs">{number}</Text>}
      </ThemeIcon>
      <Group justify="space-between" flex={1} gap="xs">
        <div>
          <Text size="sm" lh={`${TICK_PX}px`} fw={isNext ? 600 : 500} {...(isDone && { c: "dimmed" })}>
            {say(title)}
          </Text>
          {isNext && (
            <Text size="sm" c="dimmed">
              {say(how)}
            </Text>
          )}
          {!isDone && missing.length > 0 && (
            <Text size="sm" c="dimmed">
              {plural(missing.length, {
                one: `Needs step ${steps} first`,
                other: `Needs steps ${steps} first`,
              })}
            </Text>
          )}
        </div>
        {!isDone && missing.length === 0 && (
          <ButtonLink to={to} size="compact-sm" variant={isNext ? "light" : "default"}>
            {say(act)}
          </ButtonLink>
        )}
      </Group>
    </Group>
  );
}
