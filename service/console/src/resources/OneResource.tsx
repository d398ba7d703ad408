import { Button, Group, Stack, Text } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";

import { api, tagged, type Tagged } from "../api/client";
import { byField, problemOf, ProblemError } from "../api/problem";
import { useTunnels } from "../live/live";
import { useMayWrite } from "../session/session";
import { PageHead } from "../shared/PageHead";
import { ProblemNote } from "../shared/ProblemNote";
import { Waiting } from "../shared/Waiting";
import { Conflict } from "../shared/Conflict";
import { DeleteResource } from "./DeleteResource";
import { Fields } from "./Fields";
import { fieldsOf, formOf, resourceOf, VALIDATE } from "./form";
import { resourceQuery, type Resource } from "./queries";
import { TunnelTable } from "../tunnels/TunnelTable";

export function OneResource() {
  const { name } = useParams({ from: "/frame/resources/of/$name" });
  const found = useQuery(resourceQuery(name));
  if (found.isPending) return <Waiting forWhat={name} />;
  if (found.isError)
    return (
      <Stack align="flex-start">
        <ProblemNote error={found.error} />
        <Button component={Link} to="/resources" variant="default">
          To the resources
        </Button>
      </Stack>
    );
  return <Shown key={name} found={found.data} />;
}

function Shown({ found }: { found: Tagged<Resource> }) {
  const { name, fqdn } = found.row;
  const mayWrite = useMayWrite("resources");
  const [deleting, { open, close }] = useDisclosure();
  const tunnels = [...(useTunnels().rows?.values() ?? [])].filter(({ resource }) => resource === name);
  return (
    <Stack gap="xl">
      <PageHead title={fqdn} about={`Known as ${name} in policies and lists.`}>
        {mayWrite && (
          <Button variant="default" c="red" leftSection={<IconTrash size={16} />} onClick={open}>
            Delete
          </Button>
        )}
      </PageHead>
      <section aria-label="Open tunnels">
        <Text fw={600} mb="xs">
          {tunnels.length === 0 ? "No tunnel is open" : `${tunnels.length} open`}
        </Text>
        {tunnels.length > 0 && <TunnelTable tunnels={tunnels} />}
      </section>
      <Edit found={found} mayWrite={mayWrite} />
      <DeleteResource resource={found.row} opened={deleting} onClose={close} />
    </Stack>
  );
}

/** The version that was there when editing began is the one that is written over; a newer one is a conflict. */
function Edit({ found, mayWrite }: { found: Tagged<Resource>; mayWrite: boolean }) {
  const queries = useQueryClient();
  const [base, setBase] = useState(found);
  const { name } = base.row;
  const form = useForm({ initialValues: formOf(base.row), validate: VALIDATE });
  const save = useMutation({
    mutationFn: async ({ etag }: { etag: string }) =>
      tagged(
        await api.PUT("/api/v1/resources/{name}", {
          params: { path: { name }, header: { "if-match": etag } },
          body: resourceOf(form.values, base.row),
        }),
      ),
    onSuccess: (saved) => {
      queries.setQueryData(resourceQuery(name).queryKey, saved);
      take(saved);
      notifications.show({ message: `${saved.row.fqdn} is saved` });
    },
    onError: (error) => {
      form.setErrors(byField(problemOf(error), fieldsOf(form.values)).fields);
      if (isStale(error)) void queries.refetchQueries(resourceQuery(name));
    },
  });
  function take(newer: Tagged<Resource>) {
    setBase(newer);
    form.setInitialValues(formOf(newer.row));
    form.setValues(formOf(newer.row));
    save.reset();
  }
  if (found.etag !== base.etag && !form.isDirty() && save.isIdle) take(found);
  const unplaced = save.error && byField(problemOf(save.error), fieldsOf(form.values)).rest;
  return (
    <form onSubmit={form.onSubmit(() => save.mutate({ etag: base.etag }))} aria-label="Resource">
      <fieldset disabled={!mayWrite} style={{ border: 0, padding: 0, margin: 0 }}>
        <Stack gap="lg" maw={760}>
          <Fields form={form} />
          {save.error && unplaced && !isStale(save.error) && <ProblemNote error={save.error} />}
          {mayWrite && (
            <Group>
              <Button type="submit" disabled={!form.isDirty()} loading={save.isPending}>
                Save
              </Button>
              <Button variant="default" disabled={!form.isDirty()} onClick={() => form.reset()}>
                Discard
              </Button>
            </Group>
          )}
        </Stack>
      </fieldset>
      <Conflict
        opened={isStale(save.error)}
        what={found.row.fqdn}
        mine={resourceOf(form.values, base.row)}
        theirs={found.row}
        onMine={() => save.mutate({ etag: found.etag })}
        onTheirs={() => take(found)}
        onClose={() => save.reset()}
      />
    </form>
  );
}

function isStale(error: Error | null): boolean {
  return error instanceof ProblemError && error.reason === "VERSION_STALE";
}
