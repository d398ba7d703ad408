import { SegmentedControl } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";

const DATA = [
  { value: "/people", label: "People" },
  { value: "/invitations", label: "Invitations" },
] as const;

export function PeopleOrInvitations({ at }: { at: (typeof DATA)[number]["value"] }) {
  const navigate = useNavigate();
  return (
    <SegmentedControl
      aria-label="People or invitations"
      data={[...DATA]}
      value={at}
      onChange={(to) => void navigate({ to })}
    />
  );
}
