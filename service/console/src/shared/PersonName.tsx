import { Text } from "@mantine/core";

import { Name } from "./Name";

/** A person as people write the name; the login name stands beside it. */
export function PersonName({ user, displayName }: { user: string; displayName: string | null }) {
  if (displayName === null)
    return (
      <bdi className="name">
        <Name>{user}</Name>
      </bdi>
    );
  return (
    <>
      <bdi className="name">
        <Name>{displayName}</Name>
      </bdi>{" "}
      <Text span inherit c="dimmed" fw={400} className="name">
        <Name>{`(${user})`}</Name>
      </Text>
    </>
  );
}

/** The same as text, where several people stand in one line. */
export const inFull = (user: string, displayName: string | null | undefined): string =>
  displayName == null ? user : `${displayName} (${user})`;

export const calledBy = (user: string, displayName: string | null): string => displayName ?? user;
