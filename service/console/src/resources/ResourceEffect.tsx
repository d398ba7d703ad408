/** The effect of publishing or changing a resource, shown before. */
import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { List, Text } from "@mantine/core";

import type { Schemas } from "../api/client";
import { byField, problemOf } from "../api/problem";
import { Breaks, EffectBox, EffectList, type OnBreaks } from "../shared/Effect";
import { ProblemNote } from "../shared/ProblemNote";
import { useEffectOf } from "../shared/useEffectOf";
import { both } from "../shared/words";
import { fieldsOf, resourceOf, type ResourceForm } from "./form";
import { previewResource, type Resource } from "./queries";

export function ResourceEffectList({
  effect,
  nobody,
  onBreaks,
}: {
  effect: Schemas["PreviewOut"];
  onBreaks?: OnBreaks;
  /** The item if no person gains or loses access. */
  nobody?: string;
}) {
  const { records, withdrawn, tunnels_moved } = effect;
  return (
    <>
      <EffectList
        effect={effect}
        {...(nobody !== undefined && { nobody })}
        first={
          <>
            {records.map(({ zone, origin, types, display_name }) => (
              <List.Item key={zone}>
                <Trans>
                  Publish {both(types)} for <Name>{display_name}</Name> in {origin}
                </Trans>
              </List.Item>
            ))}
            {withdrawn.map(({ zone, origin, types, display_name }) => (
              <List.Item key={`${zone} withdrawn`}>
                <Trans>
                  Withdraw {both(types)} for <Name>{display_name}</Name> from {origin}
                </Trans>
              </List.Item>
            ))}
          </>
        }
      >
        {tunnels_moved > 0 && (
          <List.Item>
            {plural(tunnels_moved, {
              one: "# tunnel moves to another gateway",
              other: "# tunnels move to another gateway",
            })}
          </List.Item>
        )}
      </EffectList>
      <Breaks of={effect.breaks} {...(onBreaks && { onBreaks })} />
    </>
  );
}

/** The effect of the form's content on the resource `before`. */
export function ResourceEffect({
  values,
  before,
  onBreaks,
}: {
  values: ResourceForm;
  before: Resource;
  onBreaks: OnBreaks;
}) {
  const effect = useEffectOf("resources", before.name, resourceOf(values, before), (body) =>
    previewResource(body, before.name),
  );
  const unplaced = effect.error && byField(problemOf(effect.error), fieldsOf(values)).rest;
  return (
    <EffectBox>
      {effect.error && unplaced ? (
        <ProblemNote error={effect.error} />
      ) : effect.data && !effect.isError ? (
        <ResourceEffectList effect={effect.data} onBreaks={onBreaks} />
      ) : (
        <Text size="sm" c="dimmed">
          {effect.isError ? t`No preview: correct the fields above first.` : "…"}
        </Text>
      )}
    </EffectBox>
  );
}

function Name({ children }: { children: string }) {
  return (
    <Text span className="name" fw={600} inherit>
      {children}
    </Text>
  );
}
