import { t } from "@lingui/core/macro";
import { Text } from "@mantine/core";

import type { Schemas } from "../api/client";
import { inWords } from "../policies/form";
import { Name } from "../shared/Name";
import { AnchorLink } from "../shared/links";

/** The policies between a person and a resource, one a line, with the group and the conditions. */
export function Grants({ grants }: { grants: readonly Schemas["GrantOut"][] }) {
  return grants.map(({ policy, group, enabled, conditions }) => (
    <Text key={policy} size="sm" className="name">
      <AnchorLink to="/policies/of/$name" params={{ name: policy }} inherit underline="always">
        <Name>{policy}</Name>
      </AnchorLink>
      <Text span inherit c="dimmed">
        {[
          group === null ? t`for this person` : t`for the group ${group}`,
          ...(enabled ? inWords(conditions) : [t`turned off`]),
        ]
          .map((part) => ` · ${part}`)
          .join("")}
      </Text>
    </Text>
  ));
}
