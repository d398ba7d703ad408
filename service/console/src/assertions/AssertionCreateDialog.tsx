import { msg, t } from "@lingui/core/macro";
import { Autocomplete, Group, SegmentedControl, Stack } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { sayOptions } from "../locale/language";
import { useFound } from "../shared/found";
import { FormDialog } from "../shared/FormDialog";
import { NameField } from "../shared/NamesField";

const NEW = { whose: "group" as "group" | "user", group: "", user: "", reaches: "no", name: "" };
const WHOSE = [
  { value: "group", label: msg`A group` },
  { value: "user", label: msg`One person` },
];
const REACHES = [
  { value: "yes", label: msg`can reach` },
  { value: "no", label: msg`cannot reach` },
];

export function AssertionCreateDialog({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: async ({ whose, group, user, reaches, name }: typeof NEW) =>
      body(
        await api.POST("/api/v1/assertions", {
          body: {
            ...(whose === "group" ? { group } : { user }),
            reaches: reaches === "yes",
            name: name.trim(),
          },
        }),
      ),
    onSuccess: async ({ holds }) => {
      await queries.invalidateQueries({ queryKey: ["assertions"] });
      notifications.show({
        message: holds
          ? t`The assertion is added, and holds`
          : t`The assertion is added, and does not hold yet`,
      });
      onClose();
    },
  });
  return (
    <FormDialog
      title={t`Add an assertion`}
      act={t`Add it`}
      initial={NEW}
      mutation={add}
      onClose={onClose}
      size="lg"
    >
      {(form) => (
        <Stack>
          <Group align="flex-start">
            <SegmentedControl
              aria-label={t`The assertion is about`}
              data={sayOptions(WHOSE)}
              {...form.getInputProps("whose")}
            />
            <NameField
              key={form.values.whose}
              area={form.values.whose === "group" ? "groups" : "users"}
              aria-label={form.values.whose === "group" ? t`Group` : t`Person`}
              placeholder={form.values.whose === "group" ? t`Choose a group` : t`Choose a person`}
              required
              flex={1}
              miw={200}
              {...form.getInputProps(form.values.whose)}
              value={form.values[form.values.whose] || null}
              onChange={(chosen) => form.setFieldValue(form.values.whose, chosen ?? "")}
            />
          </Group>
          <SegmentedControl
            aria-label={t`Access`}
            data={sayOptions(REACHES)}
            {...form.getInputProps("reaches")}
          />
          <NameOfResource
            {...form.getInputProps("name")}
            value={form.values.name}
            onChange={(name) => form.setFieldValue("name", name)}
          />
        </Stack>
      )}
    </FormDialog>
  );
}

function NameOfResource({ value, ...rest }: { value: string; onChange: (value: string) => void }) {
  const resources = useFound("resources", value);
  return (
    <Autocomplete
      label={t`Name`}
      description={t`Conditions of policies, such as hours, are not considered`}
      placeholder="payroll.corp.example"
      required
      spellCheck={false}
      {...resources}
      value={value}
      {...rest}
    />
  );
}
