import { Button, Code, Group, Stack, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";

import { api, body, type Schemas } from "../api/client";
import { Dialog } from "../shared/Dialog";
import { ProblemNote } from "../shared/ProblemNote";
import { tar } from "./tar";

type Made = Schemas["BundleOut"];

/** Each call makes a bundle with new keys, so the call waits until the person asks for the download. */
export function Bundle({
  name,
  replaces = false,
  onClose,
}: {
  name: string;
  replaces?: boolean;
  onClose: () => void;
}) {
  const make = useMutation({
    mutationFn: async () =>
      body(await api.POST("/api/v1/gateways/{name}/bundle", { params: { path: { name } } })),
    onSuccess: (made) => save(`${name}.tar`, archive(name, made)),
  });
  return (
    <Dialog opened onClose={onClose} title={`What ${name} needs to start`}>
      <Stack>
        <Text size="sm">
          An archive with the gateway’s certificate and key, the controller’s CA, and the key under which SA
          keys travel. Whoever has it is this gateway: take it there over a way that you trust, unpack it, and
          delete it here.
        </Text>
        <Code block>
          {replaces ? unpack(name) : `${unpack(name)}\nsystemctl enable --now sluice@${name}`}
        </Code>
        {replaces ? (
          <Text size="sm" c="dimmed">
            {name} was given a bundle before. This one has another certificate and other keys. sluice takes
            them within seconds; every tunnel gets fresh keys and loses no packet, and the keys before are
            forgotten.
          </Text>
        ) : (
          <Text size="sm" c="dimmed">
            It is given once: the next one has other keys. /etc/culvert/sluice/{name}.env says which
            interfaces are its ports.
          </Text>
        )}
        {make.error && <ProblemNote error={make.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {make.isSuccess ? "Done" : "Later"}
          </Button>
          {!make.isSuccess && (
            <Button
              leftSection={<IconDownload size={16} />}
              onClick={() => make.mutate()}
              loading={make.isPending}
            >
              Download
            </Button>
          )}
        </Group>
      </Stack>
    </Dialog>
  );
}

const unpack = (name: string) => `tar -xpf ${name}.tar -C /etc/culvert/sluice`;

function archive(name: string, made: Made): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder();
  return tar(
    {
      [`${name}/controller-ca.pem`]: text.encode(made.ca_pem),
      [`${name}/gateway.pem`]: text.encode(made.certificate_pem),
      [`${name}/gateway.key`]: text.encode(made.key_pem),
      [`${name}/kek.bin`]: Uint8Array.from(atob(made.kek), (one) => one.charCodeAt(0)),
    },
    Math.floor(Date.now() / 1000),
  );
}

function save(name: string, content: Uint8Array<ArrayBuffer>) {
  const url = URL.createObjectURL(new Blob([content], { type: "application/x-tar" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
