import { t } from "@lingui/core/macro";
import { NumberInput, SimpleGrid, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";
import { useState, type ChangeEventHandler } from "react";

import { DNS_TTL_MAX } from "../api/contract";
import { api, body } from "../api/client";
import { Fold } from "../shared/Fold";
import { FormDialog } from "../shared/FormDialog";
import { suggestedName, useSuggestion } from "../shared/suggestion";

const NEW = { name: "", origin: "", server: "", port: 53, key: "", ttl: 60, view: "", instance: "default" };
const SELDOM = ["port", "ttl", "view", "instance"];

/** `zone`: the origin that the form begins with. */
export function ZoneCreateDialog({ zone, onClose }: { zone?: string; onClose: () => void }) {
  const [initial] = useState(zone === undefined ? NEW : { ...NEW, origin: zone, name: suggestedName(zone) });
  const add = useMutation({
    mutationFn: async (asked: typeof NEW) => body(await api.POST("/api/v1/dns/zones", { body: asked })),
    onSuccess: ({ origin }) => {
      notifications.show({ message: t`${origin} is added; its records follow` });
      onClose();
    },
  });
  return (
    <FormDialog
      title={t`Add a zone`}
      act={t`Add it`}
      initial={initial}
      mutation={add}
      onClose={onClose}
      size="lg"
    >
      {(form) => <ZoneFields form={form} />}
    </FormDialog>
  );
}

function ZoneFields({ form }: { form: UseFormReturnType<typeof NEW> }) {
  const suggest = useSuggestion(form.values.name, (name) => form.setFieldValue("name", name));
  const origin = fieldOf(form, "origin");
  const isBegun = form.getInitialValues().origin !== "";
  const focused = { "data-autofocus": true };
  return (
    <>
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <TextInput
          label={t`Zone`}
          description={t`Devices open tunnels for its names`}
          placeholder="corp.example"
          required
          {...(!isBegun && focused)}
          {...origin}
          onChange={(event) => {
            origin.onChange(event);
            suggest(suggestedName(event.currentTarget.value));
          }}
        />
        <TextInput
          label={t`Short name`}
          description={t`For lists and the API; it cannot be changed later`}
          placeholder="corp"
          required
          {...fieldOf(form, "name")}
        />
        <TextInput
          label={t`Name server`}
          description={t`The zone’s primary server`}
          placeholder="192.0.2.53"
          required
          {...(isBegun && focused)}
          {...fieldOf(form, "server")}
        />
        <TextInput
          label={t`TSIG key`}
          description={t`A key of tsig-keygen that the name server lets change the zone: its file’s name in /etc/culvert/dns-keys on the controller’s host, without .key`}
          placeholder="culvert"
          required
          {...fieldOf(form, "key")}
        />
      </SimpleGrid>

      <Fold title={t`Port, time to live, view and instance`} fields={SELDOM} errors={form.errors}>
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          <NumberInput label={t`Port`} min={1} max={65535} {...form.getInputProps("port")} />
          <NumberInput
            label={t`Time to live`}
            description={t`Seconds`}
            min={0}
            max={DNS_TTL_MAX}
            {...form.getInputProps("ttl")}
          />
          <TextInput
            label={t`View`}
            description={t`If the server has several views of this zone`}
            {...fieldOf(form, "view")}
          />
          <TextInput
            label={t`Instance`}
            description={t`Marks our records, if several Culvert installations share the zone`}
            {...fieldOf(form, "instance")}
          />
        </SimpleGrid>
      </Fold>
    </>
  );
}

function fieldOf(form: UseFormReturnType<typeof NEW>, name: keyof typeof NEW) {
  const held = form.getInputProps(name) as { onChange: ChangeEventHandler<HTMLInputElement> };
  return { ...held, spellCheck: false, autoCapitalize: "none" };
}
