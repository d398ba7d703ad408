import { i18n, type MessageDescriptor } from "@lingui/core";
import { msg, t } from "@lingui/core/macro";
import { Text } from "@mantine/core";
import { IconCheck, IconMinus, IconPlus, IconQuestionMark, IconUser } from "@tabler/icons-react";

import type { Published } from "../live/live";
import { difference, type Standing } from "./records";

const SAID: Record<Standing, { Icon: typeof IconPlus; colour: string; words: MessageDescriptor }> = {
  same: { Icon: IconCheck, colour: "dimmed", words: msg`is correct` },
  missing: { Icon: IconPlus, colour: "bright", words: msg`is missing` },
  surplus: { Icon: IconMinus, colour: "var(--mantine-color-error)", words: msg`will be removed` },
  foreign: { Icon: IconUser, colour: "dimmed", words: msg`belongs to another program` },
  unknown: { Icon: IconQuestionMark, colour: "dimmed", words: msg`is desired; the zone’s value is unknown` },
};

/** The desired and the observed values of a record that is not live. */
export function RecordValues({ record }: { record: Published }) {
  const values = difference(record);
  if (values.length === 0) return null;
  return (
    <Text
      component="ul"
      size="xs"
      mt={4}
      mb={0}
      p={0}
      style={{ listStyle: "none" }}
      aria-label={t`Values of ${record.name} ${record.type}`}
    >
      {values.map(({ value, standing }) => {
        const { Icon, colour, words } = SAID[standing];
        return (
          <Text component="li" key={value} inherit c={colour} className="name">
            <Icon size={12} aria-hidden style={{ verticalAlign: "-2px", marginRight: 4 }} />
            <span className="mono">{value}</span> {i18n._(words)}
          </Text>
        );
      })}
    </Text>
  );
}
