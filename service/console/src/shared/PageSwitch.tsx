import { SegmentedControl } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";

const PAGES = {
  "/people": "People",
  "/invitations": "Invitations",
  "/policies": "Policies",
  "/groups": "Groups",
  "/gateways": "Gateways",
  "/site-tunnels": "Site tunnels",
} as const;

type Page = keyof typeof PAGES;

/** A switch between two pages. */
export function PageSwitch({ at, pages }: { at: Page; pages: readonly [Page, Page] }) {
  const navigate = useNavigate();
  const [one, other] = pages;
  return (
    <SegmentedControl
      aria-label={`${PAGES[one]} or ${PAGES[other].toLowerCase()}`}
      data={pages.map((value) => ({ value, label: PAGES[value] }))}
      value={at}
      onChange={(to) => void navigate({ to })}
    />
  );
}
