import { t } from "@lingui/core/macro";
import { NumberInput, SimpleGrid, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";

import { DNS_TTL_MAX } from "../api/contract";
import { api, body } from "../api/client";
import { FormDialog } from "../shared/FormDialog";

const NEW = { name: "", origin: "", server: "", port: 53, key: "", ttl: 60, view: "", instance: "default" };

export function ZoneCreateDialog({ onClose }: { onClose: () => void }) {
  const add = useMutation({
    mutationFn: async (zone: typeof NEW) => body(await api.POST("/api/v1/dns/zones", { body: zone })),
    onSuccess: ({ origin }) => {
      notifications.show({ message: t`${origin} is added; its records follow` });
      onClose();
    },
  });
  return (
    <FormDialog
      title={t`Add a zone`}
      act={t`Add it`}
      initial={NEW}
      mutation={add}
      onClose={onClose}
      size="lg"
    >
      {(form) => (
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          <TextInput
            label={t`Zone`}
            description={t`Devices open tunnels for its names`}
            placeholder="corp.example"
            required
            data-autofocus
            {...fieldOf(form, "origin")}
          />
          <TextInput
            label={t`Short name`}
            description={t`For lists and the API; it cannot be changed later`}
            placeholder="corp"
            required
            {...fieldOf(form, "name")}
          />
          <TextInput label={t`Name server`} placeholder="192.0.2.53" required {...fieldOf(form, "server")} />
          <NumberInput label={t`Port`} min={1} max={65535} required {...form.getInputProps("port")} />
          <TextInput
            label={t`TSIG key`}
            description={t`A file of dns-updater’s key directory, without .key`}
            placeholder="culvert"
            required
            {...fieldOf(form, "key")}
          />
          <NumberInput
            label={t`Time to live`}
            description={t`Seconds`}
            min={0}
            max={DNS_TTL_MAX}
            required
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
            required
            {...fieldOf(form, "instance")}
          />
        </SimpleGrid>
      )}
    </FormDialog>
  );
}

function fieldOf(form: UseFormReturnType<typeof NEW>, name: keyof typeof NEW) {
  return { ...form.getInputProps(name), spellCheck: false, autoCapitalize: "none" };
}
