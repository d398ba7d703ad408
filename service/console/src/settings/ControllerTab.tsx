import { Badge, Group, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import type { Schemas } from "../api/client";
import { ProblemError } from "../api/problem";
import { TimeSince } from "../shared/TimeSince";
import { ProblemNote } from "../shared/ProblemNote";
import { Loading } from "../shared/Loading";
import { day } from "../shared/words";
import { SettingsCard } from "./SettingsCard";
import { controllerQuery } from "./queries";

type Certificate = Schemas["CertificateOut"];

const DAY_MS = 86_400_000;
const SOON_DAYS = 30;
const KINDS: Record<Certificate["kind"], string> = {
  ca: "CA",
  "earlier-ca": "earlier CA, trusted for a while",
  server: "this controller, to browsers and devices",
  client: "this controller, to its gateways",
};

export function ControllerTab() {
  const found = useQuery(controllerQuery);
  if (found.isPending) return <Loading forWhat="the controller" />;
  if (found.isError) return <ProblemNote error={found.error} />;
  const it = found.data;
  const facts: [string, React.ReactNode][] = [
    ["Name", it.name],
    ["Version", it.version],
    ["Started", <TimeSince key="at" at={it.started_at} />],
    ["Address", it.rest_url],
    ["Address for devices", it.agent_address],
    ["Database", it.database === "embedded" ? "embedded Postgres" : "external Postgres"],
    ["Managed zones", it.managed_zones.join(", ") || "none"],
    ["Protected prefixes", it.protected_prefixes.join(", ") || "none"],
    ["Approval of devices", it.device_approval ? "required by every policy" : "if a policy requires it"],
    [
      "Expired certificates",
      it.late_renewal_days > 0
        ? `can be renewed with a code for ${String(it.late_renewal_days)} days`
        : "cannot be renewed: the device enrols again",
    ],
  ];
  return (
    <Stack>
      <SettingsCard title="This controller" about="From the settings file on the controller’s computer.">
        <Table aria-label="This controller" layout="fixed">
          <Table.Tbody>
            {facts.map(([label, value]) => (
              <Table.Tr key={label}>
                <Table.Th w="35%" scope="row">
                  {label}
                </Table.Th>
                <Table.Td className="name">{value}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </SettingsCard>
      <SettingsCard
        title="OpenID Connect"
        about={
          it.oidc_issuer === null
            ? "No provider is configured (oidc_issuer): administrators sign in with a password and a code, or a passkey."
            : "Administrators can sign in, and people can get an invitation, at this provider:"
        }
      >
        {it.oidc_issuer !== null && (
          <Text size="sm" className="mono name">
            {it.oidc_issuer}
          </Text>
        )}
        {it.oidc_fault !== null && <ProblemNote error={new ProblemError(it.oidc_fault, null)} />}
      </SettingsCard>
      <SettingsCard
        title="Certificates"
        about="The controller renews its own when a third of their lifetime is left. To replace a CA, run culvert-controller rotate-device-ca, rotate-infrastructure-ca or rotate-gateway-ca."
      >
        {it.public_certificate_fault !== null && (
          <Text size="sm" c="red" role="status">
            {`Certificate of the public name: ${it.public_certificate_fault}`}
          </Text>
        )}
        <Table aria-label="Certificates">
          <Table.Tbody>
            {it.certificates.map((one) => (
              <Table.Tr key={one.fingerprint}>
                <Table.Td>
                  <Text size="sm" fw={550}>
                    {one.name}
                  </Text>
                  <Text size="xs" c="dimmed">
                    {KINDS[one.kind]}
                  </Text>
                </Table.Td>
                <Table.Td>
                  <Ends at={one.expires_at} now={it.now} />
                </Table.Td>
                <Table.Td visibleFrom="sm">
                  <Text size="xs" c="dimmed" className="mono" title={one.fingerprint}>
                    SHA-256 {one.fingerprint.slice(0, 16)}…
                  </Text>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </SettingsCard>
    </Stack>
  );
}

/** The end of a certificate, by the controller's clock. */
function Ends({ at, now }: { at: string; now: string }) {
  const days = Math.floor((Date.parse(at) - Date.parse(now)) / DAY_MS);
  return (
    <Group gap="xs">
      <Text size="sm">until {day(at)}</Text>
      <Badge size="sm" variant="light" color={days < SOON_DAYS ? "red" : "culvert"} tt="none">
        {days.toLocaleString("en")} days
      </Badge>
    </Group>
  );
}
