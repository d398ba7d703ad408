import {
  Button,
  Fieldset,
  Group,
  NumberInput,
  Select,
  SimpleGrid,
  Stack,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { PORT_MAX } from "../api/contract";
import { api, body } from "../api/client";
import { byField, problemOf } from "../api/problem";
import { PageHead } from "../shared/PageHead";
import { ProblemNote } from "../shared/ProblemNote";
import { Bundle } from "./Bundle";
import { FIELDS, gatewayOf, NEW, VALIDATE } from "./form";
import { ButtonLink } from "../shared/links";

const KINDS = [
  { value: "sluice", label: "sluice" },
  { value: "bmv2", label: "bmv2" },
  { value: "tofino-cpu", label: "Tofino with its CPU module for ESP" },
  { value: "crypto-host", label: "Tofino with a crypto host for ESP" },
];

/** Registered first, then handed what it needs to start. */
export function GatewayCreatePage() {
  const navigate = useNavigate();
  const [made, setMade] = useState<string | null>(null);
  const form = useForm({ initialValues: NEW, validate: VALIDATE });
  const create = useMutation({
    mutationFn: async () => body(await api.POST("/api/v1/gateways", { body: gatewayOf(form.values) })),
    onError: (error) => form.setErrors(byField(problemOf(error), FIELDS).fields),
    onSuccess: ({ name }) => setMade(name),
  });
  const field = (path: string) => ({
    ...form.getInputProps(path),
    spellCheck: false,
    autoCapitalize: "none",
  });
  return (
    <Stack maw={760}>
      <PageHead title="Add a gateway" about="A gateway ends tunnels between the internet and your network." />
      <form onSubmit={form.onSubmit(() => create.mutate())}>
        <Stack gap="lg">
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput label="Name" placeholder="gw-berlin" required {...field("name")} />
            <Select label="Switch" data={KINDS} allowDeselect={false} {...form.getInputProps("kind")} />
            <TextInput
              label="Public address"
              description="Devices send ESP to this address"
              placeholder="198.51.100.2"
              required
              {...field("address")}
            />
            <TextInput label="Public IPv6 address" description="Optional" {...field("address6")} />
            <TextInput
              label="P4Runtime"
              description="The controller connects to this address"
              placeholder="10.255.0.2:9559"
              required
              {...field("p4runtime")}
            />
            <TextInput
              label="Addresses of devices"
              description="Your network routes them to this gateway"
              placeholder="10.99.0.0/24"
              required
              {...field("pool")}
            />
            <TextInput label="IPv6 addresses of devices" description="Optional" {...field("pool6")} />
          </SimpleGrid>
          <Fieldset legend="Port to the internet">
            <SimpleGrid cols={{ base: 1, xs: 3 }}>
              <NumberInput
                label="WAN port"
                min={1}
                max={PORT_MAX}
                required
                {...form.getInputProps("wan.port")}
              />
              <TextInput label="WAN MAC" placeholder="02:00:00:00:01:01" required {...field("wan.mac")} />
              <TextInput
                label="MAC of the router"
                placeholder="02:00:00:00:01:02"
                required
                {...field("wan.next_hop_mac")}
              />
            </SimpleGrid>
          </Fieldset>
          <Fieldset legend="Port to your network">
            <SimpleGrid cols={{ base: 1, xs: 2 }}>
              <NumberInput
                label="LAN port"
                min={1}
                max={PORT_MAX}
                required
                {...form.getInputProps("lan.port")}
              />
              <TextInput label="LAN MAC" placeholder="02:00:00:00:02:01" required {...field("lan.mac")} />
              <TextInput label="LAN address" placeholder="10.20.0.1" required {...field("lan.address")} />
              <TextInput label="LAN prefix" placeholder="10.20.0.0/16" required {...field("lan.prefix")} />
            </SimpleGrid>
            <Textarea
              mt="sm"
              label="Neighbours"
              description="One address and MAC per line: servers on the gateway’s LAN"
              placeholder="10.20.0.10 02:00:00:00:02:10"
              autosize
              minRows={2}
              {...field("lan.neighbours")}
            />
          </Fieldset>
          {create.error && byField(problemOf(create.error), FIELDS).rest && (
            <ProblemNote error={create.error} />
          )}
          <Group>
            <Button type="submit" loading={create.isPending}>
              Add it
            </Button>
            <ButtonLink variant="default" to="/gateways">
              Cancel
            </ButtonLink>
          </Group>
        </Stack>
      </form>
      {made !== null && (
        <Bundle
          name={made}
          onClose={() => void navigate({ to: "/gateways/of/$name", params: { name: made } })}
        />
      )}
    </Stack>
  );
}
