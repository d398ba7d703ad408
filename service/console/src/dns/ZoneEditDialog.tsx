import { t } from "@lingui/core/macro";
import { NumberInput, SimpleGrid, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery } from "@tanstack/react-query";

import { DNS_TTL_MAX } from "../api/contract";
import { api, tagged, type Schemas, type Tagged } from "../api/client";
import { Dialog } from "../shared/Dialog";
import { FormDialog } from "../shared/FormDialog";
import { Loading } from "../shared/Loading";
import { NamesField } from "../shared/NamesField";
import { ProblemNote } from "../shared/ProblemNote";

type Zone = Schemas["ZoneOut"];

/** `shown`: the zone's name as people read it. */
interface Asked {
  name: string;
  shown: string;
  onClose: () => void;
}

/** A zone's server, key, TTL and resources; its name and its origin stay. */
export function ZoneEditDialog({ name, shown, onClose }: Asked) {
  const title = t`Change ${shown}`;
  const found = useQuery({
    queryKey: ["dns", "zone", name],
    queryFn: async () => tagged(await api.GET("/api/v1/dns/zones/{name}", { params: { path: { name } } })),
    staleTime: 0,
    gcTime: 0,
  });
  if (found.data) return <ZoneForm found={found.data} title={title} onClose={onClose} />;
  return (
    <Dialog opened onClose={onClose} title={title}>
      {found.isError ? <ProblemNote error={found.error} /> : <Loading forWhat={shown} />}
    </Dialog>
  );
}

function ZoneForm({
  found: { row, etag },
  title,
  onClose,
}: {
  found: Tagged<Zone>;
  title: string;
  onClose: () => void;
}) {
  const { name, display_name: shown, server, port = 53, key, ttl = 60, resources } = row;
  const initial = { server, port, key, ttl, resources: resources ?? [] };
  const change = useMutation({
    mutationFn: ({ resources: chosen, ...rest }: typeof initial) =>
      api.PUT("/api/v1/dns/zones/{name}", {
        params: { path: { name }, header: { "if-match": etag } },
        body: { ...rest, resources: chosen.length === 0 ? null : chosen },
      }),
    onSuccess: () => {
      notifications.show({ message: t`${shown} is saved; its records follow` });
      onClose();
    },
  });
  return (
    <FormDialog title={title} act={t`Save`} initial={initial} mutation={change} onClose={onClose} size="lg">
      {(form) => (
        <>
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput
              label={t`Name server`}
              description={t`The zone’s primary server`}
              required
              spellCheck={false}
              {...form.getInputProps("server")}
            />
            <NumberInput
              label={t`Port`}
              description={t`Usually 53`}
              min={1}
              max={65535}
              {...form.getInputProps("port")}
            />
            <TextInput
              label={t`TSIG key`}
              description={t`Its file’s name, without .key`}
              required
              spellCheck={false}
              {...form.getInputProps("key")}
            />
            <NumberInput
              label={t`TTL`}
              description={t`Seconds`}
              min={0}
              max={DNS_TTL_MAX}
              {...form.getInputProps("ttl")}
            />
          </SimpleGrid>
          <NamesField
            area="resources"
            label={t`Only these resources`}
            description={t`Empty: all resources in the zone`}
            {...form.getInputProps("resources")}
          />
        </>
      )}
    </FormDialog>
  );
}
