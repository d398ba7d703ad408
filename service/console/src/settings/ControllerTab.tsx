import type { MessageDescriptor } from "@lingui/core";
import { msg, plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Badge, Group, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { say } from "../locale/language";
import type { Schemas } from "../api/client";
import { ProblemError } from "../api/problem";
import { TimeSince } from "../shared/TimeSince";
import { ProblemNote } from "../shared/ProblemNote";
import { Loading } from "../shared/Loading";
import { day, sayCertificate } from "../shared/words";
import { SettingsCard } from "./SettingsCard";
import { controllerQuery } from "./queries";

type Certificate = Schemas["CertificateOut"];

const DAY_MS = 86_400_000;
const SOON_DAYS = 30;
const KINDS: Record<Certificate["kind"], MessageDescriptor | string> = {
  ca: "CA",
  "earlier-ca": msg`earlier CA, trusted for a while`,
  server: msg`this controller, to browsers and devices`,
  client: msg`this controller, to its gateways`,
};

export function ControllerTab() {
  const found = useQuery(controllerQuery);
  if (found.isPending) return <Loading forWhat={t`the controller`} />;
  if (found.isError) return <ProblemNote error={found.error} />;
  const it = found.data;
  const facts: [string, React.ReactNode][] = [
    [t`Name`, it.name],
    [t`Version`, it.version],
    [t`Started`, <TimeSince key="at" at={it.started_at} />],
    [t`Address`, it.rest_url],
    [t`Address for devices`, it.agent_address],
    [t`Database`, it.database === "embedded" ? t`embedded Postgres` : t`external Postgres`],
    [t`Managed zones`, it.managed_zones.join(", ") || t`none`],
    [t`Protected prefixes`, it.protected_prefixes.join(", ") || t`none`],
    [t`Approval of devices`, it.device_approval ? t`required by every policy` : t`if a policy requires it`],
    [
      t`Expired certificates`,
      it.late_renewal_days > 0
        ? plural(it.late_renewal_days, {
            one: "can be renewed with a code for # day",
            other: "can be renewed with a code for # days",
          })
        : t`cannot be renewed: the device enrols again`,
    ],
  ];
  return (
    <div className="cards">
      <SettingsCard
        title={t`This controller`}
        about={t`From the settings file on the controller’s computer.`}
      >
        <Table aria-label={t`This controller`} layout="fixed">
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
        title={t`OpenID Connect`}
        about={
          it.oidc_issuer === null
            ? t`No provider is configured (oidc_issuer): administrators sign in with a password and a code, or a passkey.`
            : t`Administrators can sign in, and people can get an invitation, at this provider:`
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
        title={t`Certificates`}
        about={t`The controller renews its own when a third of their lifetime is left. To replace a CA, run culvert-controller rotate-device-ca, rotate-infrastructure-ca or rotate-gateway-ca.`}
      >
        {it.public_certificate_fault !== null && (
          <Text size="sm" c="red" role="status">
            {t`Certificate of the public name: ${it.public_certificate_fault}`}
          </Text>
        )}
        <Table aria-label={t`Certificates`}>
          <Table.Tbody>
            {it.certificates.map((one) => (
              <Table.Tr key={one.fingerprint}>
                <Table.Td>
                  <Text size="sm" fw={600}>
                    {sayCertificate(one.name)}
                  </Text>
                  <Text size="xs" c="dimmed">
                    {say(KINDS[one.kind])}
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
    </div>
  );
}

/** The end of a certificate, by the controller's clock. */
function Ends({ at, now }: { at: string; now: string }) {
  const days = Math.floor((Date.parse(at) - Date.parse(now)) / DAY_MS);
  return (
    <Group gap="xs">
      <Text size="sm">
        <Trans>until {day(at)}</Trans>
      </Text>
      <Badge size="sm" variant="light" color={days < SOON_DAYS ? "red" : "culvert"} tt="none">
        {plural(days, { one: "# day", other: "# days" })}
      </Badge>
    </Group>
  );
}
