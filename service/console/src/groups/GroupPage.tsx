import { t } from "@lingui/core/macro";
import { List, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";

import { api, type Tagged } from "../api/client";
import { allPolicies } from "../policies/queries";
import { useMayWrite } from "../session/session";
import { Name } from "../shared/Name";
import { useReturn } from "../shared/lists";
import { DeleteButton } from "../shared/DeleteButton";
import { EditForm, type Edited } from "../shared/EditForm";
import { Breaks, EffectBox, EffectList, type OnBreaks } from "../shared/Effect";
import { LoadedPage } from "../shared/LoadedPage";
import { AnchorLink } from "../shared/links";
import { PageHead } from "../shared/PageHead";
import { useEffectOf } from "../shared/useEffectOf";
import { GroupDeleteDialog } from "./GroupDeleteDialog";
import { GroupFields } from "./GroupFields";
import {
  FIELDS,
  formOf,
  groupOf,
  groupQuery,
  previewGroup,
  type Group,
  type GroupForm,
  type GroupIn,
} from "./queries";

const EDITED: Edited<Group, GroupForm, GroupIn> = {
  query: groupQuery,
  formOf,
  bodyOf: groupOf,
  fieldsOf: () => FIELDS,
};

export function GroupPage() {
  const { name } = useParams({ from: "/frame/groups/of/$name" });
  const found = useQuery(groupQuery(name));
  return (
    <LoadedPage query={found} name={name} list="/groups">
      {(it) => <GroupEditor key={name} found={it} />}
    </LoadedPage>
  );
}

function GroupEditor({ found }: { found: Tagged<Group> }) {
  const { name } = found.row;
  const navigate = useNavigate();
  const goBack = useReturn();
  const mayWrite = useMayWrite("groups");
  const [deleting, { open, close }] = useDisclosure();
  return (
    <Stack gap="xl">
      <PageHead isWide title={name} about={t`A group of people.`}>
        {mayWrite && <DeleteButton onClick={open} />}
      </PageHead>
      <div className="beside">
        <EditForm
          label={t`Group`}
          found={found}
          edited={EDITED}
          mayWrite={mayWrite}
          write={(body, etag) =>
            api.PUT("/api/v1/groups/{name}", {
              params: { path: { name }, header: { "if-match": etag } },
              body,
            })
          }
          onSaved={(saved) => {
            if (saved.name !== name)
              void navigate({ to: "/groups/of/$name", params: { name: saved.name }, replace: true });
          }}
        >
          {(form, before, onBreaks) => (
            <>
              <GroupFields form={form} named={before.display_names} />
              {mayWrite && form.isDirty() && (
                <GroupEffect values={form.values} before={before} onBreaks={onBreaks} />
              )}
            </>
          )}
        </EditForm>
        <ItsPolicies name={name} />
      </div>
      {deleting && (
        <GroupDeleteDialog group={found.row} onClose={close} onDeleted={() => goBack("/groups")} />
      )}
    </Stack>
  );
}

function GroupEffect({ values, before, onBreaks }: { values: GroupForm; before: Group; onBreaks: OnBreaks }) {
  const asked = values.name.trim() === "" ? null : groupOf(values);
  const effect = useEffectOf("groups", before.name, asked, (body) => previewGroup(body, before.name));
  return (
    <EffectBox>
      {effect.data && asked !== null ? (
        <>
          <EffectList effect={effect.data} />
          <Breaks of={effect.data.breaks} onBreaks={onBreaks} />
        </>
      ) : (
        <Text size="sm" c="dimmed">
          {effect.isError ? t`No preview: correct the fields above first.` : "…"}
        </Text>
      )}
    </EffectBox>
  );
}

function ItsPolicies({ name }: { name: string }) {
  const found = useQuery({
    queryKey: ["policies", "of", "group", name],
    queryFn: () => allPolicies({ group: name }),
  });
  if (!found.data) return null;
  return (
    <section aria-label={t`Its policies`}>
      <Text fw={600} mb="xs">
        {found.data.length === 0
          ? t`No policy applies to this group yet`
          : t`Policies, and the resources that they permit`}
      </Text>
      <List size="sm" spacing={4}>
        {found.data.map((policy) => (
          <List.Item key={policy.name} className="name">
            <AnchorLink to="/policies/of/$name" params={{ name: policy.name }} inherit underline="always">
              <Name>{policy.name}</Name>
            </AnchorLink>
            <Name>{`: ${policy.resources.join(", ")}`}</Name>
          </List.Item>
        ))}
      </List>
    </section>
  );
}
