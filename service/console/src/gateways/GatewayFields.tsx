/** The fields of a gateway's form, for a new one and for a change. */
import { msg, t } from "@lingui/core/macro";
import { i18n } from "@lingui/core";
import { Trans } from "@lingui/react/macro";
import {
  Code,
  Fieldset,
  MultiSelect,
  NumberInput,
  Select,
  SimpleGrid,
  Textarea,
  TextInput,
} from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { useLocation } from "@tanstack/react-router";

import { LEGACY_SUITES, PORT_MAX, SUITES } from "../api/contract";
import { Fold } from "../shared/Fold";
import type { GatewayForm } from "./form";
import type { FreePools } from "./queries";

const KINDS = [
  { value: "sluice", label: msg`sluice` },
  { value: "bmv2", label: msg`bmv2` },
  { value: "tofino-cpu", label: msg`Tofino with its CPU module for ESP` },
  { value: "crypto-host", label: msg`Tofino with a crypto host for ESP` },
];

const CONNECTIONS = [
  { value: "gateway", label: msg`The gateway connects to the controller (recommended)` },
  { value: "controller", label: msg`The controller connects to the gateway` },
];

const VLANS = [
  ["wan.vlan", msg`VLAN of the WAN port`],
  ["lan.vlan", msg`VLAN of the LAN port`],
] as const;
const MTUS = [
  ["wan.mtu", msg`MTU of the WAN port`],
  ["lan.mtu", msg`MTU of the LAN port`],
] as const;
const SELDOM = [...[...VLANS, ...MTUS].map(([path]) => path), "legacy_suites", "device_id"];
// IEEE 802.1Q; RFC 8200 section 5.
const VLAN_MAX = 4094;
const MTU_MIN = 1280;

/** `isFree`: the field has the prefix that the controller suggests. */
export function PoolHint({ isFree }: { isFree: boolean }) {
  return isFree
    ? t`Devices get their inner addresses from it. Your network’s router needs a route for it that leads to this gateway. Suggested: a private prefix that overlaps no network that Culvert knows`
    : t`Devices get their inner addresses from it. Your network’s router needs a route for it that leads to this gateway. Choose a prefix that no other network uses`;
}

// Documentation's addresses (RFC 5737) and locally administered MAC addresses.
const EXAMPLE = {
  name: "gw-berlin",
  address: "198.51.100.2",
  p4runtime: "10.255.0.2:9559",
  pool: "10.99.0.0/24",
  wanMac: "02:00:00:00:01:01",
  hop: "198.51.100.1",
  lanMac: "02:00:00:00:02:01",
  lan: "10.20.0.1",
  prefix: "10.20.0.0/16",
  neighbours: "10.20.0.10\n10.20.0.11 02:00:00:00:02:11",
  routes: "10.30.0.0/16 10.20.0.254",
};

/**
 * `isNew`: the name can be chosen, because no certificate was made for it yet. `free`: the address pools that the controller
 * suggests.
 */
export function GatewayFields({
  form,
  isNew,
  free,
}: {
  form: UseFormReturnType<GatewayForm>;
  isNew: boolean;
  free?: FreePools | undefined;
}) {
  const isAtNeighbours = useLocation({ select: ({ hash }) => hash === "neighbours" });
  // A legacy suite is offered once it is allowed.
  const suites = [...new Set([...SUITES, ...form.values.legacy_suites, form.values.suite])];
  return (
    <>
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        {isNew && (
          <TextInput label={t`Name`} placeholder={EXAMPLE.name} required {...fieldOf(form, "name")} />
        )}
        <Select
          label={t`Switch`}
          data={KINDS.map(({ value, label }) => ({ value, label: i18n._(label) }))}
          allowDeselect={false}
          {...form.getInputProps("kind")}
        />
        <TextInput
          label={t`Address`}
          description={t`The WAN port’s own address`}
          placeholder={EXAMPLE.address}
          required
          {...fieldOf(form, "address")}
        />
        <TextInput label={t`IPv6 address`} description={t`Optional`} {...fieldOf(form, "address6")} />
        <TextInput
          label={t`Public address`}
          description={t`Only behind a NAT: devices send to this address`}
          {...fieldOf(form, "public_address")}
        />
        <TextInput
          label={t`Public IPv6 address`}
          description={t`Optional`}
          {...fieldOf(form, "public_address6")}
        />
        <Select
          label={t`Connection`}
          description={
            form.values.connects === "gateway"
              ? t`For sluice: no port of the gateway is open for it`
              : t`For switches that cannot connect themselves`
          }
          data={CONNECTIONS.map(({ value, label }) => ({ value, label: i18n._(label) }))}
          allowDeselect={false}
          {...form.getInputProps("connects")}
        />
        {form.values.connects === "controller" && (
          <TextInput
            label={t`P4Runtime`}
            description={t`The controller connects to this address`}
            placeholder={EXAMPLE.p4runtime}
            required
            {...fieldOf(form, "p4runtime")}
          />
        )}
        <TextInput
          label={t`Address pool`}
          description={<PoolHint isFree={form.values.pool === free?.pool} />}
          placeholder={EXAMPLE.pool}
          required
          {...fieldOf(form, "pool")}
        />
        <TextInput
          label={t`IPv6 address pool`}
          description={
            free?.pool6 ? t`Optional; ${free.pool6} is a free prefix of your own (RFC 4193)` : t`Optional`
          }
          {...fieldOf(form, "pool6")}
        />
        <Select label={t`Encryption`} data={suites} allowDeselect={false} {...form.getInputProps("suite")} />
      </SimpleGrid>
      <Fieldset legend={t`Port to the internet`}>
        <SimpleGrid cols={{ base: 1, xs: 3 }}>
          <NumberInput
            label={t`WAN port`}
            min={1}
            max={PORT_MAX}
            required
            {...form.getInputProps("wan.port")}
          />
          <TextInput
            label={t`WAN MAC`}
            description={<MacHint />}
            placeholder={EXAMPLE.wanMac}
            required
            {...fieldOf(form, "wan.mac")}
          />
          <TextInput
            label={t`Router`}
            placeholder={EXAMPLE.hop}
            required
            {...fieldOf(form, "wan.next_hop")}
          />
        </SimpleGrid>
      </Fieldset>
      <Fieldset legend={t`Port to your network`}>
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          <NumberInput
            label={t`LAN port`}
            min={1}
            max={PORT_MAX}
            required
            {...form.getInputProps("lan.port")}
          />
          <TextInput
            label={t`LAN MAC`}
            description={<MacHint />}
            placeholder={EXAMPLE.lanMac}
            required
            {...fieldOf(form, "lan.mac")}
          />
          <TextInput
            label={t`LAN address`}
            placeholder={EXAMPLE.lan}
            required
            {...fieldOf(form, "lan.address")}
          />
          <TextInput
            label={t`LAN prefix`}
            placeholder={EXAMPLE.prefix}
            required
            {...fieldOf(form, "lan.prefix")}
          />
          <TextInput
            label={t`LAN IPv6 address`}
            description={t`Optional`}
            {...fieldOf(form, "lan.address6")}
          />
          <TextInput label={t`LAN IPv6 prefix`} description={t`Optional`} {...fieldOf(form, "lan.prefix6")} />
        </SimpleGrid>
        <Textarea
          mt="sm"
          label={t`Neighbours`}
          autoFocus={isAtNeighbours}
          description={t`One address per line: servers on the gateway’s LAN. The gateway finds each MAC address; one that is written after it is fixed.`}
          placeholder={EXAMPLE.neighbours}
          autosize
          minRows={2}
          {...fieldOf(form, "lan.neighbours")}
        />
        <Textarea
          mt="sm"
          label={t`Routes`}
          description={t`Networks behind a neighbour, one per line: the prefix, then the neighbour’s address`}
          placeholder={EXAMPLE.routes}
          autosize
          minRows={1}
          {...fieldOf(form, "lan.routes")}
        />
      </Fieldset>
      <Fold
        title={t`VLANs, MTUs, legacy suites and device of P4Runtime`}
        fields={SELDOM}
        errors={form.errors}
      >
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          {VLANS.map(([path, label]) => (
            <NumberInput
              key={path}
              label={i18n._(label)}
              description={t`0: without a VLAN tag`}
              min={0}
              max={VLAN_MAX}
              {...form.getInputProps(path)}
            />
          ))}
          {MTUS.map(([path, label]) => (
            <NumberInput
              key={path}
              label={i18n._(label)}
              description={t`Bytes`}
              min={MTU_MIN}
              {...form.getInputProps(path)}
            />
          ))}
          <MultiSelect
            label={t`Allowed legacy suites`}
            description={t`Weaker; the gateway has to be started with the same permission (legacy_suites)`}
            placeholder={form.values.legacy_suites.length > 0 ? "" : t`None`}
            data={LEGACY_SUITES}
            {...form.getInputProps("legacy_suites")}
          />
          <NumberInput
            label={t`Device of P4Runtime`}
            description={t`The switch’s device_id; sluice has 1`}
            min={1}
            {...form.getInputProps("device_id")}
          />
        </SimpleGrid>
      </Fold>
    </>
  );
}

/** No switch tells its ports' MAC addresses over P4Runtime. */
function MacHint() {
  return (
    <Trans>
      The port’s own, as <Code>ip -br link</Code> lists it at the switch
    </Trans>
  );
}

function fieldOf(form: UseFormReturnType<GatewayForm>, path: string) {
  return { ...form.getInputProps(path), spellCheck: false, autoCapitalize: "none" };
}
