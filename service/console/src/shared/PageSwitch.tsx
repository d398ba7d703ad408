import { i18n } from "@lingui/core";
import { msg, t } from "@lingui/core/macro";
import { SegmentedControl } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";

import { inSentence } from "./words";

const PAGES = {
  "/people": msg`People`,
  "/invitations": msg`Invitations`,
  "/policies": msg`Policies`,
  "/groups": msg`Groups`,
  "/gateways": msg`Gateways`,
  "/site-tunnels": msg`Site tunnels`,
} as const;

type Page = keyof typeof PAGES;

/** A switch between two pages. */
export function PageSwitch({ at, pages }: { at: Page; pages: readonly [Page, Page] }) {
  const navigate = useNavigate();
  const [one, other] = pages.map((page) => i18n._(PAGES[page])) as [string, string];
  const second = inSentence(other);
  return (
    <SegmentedControl
      aria-label={t`${one} or ${second}`}
      data={pages.map((value) => ({ value, label: i18n._(PAGES[value]) }))}
      value={at}
      onChange={(to) => void navigate({ to })}
    />
  );
}
