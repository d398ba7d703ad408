import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Button, Stack, Text } from "@mantine/core";
import { IconMailForward, IconPencil } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";

import type { Tagged } from "../api/client";
import { useMayWrite } from "../session/session";
import { Name } from "../shared/Name";
import { useReturn } from "../shared/lists";
import { DeleteButton } from "../shared/DeleteButton";
import { LoadedPage } from "../shared/LoadedPage";
import { PageHead } from "../shared/PageHead";
import { calledBy } from "../shared/PersonName";
import { InviteDialog } from "./InviteDialog";
import { PersonDeleteDialog } from "./PersonDeleteDialog";
import { PersonEditDialog } from "./PersonEditDialog";
import { PersonDenials, PersonDevices, PersonGroups, PersonReach } from "./PersonSections";
import { personQuery, type Person } from "./queries";

/** A person: groups, devices, what they reach and why, the last denials, and the off-boarding. */
export function PersonPage() {
  const { name } = useParams({ from: "/frame/people/of/$name" });
  const found = useQuery(personQuery(name));
  return (
    <LoadedPage query={found} name={name} list="/people">
      {(it) => <Details key={name} found={it} />}
    </LoadedPage>
  );
}

function Details({ found }: { found: Tagged<Person> }) {
  const { name, display_name, email } = found.row;
  const goBack = useReturn();
  const mayWrite = useMayWrite("users");
  const mayInvite = useMayWrite("invitations");
  const [doing, setDoing] = useState<"edit" | "invite" | "delete" | null>(null);
  const done = () => setDoing(null);
  return (
    <Stack gap="xl">
      <PageHead
        isWide
        title={calledBy(name, display_name)}
        about={
          <Text inherit className="name">
            <Name>{[...(display_name !== null ? [name] : []), email].join(" · ")}</Name>
          </Text>
        }
      >
        {mayInvite && (
          <Button leftSection={<IconMailForward size={16} />} onClick={() => setDoing("invite")}>
            <Trans>Invite a computer</Trans>
          </Button>
        )}
        {mayWrite && (
          <Button
            variant="default"
            leftSection={<IconPencil size={16} />}
            onClick={() => setDoing("edit")}
            aria-label={t`Change name or address`}
          >
            <Trans>Change</Trans>
          </Button>
        )}
        {mayWrite && <DeleteButton onClick={() => setDoing("delete")} />}
      </PageHead>
      <PersonGroups name={name} />
      <div className="beside">
        <PersonDevices name={name} />
        <PersonReach name={name} />
        <PersonDenials name={name} />
      </div>
      {doing === "invite" && <InviteDialog name={name} onClose={done} />}
      {doing === "edit" && <PersonEditDialog found={found} onClose={done} />}
      {doing === "delete" && (
        <PersonDeleteDialog person={found.row} onClose={done} onDeleted={() => goBack("/people")} />
      )}
    </Stack>
  );
}
