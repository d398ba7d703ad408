import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Paper, Select, SimpleGrid, Stack, Switch, Text, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";

import { SUITES } from "../api/contract";
import { useGateways } from "../live/live";
import { TargetRows } from "../resources/TargetRows";
import { Fold } from "../shared/Fold";
import { NamesField } from "../shared/NamesField";
import { REKEY_FIELDS } from "../shared/rekey";
import { RekeyFields } from "../shared/RekeyFields";
import type { SiteTunnelForm } from "./form";

const SELDOM = ["suite", ...REKEY_FIELDS];

export function SiteTunnelFields({
  form,
  isNew = false,
  suite,
}: {
  form: UseFormReturnType<SiteTunnelForm>;
  isNew?: boolean;
  /** The suite without a choice. */
  suite?: string;
}) {
  return (
    <Stack gap="lg">
      {isNew && (
        <TextInput
          label={t`Name`}
          description={t`Lower-case letters, digits and hyphens; it cannot be changed later`}
          placeholder="berlin-paris"
          required
          spellCheck={false}
          autoCapitalize="none"
          {...form.getInputProps("name")}
        />
      )}
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        {form.values.ends.map((_, at) => (
          <EndFields key={at} form={form} at={at} isNew={isNew} />
        ))}
      </SimpleGrid>
      <TextInput
        label={t`Owner`}
        description={t`Contact for questions`}
        placeholder="bob@corp.example"
        required
        {...form.getInputProps("owner")}
      />
      <Fold title={t`Encryption and new keys`} fields={SELDOM} errors={form.errors}>
        <Stack>
          <Select
            label={t`Suite`}
            description={t`A new suite takes effect at once with new keys, without a gap`}
            placeholder={suite ? t`The resources’: ${suite}` : t`The resources’, or aes-gcm-256`}
            clearable
            maw={360}
            data={[...new Set([...SUITES, ...(form.values.suite === "" ? [] : [form.values.suite])])]}
            error={form.errors["suite"]}
            value={form.values.suite === "" ? null : form.values.suite}
            onChange={(chosen) => form.setFieldValue("suite", chosen ?? "")}
          />
          <Switch
            label={t`Limits of its own for its keys`}
            description={t`Otherwise the lowest limits of its resources`}
            {...form.getInputProps("limited", { type: "checkbox" })}
          />
          {form.values.limited && <RekeyFields form={form} />}
        </Stack>
      </Fold>
    </Stack>
  );
}

function EndFields({
  form,
  at,
  isNew,
}: {
  form: UseFormReturnType<SiteTunnelForm>;
  at: number;
  isNew: boolean;
}) {
  const gateways = useGateways().rows;
  const end = form.values.ends[at];
  if (end === undefined) return null;
  const of = ` (${at === 0 ? t`one end` : t`the other end`})`;
  return (
    <Paper withBorder p="md" role="group" aria-label={at === 0 ? t`One end` : t`The other end`}>
      <Stack gap="md">
        {isNew ? (
          <Select
            label={t`Gateway`}
            placeholder={t`Choose one`}
            data={[...(gateways?.keys() ?? [])].sort()}
            searchable
            withAsterisk
            {...form.getInputProps(`ends.${at}.gateway`)}
          />
        ) : (
          <Text fw={600} className="name">
            {end.gateway}
          </Text>
        )}
        <NamesField
          area="resources"
          {...(end.gateway !== "" && { gateway: end.gateway })}
          label={t`Resources`}
          description={t`Reachable from the other end, with their addresses and ports`}
          placeholder={end.resources.length > 0 ? "" : t`None`}
          disabled={end.gateway === ""}
          {...form.getInputProps(`ends.${at}.resources`)}
        />
        <Stack gap={6} role="group" aria-label={t`Addresses` + of}>
          <Text size="sm" fw={600}>
            <Trans>Addresses</Trans>
          </Text>
          <Text size="xs" c="dimmed">
            <Trans>
              More addresses behind this gateway that may reach the other end, or be reached from there.
            </Trans>
          </Text>
          <TargetRows form={form} path={`ends.${at}.targets`} rows={end.targets} of={of} />
        </Stack>
      </Stack>
    </Paper>
  );
}
