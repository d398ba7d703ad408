import { Fieldset, NumberInput, Select, SimpleGrid, Stack, Textarea, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { PORT_MAX } from "../api/contract";
import { api, body } from "../api/client";
import { CreateForm, type Created } from "../shared/CreateForm";
import { PageHead } from "../shared/PageHead";
import { BundleDialog } from "./BundleDialog";
import { FIELDS, gatewayOf, NEW, VALIDATE, type GatewayForm } from "./form";

const KINDS = [
  { value: "sluice", label: "sluice" },
  { value: "bmv2", label: "bmv2" },
  { value: "tofino-cpu", label: "Tofino with its CPU module for ESP" },
  { value: "crypto-host", label: "Tofino with a crypto host for ESP" },
];

const CONNECTIONS = [
  { value: "gateway", label: "The gateway connects to the controller (recommended)" },
  { value: "controller", label: "The controller connects to the gateway" },
];

const CREATED: Created<GatewayForm> = { initial: NEW, fieldsOf: () => FIELDS, validate: VALIDATE };

/** Registers a gateway, then offers the bundle with which it starts. */
export function GatewayCreatePage() {
  const navigate = useNavigate();
  const [made, setMade] = useState<string | null>(null);
  return (
    <Stack maw={760}>
      <PageHead title="Add a gateway" about="A gateway ends tunnels between the internet and your network." />
      <CreateForm
        label="Gateway"
        created={CREATED}
        create={async (form) => body(await api.POST("/api/v1/gateways", { body: gatewayOf(form) }))}
        onCreated={({ name }) => setMade(name)}
        list="/gateways"
      >
        {(form) => (
          <>
            <SimpleGrid cols={{ base: 1, xs: 2 }}>
              <TextInput label="Name" placeholder="gw-berlin" required {...fieldOf(form, "name")} />
              <Select label="Switch" data={KINDS} allowDeselect={false} {...form.getInputProps("kind")} />
              <TextInput
                label="Address"
                description="The WAN port’s own address"
                placeholder="198.51.100.2"
                required
                {...fieldOf(form, "address")}
              />
              <TextInput label="IPv6 address" description="Optional" {...fieldOf(form, "address6")} />
              <TextInput
                label="Public address"
                description="Only behind a NAT: devices send to this address"
                {...fieldOf(form, "public_address")}
              />
              <TextInput
                label="Public IPv6 address"
                description="Optional"
                {...fieldOf(form, "public_address6")}
              />
              <Select
                label="Connection"
                description={
                  form.values.connects === "gateway"
                    ? "For sluice: no port of the gateway is open for it"
                    : "For switches that cannot connect themselves"
                }
                data={CONNECTIONS}
                allowDeselect={false}
                {...form.getInputProps("connects")}
              />
              {form.values.connects === "controller" && (
                <TextInput
                  label="P4Runtime"
                  description="The controller connects to this address"
                  placeholder="10.255.0.2:9559"
                  required
                  {...fieldOf(form, "p4runtime")}
                />
              )}
              <TextInput
                label="Addresses of devices"
                description="Your network routes them to this gateway"
                placeholder="10.99.0.0/24"
                required
                {...fieldOf(form, "pool")}
              />
              <TextInput
                label="IPv6 addresses of devices"
                description="Optional"
                {...fieldOf(form, "pool6")}
              />
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
                <TextInput
                  label="WAN MAC"
                  placeholder="02:00:00:00:01:01"
                  required
                  {...fieldOf(form, "wan.mac")}
                />
                <TextInput
                  label="MAC of the router"
                  placeholder="02:00:00:00:01:02"
                  required
                  {...fieldOf(form, "wan.next_hop_mac")}
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
                <TextInput
                  label="LAN MAC"
                  placeholder="02:00:00:00:02:01"
                  required
                  {...fieldOf(form, "lan.mac")}
                />
                <TextInput
                  label="LAN address"
                  placeholder="10.20.0.1"
                  required
                  {...fieldOf(form, "lan.address")}
                />
                <TextInput
                  label="LAN prefix"
                  placeholder="10.20.0.0/16"
                  required
                  {...fieldOf(form, "lan.prefix")}
                />
              </SimpleGrid>
              <Textarea
                mt="sm"
                label="Neighbours"
                description="One address and MAC per line: servers on the gateway’s LAN"
                placeholder="10.20.0.10 02:00:00:00:02:10"
                autosize
                minRows={2}
                {...fieldOf(form, "lan.neighbours")}
              />
            </Fieldset>
          </>
        )}
      </CreateForm>
      {made !== null && (
        <BundleDialog
          name={made}
          onClose={() => void navigate({ to: "/gateways/of/$name", params: { name: made } })}
        />
      )}
    </Stack>
  );
}

function fieldOf(form: UseFormReturnType<GatewayForm>, path: string) {
  return { ...form.getInputProps(path), spellCheck: false, autoCapitalize: "none" };
}
