import { msg, plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import {
  Autocomplete,
  Select,
  Stack,
  TagsInput,
  Text,
  type ComboboxItem,
  type SelectProps,
} from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";

import { sayOptions } from "../locale/language";
import { FormRows } from "../shared/FormRows";
import { NO_REQUIREMENT, OWN_FACTS, sayFact, type PolicyForm } from "./form";
import { factsQuery, type Fact } from "./queries";

const HOWS = [
  { value: "one_of", label: msg`is one of` },
  { value: "at_least", label: msg`is at least version` },
];

/** Conditions on the facts that a computer reports. */
export function PostureFields({ form }: { form: UseFormReturnType<PolicyForm> }) {
  const { posture } = form.values;
  const reported = new Map((useQuery(factsQuery).data ?? []).map((fact) => [fact.fact, fact]));
  const facts = new Set([...reported.keys(), ...Object.keys(OWN_FACTS)]);
  return (
    <Stack gap={6} role="group" aria-label={t`Facts about the computer`}>
      <div>
        <Text size="sm" fw={600}>
          <Trans>Only from a computer that reports</Trans>
        </Text>
        <Text size="xs" c="dimmed">
          <Trans>A fact that a device does not report counts as not met.</Trans>
        </Text>
      </div>
      <FormRows<PolicyForm["posture"][number]>
        form={form}
        path="posture"
        rows={posture}
        one={t`fact`}
        blank={NO_REQUIREMENT}
        add={posture.length === 0 ? t`Ask for a fact` : t`Another fact`}
      >
        {({ fact, how, values }, at) => {
          const seen = valuesOf(reported.get(fact));
          const shown = ({ option }: { option: { value: string } }) => (
            <Option name={option.value} about={devices(seen.get(option.value) ?? 0)} />
          );
          return (
            <>
              <Select
                aria-label={t`Fact ${at + 1}`}
                placeholder={t`Choose a fact`}
                // A policy may ask for a fact that no device reports any more.
                data={[...facts, ...(fact === "" || facts.has(fact) ? [] : [fact])].map((value) => ({
                  value,
                  label: sayFact(value),
                }))}
                filter={withText}
                renderOption={({ option: { value } }: { option: { value: string } }) => (
                  <Option name={sayFact(value)} about={about(value, reported.get(value))} />
                )}
                comboboxProps={{ width: "max-content", position: "bottom-start" }}
                searchable
                required
                allowDeselect={false}
                spellCheck={false}
                w={230}
                {...form.getInputProps(`posture.${at}.fact`)}
                value={fact === "" ? null : fact}
                onChange={(chosen: string | null) => form.setFieldValue(`posture.${at}.fact`, chosen ?? "")}
              />
              <Select
                aria-label={t`How ${at + 1}`}
                data={sayOptions(HOWS)}
                allowDeselect={false}
                w={190}
                {...form.getInputProps(`posture.${at}.how`)}
              />
              {how === "one_of" ? (
                <TagsInput
                  aria-label={t`Values ${at + 1}`}
                  placeholder={values.length > 0 ? "" : t`Choose values`}
                  data={[...seen.keys()]}
                  renderOption={shown}
                  flex={1}
                  miw={160}
                  {...form.getInputProps(`posture.${at}.values`)}
                />
              ) : (
                <Autocomplete
                  aria-label={t`Version ${at + 1}`}
                  placeholder="12.4"
                  data={[...seen.keys()].filter((value) => VERSION.test(value))}
                  renderOption={shown}
                  required
                  flex={1}
                  miw={160}
                  {...form.getInputProps(`posture.${at}.version`)}
                />
              )}
            </>
          );
        }}
      </FormRows>
    </Stack>
  );
}

// As the controller's (decision/posture.py).
const VERSION = /^[0-9]{1,9}(\.[0-9]{1,9}){0,5}$/;

const devices = (count: number): string => plural(count, { one: "# device", other: "# devices" });

/** The number of devices by value. */
const valuesOf = (fact: Fact | undefined): ReadonlyMap<string, number> =>
  new Map((fact?.values ?? []).map(({ value, devices }) => [value, devices]));

/** "os_version · 12 devices": the name that devices report, unless it is shown already. */
function about(fact: string, reported: Fact | undefined): string {
  const number = reported === undefined ? t`no device reports it` : devices(reported.devices);
  return [...(fact in OWN_FACTS ? [fact] : []), number].join(" · ");
}

/** A fact is found by its words and by the name that devices report. */
const withText: NonNullable<SelectProps["filter"]> = ({ options, search }) => {
  const typed = search.trim().toLowerCase();
  return (options as ComboboxItem[]).filter((option) =>
    [option.value, option.label].some((text) => text.toLowerCase().includes(typed)),
  );
};

function Option({ name, about }: { name: string; about: string }) {
  return (
    <div>
      <Text size="sm" className="name">
        {name}
      </Text>
      <Text size="xs" c="dimmed">
        {about}
      </Text>
    </div>
  );
}
