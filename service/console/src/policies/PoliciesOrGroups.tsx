import { SegmentedControl } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";

const DATA = [
  { value: "/policies", label: "Policies" },
  { value: "/groups", label: "Groups" },
] as const;

export function PoliciesOrGroups({ at }: { at: (typeof DATA)[number]["value"] }) {
  const navigate = useNavigate();
  return (
    <SegmentedControl
      aria-label="Policies or groups"
      data={[...DATA]}
      value={at}
      onChange={(to) => void navigate({ to })}
    />
  );
}
