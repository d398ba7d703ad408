import { Button, Group, NumberInput, SimpleGrid, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation } from "@tanstack/react-query";

import { DNS_TTL_MAX } from "../api/contract";
import { api, body } from "../api/client";
import { byField, problemOf } from "../api/problem";
import { Dialog } from "../shared/Dialog";
import { ProblemNote } from "../shared/ProblemNote";

const NEW = { name: "", origin: "", server: "", port: 53, key: "", ttl: 60, view: "", instance: "default" };
const FIELDS = Object.keys(NEW);

export function ZoneCreateDialog({ onClose }: { onClose: () => void }) {
  const form = useForm({ initialValues: NEW });
  const add = useMutation({
    mutationFn: async () => body(await api.POST("/api/v1/dns/zones", { body: form.values })),
    onError: (error) => form.setErrors(byField(problemOf(error), FIELDS).fields),
    onSuccess: ({ origin }) => {
      notifications.show({ message: `${origin} is added; its records follow` });
      onClose();
    },
  });
  const field = (name: string) => ({
    ...form.getInputProps(name),
    spellCheck: false,
    autoCapitalize: "none",
  });
  return (
    <Dialog opened onClose={onClose} title="Add a zone" size="lg">
      <form onSubmit={form.onSubmit(() => add.mutate())}>
        <Stack>
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput
              label="Zone"
              description="Devices open tunnels for its names"
              placeholder="corp.example"
              required
              data-autofocus
              {...field("origin")}
            />
            <TextInput
              label="Short name"
              description="For lists and the API; it cannot be changed later"
              placeholder="corp"
              required
              {...field("name")}
            />
            <TextInput label="Name server" placeholder="192.0.2.53" required {...field("server")} />
            <NumberInput label="Port" min={1} max={65535} required {...form.getInputProps("port")} />
            <TextInput
              label="TSIG key"
              description="A file of dns-updater’s key directory, without .key"
              placeholder="culvert"
              required
              {...field("key")}
            />
            <NumberInput
              label="Time to live"
              description="Seconds"
              min={0}
              max={DNS_TTL_MAX}
              required
              {...form.getInputProps("ttl")}
            />
            <TextInput
              label="View"
              description="If the server has several views of this zone"
              {...field("view")}
            />
            <TextInput
              label="Instance"
              description="Marks our records, if several Culvert installations share the zone"
              required
              {...field("instance")}
            />
          </SimpleGrid>
          {add.error && byField(problemOf(add.error), FIELDS).rest && <ProblemNote error={add.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={add.isPending}>
              Add it
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
