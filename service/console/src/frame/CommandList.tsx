/** ⌘K: views, actions, and resources by a part of their name. */
import { useDebouncedValue } from "@mantine/hooks";
import { Spotlight, type SpotlightActionData } from "@mantine/spotlight";
import { IconPlus, IconSearch, IconWorld } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { api, body } from "../api/client";
import { useMayWrite } from "../session/session";
import { PLACES } from "./navigation";

const FOUND_AT_MOST = 6;
const PAUSE_MS = 150;

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
  const mayAdd = useMayWrite("resources");
  const [asked] = useDebouncedValue(query.trim(), PAUSE_MS);
  const found = useQuery({
    queryKey: ["resources", "found", asked],
    queryFn: async () =>
      body(await api.GET("/api/v1/resources", { params: { query: { q: asked, limit: FOUND_AT_MOST } } })),
    enabled: asked !== "",
  });
  const go: SpotlightActionData[] = PLACES.map(({ label, to, icon: Icon, about }) => ({
    id: to,
    label,
    description: about,
    leftSection: <Icon size={20} stroke={1.5} />,
    onClick: () => void navigate({ to }),
  }));
  const act: SpotlightActionData[] = mayAdd
    ? [
        {
          id: "add-resource",
          label: "Add a resource",
          description: "Publish a name that can be opened",
          leftSection: <IconPlus size={20} stroke={1.5} />,
          onClick: () => void navigate({ to: "/resources/new" }),
        },
      ]
    : [];
  const resources: SpotlightActionData[] = (found.data ?? []).map(({ name, fqdn, display_name, owner }) => ({
    id: `resource/${name}`,
    label: display_name,
    description: owner,
    keywords: [name, fqdn],
    leftSection: <IconWorld size={20} stroke={1.5} />,
    onClick: () => void navigate({ to: "/resources/of/$name", params: { name } }),
  }));
  return (
    <Spotlight
      actions={[
        { group: "Go to", actions: go },
        { group: "Do", actions: act },
        ...(resources.length > 0 ? [{ group: "Resources", actions: resources }] : []),
      ]}
      query={query}
      onQueryChange={onQuery}
      shortcut={null}
      nothingFound="No match"
      highlightQuery
      attributes={{ content: { "aria-label": "Search or jump to" } }}
      searchProps={{
        onFocus: onField,
        leftSection: <IconSearch size={18} />,
        placeholder: "Search or jump to…",
        "aria-label": "Search or jump to",
      }}
    />
  );
}
