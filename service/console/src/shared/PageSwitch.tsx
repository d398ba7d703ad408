import { i18n } from "@lingui/core";
import { msg } from "@lingui/core/macro";
import { SegmentedControl } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";

import { either, inSentence } from "./words";

const PAGES = {
  "/people": msg`People`,
  "/invitations": msg`Invitations`,
  "/policies": msg`Policies`,
  "/groups": msg`Groups`,
  "/assertions": msg`Assertions`,
  "/gateways": msg`Gateways`,
  "/site-tunnels": msg`Site tunnels`,
} as const;

type Page = keyof typeof PAGES;

export const PEOPLE_PAGES = ["/people", "/groups", "/invitations"] as const;
export const POLICY_PAGES = ["/policies", "/assertions"] as const;

/** A switch between pages. */
export function PageSwitch({ at, pages }: { at: Page; pages: readonly [Page, ...Page[]] }) {
  const navigate = useNavigate();
  const [first, ...others] = pages.map((page) => i18n._(PAGES[page]));
  return (
    <SegmentedControl
      aria-label={either([first ?? "", ...others.map(inSentence)])}
      data={pages.map((value) => ({ value, label: i18n._(PAGES[value]) }))}
      value={at}
      onChange={(to) => void navigate({ to })}
    />
  );
}
