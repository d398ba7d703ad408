import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Code, Stack, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";

import { api, body } from "../api/client";
import { Dialog, DialogButtons } from "../shared/Dialog";
import { ProblemNote } from "../shared/ProblemNote";

const AS_ARCHIVE = { headers: { Accept: "application/x-tar" }, parseAs: "blob" } as const;

/** Each call makes a bundle with new keys, so the call waits until the person asks for the download. */
export function BundleDialog({
  name,
  replaces = false,
  cryptoHostOf,
  onClose,
}: {
  name: string;
  replaces?: boolean;
  /** The gateway, for the bundle of one of its crypto hosts. */
  cryptoHostOf?: string;
  onClose: () => void;
}) {
  const make = useMutation({
    mutationFn: async () =>
      body(
        cryptoHostOf === undefined
          ? await api.POST("/api/v1/gateways/{name}/bundle", { params: { path: { name } }, ...AS_ARCHIVE })
          : await api.POST("/api/v1/gateways/{gateway}/crypto-hosts/{name}/bundle", {
              params: { path: { gateway: cryptoHostOf, name } },
              ...AS_ARCHIVE,
            }),
      ),
    onSuccess: (archive) => save(`${name}.tar`, archive),
  });
  const commands = replaces ? unpack(name) : `${unpack(name)}\nsystemctl enable --now sluice@${name}`;
  return (
    <Dialog opened onClose={onClose} title={t`Bundle of ${name}`} size="lg">
      <Stack>
        <Text size="sm">
          {cryptoHostOf === undefined ? (
            <Trans>
              An archive with the gateway’s certificate and key, the controller’s CA, and the key under which
              SA keys travel. Anyone with this archive can act as the gateway: copy it there over a path that
              you trust, unpack it, and delete it here.
            </Trans>
          ) : (
            <Trans>
              An archive with the crypto host’s certificate and key, the controller’s CA, and the key under
              which SA keys travel. Anyone with this archive can act as the crypto host: copy it there over a
              path that you trust, unpack it, and delete it here.
            </Trans>
          )}
        </Text>
        <Code block style={{ whiteSpace: "pre-wrap" }}>
          {commands}
        </Code>
        {replaces ? (
          <Text size="sm" c="dimmed">
            <Trans>
              {name} has had a bundle before. This one has a new certificate and new keys. sluice loads them
              within seconds; every tunnel is rekeyed without losing a packet, and the old keys are deleted.
            </Trans>
          </Text>
        ) : (
          <Text size="sm" c="dimmed">
            <Trans>
              Each download has new keys. /etc/culvert/sluice/{name}.env assigns interfaces to ports.
            </Trans>
          </Text>
        )}
        {make.error && <ProblemNote error={make.error} />}
        <DialogButtons>
          <Button variant="default" onClick={onClose}>
            {make.isSuccess ? t`Done` : t`Later`}
          </Button>
          {!make.isSuccess && (
            <Button
              leftSection={<IconDownload size={16} />}
              onClick={() => make.mutate()}
              loading={make.isPending}
            >
              <Trans>Download</Trans>
            </Button>
          )}
        </DialogButtons>
      </Stack>
    </Dialog>
  );
}

/** The switch runs as the user sluice, and its files are its own. */
const unpack = (name: string) =>
  `tar -xpf ${name}.tar -C /etc/culvert/sluice\nchown -R sluice:sluice /etc/culvert/sluice/${name}`;

function save(name: string, content: Blob) {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
