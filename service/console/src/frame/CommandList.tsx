/** ⌘K: views, acts, and things of each kind by a part of their name. */
import { i18n } from "@lingui/core";
import { msg, t } from "@lingui/core/macro";
import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight, type SpotlightActionData } from "@mantine/spotlight";
import {
  IconDeviceLaptop,
  IconKey,
  IconPlus,
  IconSearch,
  IconServer2,
  IconUsers,
  IconWorld,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { api, body } from "../api/client";
import { useGateways } from "../live/live";
import { useMayWrite } from "../session/session";
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
    to: "/people",
  },
  { of: "groups", label: msg`Add a group`, about: msg`People who get the same access`, to: "/groups/new" },
  { of: "policies", label: msg`Add a policy`, about: msg`Let a group open resources`, to: "/policies/new" },
] as const;

async function find(asked: string) {
  const params = { query: { q: asked, limit: FOUND_AT_MOST } };
  const [resources, people, devices, groups, policies] = await Promise.all([
    api.GET("/api/v1/resources", { params }),
    api.GET("/api/v1/users", { params }),
    api.GET("/api/v1/devices", { params }),
    api.GET("/api/v1/groups", { params }),
    api.GET("/api/v1/policies", { params }),
  ]);
  return {
    resources: body(resources),
    people: body(people),
    devices: body(devices),
    groups: body(groups),
    policies: body(policies),
  };
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
  const may = {
    resources: useMayWrite("resources"),
    gateways: useMayWrite("gateways"),
    invitations: useMayWrite("invitations"),
    groups: useMayWrite("groups"),
    policies: useMayWrite("policies"),
  };
  const act = ACTS.filter(({ of }) => may[of]).map(({ label, about, to }) => ({
    id: `do ${to}`,
    label: i18n._(label),
    description: i18n._(about),
    leftSection: <IconPlus size={20} stroke={1.5} />,
    onClick: () => void navigate({ to }),
  }));
  const { resources = [], people = [], devices = [], groups = [], policies = [] } = found.data ?? {};
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
      actions: (asked === "" ? [] : gateways.slice(0, FOUND_AT_MOST)).map(({ name, state }) => ({
        id: `gateway/${name}`,
        label: name,
        description: state,
        leftSection: <IconServer2 size={20} stroke={1.5} />,
        onClick: () => void navigate({ to: "/gateways/of/$name", params: { name } }),
      })),
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
  ];
  return (
    <Spotlight
      actions={[
        { group: t`Go to`, actions: go },
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
