/** ⌘K: views, acts, and things of each kind by a part of their name. */
import { i18n } from "@lingui/core";
import { msg, t } from "@lingui/core/macro";
import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight, type SpotlightActionData } from "@mantine/spotlight";
import {
  IconApi,
  IconArrowRight,
  IconArrowsLeftRight,
  IconDeviceLaptop,
  IconKey,
  IconMailForward,
  IconPlus,
  IconSearch,
  IconServer2,
  IconShieldCheck,
  IconUserShield,
  IconUsers,
  IconWorld,
  IconSitemap,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { api, body } from "../api/client";
import { chosen } from "../dns/records";
import { stateOf } from "../gateways/state";
import { useDns, useGateways, type DnsRow } from "../live/live";
import type { Rows } from "../live/rows";
import { useMayWrite } from "../session/session";
import { moment, sayRole, saidOf } from "../shared/words";
import { PLACES } from "./navigation";

// Our tunable: the rows of each kind.
const FOUND_AT_MOST = 4;
const PAUSE_MS = 150;

const ACTS = [
  {
    of: "resources",
    label: msg`Add a resource`,
    about: msg`Publish a name that can be opened`,
    to: "/resources/new",
  },
  {
    of: "gateways",
    label: msg`Add a gateway`,
    about: msg`One line makes a computer join`,
    to: "/gateways/join",
  },
  {
    of: "invitations",
    label: msg`Invite a person`,
    about: msg`Send the link that enrols a computer`,
    to: "/invitations",
    dialog: "invite",
  },
  {
    of: "users",
    label: msg`Add a person`,
    about: msg`People with access; they enrol computers with an invitation.`,
    to: "/people",
    dialog: "add",
  },
  { of: "groups", label: msg`Add a group`, about: msg`People who get the same access`, to: "/groups/new" },
  { of: "policies", label: msg`Add a policy`, about: msg`Let a group open resources`, to: "/policies/new" },
  {
    of: "site-tunnels",
    label: msg`Add a site tunnel`,
    about: msg`Between two gateways, for hosts without Culvert; always on.`,
    to: "/site-tunnels/new",
  },
  {
    of: "dns",
    label: msg`Add a zone`,
    about: msg`Records that Culvert publishes, and their state at the name servers.`,
    to: "/dns",
    dialog: "add",
  },
  {
    of: "assertions",
    label: msg`Add an assertion`,
    about: msg`Access that each change has to keep`,
    to: "/assertions",
    dialog: "add",
  },
  {
    of: "admins",
    label: msg`Invite an administrator`,
    about: msg`A person with the link makes the account.`,
    to: "/settings",
    part: "administrators",
    dialog: "invite",
  },
  {
    of: "tokens",
    label: msg`Make a token`,
    about: msg`For programs that call the REST API.`,
    to: "/settings",
    part: "tokens",
    dialog: "add",
  },
] as const;

/** The pages behind the main ones. */
const FURTHER = [
  { label: msg`Invitations`, about: msg`Links that have been sent and not used yet.`, to: "/invitations" },
  { label: msg`Groups`, about: msg`People who reach the same resources.`, to: "/groups" },
  {
    label: msg`Assertions`,
    about: msg`Access that each change has to keep`,
    to: "/assertions",
  },
  {
    label: msg`Site tunnels`,
    about: msg`Between two gateways, for hosts without Culvert; always on.`,
    to: "/site-tunnels",
  },
  { label: msg`Your account`, about: msg`Settings`, to: "/settings", part: "account" },
  { label: msg`Administrators`, about: msg`Settings`, to: "/settings", part: "administrators" },
  { label: msg`API tokens`, about: msg`Settings`, to: "/settings", part: "tokens" },
  { label: msg`Controller`, about: msg`Settings`, to: "/settings", part: "controller" },
] as const;

const SITE_TUNNELS_READ = 500;

async function find(asked: string) {
  const params = { query: { q: asked, limit: FOUND_AT_MOST } };
  const typed = asked.toLowerCase();
  const [
    resources,
    people,
    devices,
    groups,
    policies,
    siteTunnels,
    invitations,
    assertions,
    administrators,
    tokens,
  ] = await Promise.all([
    api.GET("/api/v1/resources", { params }),
    api.GET("/api/v1/users", { params }),
    api.GET("/api/v1/devices", { params }),
    api.GET("/api/v1/groups", { params }),
    api.GET("/api/v1/policies", { params }),
    // The controller does not search site tunnels and assertions, of which there are few.
    api.GET("/api/v1/site-tunnels", { params: { query: { limit: SITE_TUNNELS_READ } } }),
    api.GET("/api/v1/invitations", { params }),
    api.GET("/api/v1/assertions"),
    api.GET("/api/v1/admins", { params }),
    api.GET("/api/v1/tokens", { params }),
  ]);
  return {
    resources: body(resources),
    people: body(people),
    devices: body(devices),
    groups: body(groups),
    policies: body(policies),
    siteTunnels: body(siteTunnels)
      .filter(({ name }) => name.includes(typed))
      .slice(0, FOUND_AT_MOST),
    invitations: body(invitations),
    assertions: body(assertions)
      .map((it) => ({ ...it, said: saidOf(it) }))
      .filter(({ said }) => said.toLowerCase().includes(typed))
      .slice(0, FOUND_AT_MOST),
    administrators: body(administrators),
    tokens: body(tokens),
  };
}

/** The zones and records with the text in their name. */
function namesOf(rows: Rows<DnsRow>, asked: string): string[] {
  const { zones, records } = chosen(rows, { q: asked });
  const origins = zones.map(({ display_name }) => display_name).filter((name) => name.includes(asked));
  const names = [...origins, ...records.map(({ display_name }) => display_name)];
  return [...new Set(names)].slice(0, FOUND_AT_MOST);
}

const ofPerson = (user: string): string => t`of ${user}`;

/** `onField` is called when the field has the focus. */
export function CommandList({
  query,
  onQuery,
  onField,
}: {
  query: string;
  onQuery: (query: string) => void;
  onField: () => void;
}) {
  const navigate = useNavigate();
  const [asked] = useDebouncedValue(query.trim(), PAUSE_MS);
  const found = useQuery({
    queryKey: ["found", asked],
    queryFn: () => find(asked),
    enabled: asked !== "",
  });
  const dns = useDns().rows;
  const gateways = [...(useGateways().rows?.values() ?? [])].filter(({ name }) =>
    name.toLowerCase().includes(asked.toLowerCase()),
  );
  const go: SpotlightActionData[] = PLACES.map(({ label, to, icon: Icon, about }) => ({
    id: to,
    label: i18n._(label),
    description: i18n._(about),
    leftSection: <Icon size={20} stroke={1.5} />,
    onClick: () => void navigate({ to }),
  }));
  const further: SpotlightActionData[] = FURTHER.map(({ label, about, to, ...rest }) => ({
    id: ["to", to, ...Object.values(rest)].join(" "),
    label: i18n._(label),
    description: i18n._(about),
    leftSection: <IconArrowRight size={20} stroke={1.5} />,
    onClick: () => void navigate({ to, search: rest }),
  }));
  const may = {
    resources: useMayWrite("resources"),
    gateways: useMayWrite("gateways"),
    invitations: useMayWrite("invitations"),
    groups: useMayWrite("groups"),
    policies: useMayWrite("policies"),
    users: useMayWrite("users"),
    "site-tunnels": useMayWrite("site-tunnels"),
    dns: useMayWrite("dns"),
    admins: useMayWrite("admins"),
    tokens: useMayWrite("tokens"),
    assertions: useMayWrite("assertions"),
  };
  const act = ACTS.filter(({ of }) => may[of]).map(({ of, label, about, to, ...rest }) => ({
    id: `do ${of}`,
    label: i18n._(label),
    description: i18n._(about),
    leftSection: <IconPlus size={20} stroke={1.5} />,
    onClick: () => void navigate({ to, search: rest }),
  }));
  const { resources = [], people = [], devices = [], groups = [], policies = [] } = found.data ?? {};
  const { siteTunnels = [], invitations = [], assertions = [] } = found.data ?? {};
  const { administrators = [], tokens = [] } = found.data ?? {};
  const things: { group: string; actions: SpotlightActionData[] }[] = [
    {
      group: t`Resources`,
      actions: resources.map(({ name, fqdn, display_name, owner }) => ({
        id: `resource/${name}`,
        label: display_name,
        description: owner,
        keywords: [name, fqdn],
        leftSection: <IconWorld size={20} stroke={1.5} />,
        onClick: () => void navigate({ to: "/resources/of/$name", params: { name } }),
      })),
    },
    {
      group: t`Gateways`,
      actions: (asked === "" ? [] : gateways.slice(0, FOUND_AT_MOST)).map(
        ({ name, state, draining_since }) => ({
          id: `gateway/${name}`,
          label: name,
          description: stateOf({ state, draining_since }).word,
          leftSection: <IconServer2 size={20} stroke={1.5} />,
          onClick: () => void navigate({ to: "/gateways/of/$name", params: { name } }),
        }),
      ),
    },
    {
      group: t`People`,
      actions: people.map(({ name, display_name, email }) => ({
        id: `person/${name}`,
        label: display_name ?? name,
        description: email,
        keywords: [name],
        leftSection: <IconUsers size={20} stroke={1.5} />,
        onClick: () => void navigate({ to: "/people/of/$name", params: { name } }),
      })),
    },
    {
      group: t`Devices`,
      actions: devices.map(({ id, name, user: login, user_display_name }) => ({
        id: `device/${id}`,
        label: name,
        description: ofPerson(user_display_name ?? login),
        keywords: [login],
        leftSection: <IconDeviceLaptop size={20} stroke={1.5} />,
        onClick: () => void navigate({ to: "/devices", search: { q: name } }),
      })),
    },
    {
      group: t`Groups`,
      actions: groups.map(({ name }) => ({
        id: `group/${name}`,
        label: name,
        leftSection: <IconUsers size={20} stroke={1.5} />,
        onClick: () => void navigate({ to: "/groups/of/$name", params: { name } }),
      })),
    },
    {
      group: t`Policies`,
      actions: policies.map(({ name }) => ({
        id: `policy/${name}`,
        label: name,
        leftSection: <IconKey size={20} stroke={1.5} />,
        onClick: () => void navigate({ to: "/policies/of/$name", params: { name } }),
      })),
    },
    {
      group: t`Site tunnels`,
      actions: siteTunnels.map(({ name, ends }) => ({
        id: `site-tunnel/${name}`,
        label: name,
        description: ends.map(({ gateway }) => gateway).join(" ↔ "),
        leftSection: <IconArrowsLeftRight size={20} stroke={1.5} />,
        onClick: () => void navigate({ to: "/site-tunnels/of/$name", params: { name } }),
      })),
    },
    {
      group: t`Invitations`,
      actions: invitations.map(({ id, user, user_display_name, expires_at }) => ({
        id: `invitation/${id}`,
        label: t`Invitation of ${user_display_name ?? user}`,
        description: t`until ${moment(expires_at)}`,
        keywords: [user],
        leftSection: <IconMailForward size={20} stroke={1.5} />,
        onClick: () => void navigate({ to: "/invitations", search: { q: user } }),
      })),
    },
    {
      group: t`Assertions`,
      actions: assertions.map(({ id, said, holds }) => ({
        id: `assertion/${id}`,
        label: said,
        description: holds ? t`holds` : t`does not hold`,
        leftSection: <IconShieldCheck size={20} stroke={1.5} />,
        onClick: () => void navigate({ to: "/assertions", search: { q: said } }),
      })),
    },
    {
      group: t`Administrators`,
      actions: administrators.map(({ name, role }) => ({
        id: `administrator/${name}`,
        label: name,
        description: sayRole(role),
        leftSection: <IconUserShield size={20} stroke={1.5} />,
        onClick: () => void navigate({ to: "/settings", search: { part: "administrators", q: name } }),
      })),
    },
    {
      group: t`API tokens`,
      actions: tokens.map(({ id, name, scopes }) => ({
        id: `token/${id}`,
        label: name,
        description: scopes.join(", "),
        leftSection: <IconApi size={20} stroke={1.5} />,
        onClick: () => void navigate({ to: "/settings", search: { part: "tokens", q: name } }),
      })),
    },
    {
      group: t`DNS`,
      actions: (asked === "" || dns === null ? [] : namesOf(dns, asked)).map((name) => ({
        id: `dns/${name}`,
        label: name,
        leftSection: <IconSitemap size={20} stroke={1.5} />,
        onClick: () => void navigate({ to: "/dns", search: { q: name } }),
      })),
    },
  ];
  return (
    <Spotlight
      actions={[
        { group: t`Go to`, actions: [...go, ...further] },
        { group: t`Do`, actions: act },
        ...things.filter(({ actions }) => actions.length > 0),
      ]}
      query={query}
      onQueryChange={onQuery}
      shortcut={null}
      nothingFound={t`No match`}
      highlightQuery
      attributes={{ content: { "aria-label": t`Search or jump to` } }}
      searchProps={{
        onFocus: onField,
        leftSection: <IconSearch size={18} />,
        placeholder: t`Search or jump to…`,
        "aria-label": t`Search or jump to`,
      }}
    />
  );
}
