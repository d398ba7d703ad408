import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import {
  Group,
  MultiSelect,
  NumberInput,
  Select,
  SimpleGrid,
  Stack,
  Switch,
  Text,
  TextInput,
} from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { useInfiniteQuery } from "@tanstack/react-query";
import type { ChangeEventHandler, ReactNode } from "react";

import { IDLE_MAX, SUITES } from "../api/contract";
import { managedZonesQuery, type Managed } from "../dns/queries";
import { useGateways } from "../live/live";
import { Fold } from "../shared/Fold";
import { AnchorLink } from "../shared/links";
import { NamesField } from "../shared/NamesField";
import { REKEY_FIELDS } from "../shared/rekey";
import { RekeyFields } from "../shared/RekeyFields";
import { hostOf } from "../shared/suggestion";
import { both } from "../shared/words";
import { completed, isOutside, WEIGHT, zoneNames, type ResourceForm } from "./form";
import { TargetRows } from "./TargetRows";

const EXAMPLE = "corp.example";
const SELDOM = ["suite", "idle_seconds", ...REKEY_FIELDS];
const WEIGHT_MAX = 1000;
const ZONES_SHOWN = 5;

export function ResourceFields({
  form,
  onFqdn,
  isNew,
}: {
  form: UseFormReturnType<ResourceForm>;
  onFqdn?: (fqdn: string) => void;
  isNew?: boolean;
}) {
  const gateways = useGateways().rows;
  const { data: found, hasNextPage } = useInfiniteQuery(managedZonesQuery);
  const zones = found?.pages.flatMap(({ rows }) => rows);
  const fqdn = form.getInputProps("fqdn") as {
    onChange: ChangeEventHandler<HTMLInputElement>;
    error?: ReactNode;
  };
  const refused = form.values.targets.flatMap((_, at) => {
    const error = form.errors[`targets.${at}.prefix`];
    return typeof error === "string" ? error.split(/[\s,:;()]+/) : [];
  });
  // The gateways whose settings refuse an address.
  const refusing = form.values.gateways.filter((name) => refused.includes(name));
  const isRefused = fqdn.error !== undefined && fqdn.error !== null;
  const typed = hostOf(form.values.fqdn);
  return (
    <Stack gap="lg">
      <Group grow align="flex-start" preventGrowOverflow={false} wrap="wrap">
        <TextInput
          label={t`Name that people open`}
          description={<NameHint zones={zones} areMore={hasNextPage} />}
          placeholder={`wiki.${zones === undefined ? EXAMPLE : (zoneNames(zones)[0] ?? EXAMPLE)}`}
          required
          spellCheck={false}
          autoCapitalize="none"
          miw={240}
          {...fqdn}
          {...(isRefused &&
            zones !== undefined &&
            !hasNextPage &&
            isOutside(typed, zones) && { error: <Outside name={typed} /> })}
          onChange={(event) => {
            fqdn.onChange(event);
            onFqdn?.(event.currentTarget.value);
          }}
          onBlur={() => {
            const whole = completed(form.values.fqdn, hasNextPage ? [] : (zones ?? []));
            if (whole !== form.values.fqdn) form.setFieldValue("fqdn", whole);
          }}
        />
        {isNew && (
          <TextInput
            label={t`Short name`}
            description={t`For lists and policies; it cannot be changed later`}
            placeholder="wiki"
            required
            spellCheck={false}
            autoCapitalize="none"
            miw={200}
            {...form.getInputProps("name")}
          />
        )}
      </Group>
      <Stack gap={6} role="group" aria-label={t`Permitted addresses`}>
        <Text size="sm" fw={600}>
          <Trans>Permitted addresses</Trans>
          <Text span inherit c="var(--mantine-color-error)" aria-hidden>
            {" *"}
          </Text>
        </Text>
        <Text size="xs" c="dimmed">
          <Trans>Addresses on the gateways’ LAN. The tunnel carries only these.</Trans>
        </Text>
        <TargetRows form={form} path="targets" rows={form.values.targets} atLeast={1} />
        {refusing.map((name) => (
          <AnchorLink
            key={name}
            to="/gateways/edit/$name"
            params={{ name }}
            hash="neighbours"
            target="_blank"
            size="xs"
            underline="always"
          >
            <Trans>Neighbours and routes of {name}</Trans>
          </AnchorLink>
        ))}
      </Stack>
      <MultiSelect
        label={t`Gateways`}
        description={
          gateways?.size === 0 ? (
            <Trans>
              No gateway yet:{" "}
              <AnchorLink to="/gateways/join" target="_blank" inherit underline="always">
                add a gateway
              </AnchorLink>{" "}
              first.
            </Trans>
          ) : form.values.weighted && form.values.gateways.length > 1 ? (
            t`Their weights decide`
          ) : (
            t`The first gateway that is online is used`
          )
        }
        placeholder={form.values.gateways.length > 0 ? "" : t`At least one`}
        data={[...new Set([...(gateways?.keys() ?? []), ...form.values.gateways])]}
        searchable
        nothingFoundMessage={gateways?.size === 0 ? t`None yet` : t`No match`}
        withAsterisk
        {...form.getInputProps("gateways")}
      />
      {form.values.gateways.length > 1 && <Weights form={form} />}
      <NamesField
        area="users"
        label={t`People`}
        description={
          <Trans>
            Each gets a policy; use{" "}
            <AnchorLink to="/policies" target="_blank" inherit underline="always">
              Policies
            </AnchorLink>{" "}
            for groups and conditions.{" "}
            <AnchorLink to="/people" search={{ dialog: "add" }} target="_blank" inherit underline="always">
              Add a person
            </AnchorLink>
          </Trans>
        }
        placeholder={form.values.users.length > 0 ? "" : t`Nobody yet`}
        {...form.getInputProps("users")}
      />
      <TextInput
        label={t`Owner`}
        description={t`Whom people without access ask: an e-mail address, which they can click, or words such as “the help desk”`}
        placeholder="bob@corp.example"
        required
        {...form.getInputProps("owner")}
      />
      <Fold title={t`Encryption, new keys and idle time`} fields={SELDOM} errors={form.errors}>
        <SimpleGrid cols={{ base: 1, xs: 2 }} mb="md">
          <Select
            label={t`Suite`}
            placeholder={t`Each gateway’s default`}
            clearable
            data={[...new Set([...SUITES, ...(form.values.suite === "" ? [] : [form.values.suite])])]}
            error={form.errors["suite"]}
            value={form.values.suite === "" ? null : form.values.suite}
            onChange={(suite) => form.setFieldValue("suite", suite ?? "")}
          />
          <NumberInput
            label={t`Idle time`}
            description={t`Seconds without a packet before a tunnel is closed`}
            min={1}
            max={IDLE_MAX}
            {...form.getInputProps("idle_seconds")}
          />
        </SimpleGrid>
        <RekeyFields form={form} />
      </Fold>
    </Stack>
  );
}

/** `zones` undefined: not known yet. */
function NameHint({
  zones,
  areMore,
}: {
  zones: readonly Managed[] | undefined;
  /** Whether there are zones besides these. */
  areMore: boolean;
}) {
  if (zones?.length === 0)
    return (
      <Trans>
        A full name, in a zone of yours. Culvert has no zone yet: <ToZones>add a zone</ToZones> first.
      </Trans>
    );
  const names = zoneNames(zones ?? []);
  const shown = names.slice(0, ZONES_SHOWN);
  const left = names.length - shown.length;
  const listed = both([...shown, ...(areMore ? [t`many more`] : left > 0 ? [t`${left} more`] : [])]);
  const example = `*.dev.${names[0] ?? EXAMPLE}`;
  return (
    <>
      <Trans>A full name; {example} covers every name below.</Trans>
      <br />
      {names.length > 0 && (
        <span className="name">
          {plural(names.length, { one: `Zone: ${listed}`, other: `Zones: ${listed}` })}
        </span>
      )}
    </>
  );
}

function Outside({ name }: { name: string }) {
  return (
    <span className="name">
      <Trans>
        {name} is in none of the zones. Change the name, or <ToZones>add a zone</ToZones>.
      </Trans>
    </span>
  );
}

/** In a new tab, so that the form stays as it is; it reads the zones again when the person comes back. */
function ToZones({ children }: { children?: ReactNode }) {
  return (
    <AnchorLink to="/dns" target="_blank" inherit underline="always">
      {children}
    </AnchorLink>
  );
}

/** The order of the gateways, or their weights. */
function Weights({ form }: { form: UseFormReturnType<ResourceForm> }) {
  const { gateways, weighted, weights } = form.values;
  return (
    <Fold title={t`Weights of the gateways`} fields={["weights"]} errors={form.errors}>
      <Stack gap="sm">
        <Switch
          label={t`Spread devices over the gateways by weight`}
          description={t`Instead of the order. A much nearer gateway still comes first; 0: only if no other is usable`}
          {...form.getInputProps("weighted", { type: "checkbox" })}
          error={form.errors["weights"]}
        />
        {weighted && (
          <Group align="flex-start">
            {gateways.map((name) => (
              <NumberInput
                key={name}
                label={<span className="name">{name}</span>}
                aria-label={t`Weight of ${name}`}
                min={0}
                max={WEIGHT_MAX}
                allowDecimal={false}
                w={140}
                value={weights[name] ?? WEIGHT}
                onChange={(weight) => form.setFieldValue("weights", { ...weights, [name]: Number(weight) })}
              />
            ))}
          </Group>
        )}
      </Stack>
    </Fold>
  );
}
