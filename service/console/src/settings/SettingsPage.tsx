import { msg, t } from "@lingui/core/macro";
import { Tabs } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { say } from "../locale/language";
import { PageHead } from "../shared/PageHead";
import { AccountTab } from "./AccountTab";
import { AdministratorsTab } from "./AdministratorsTab";
import { ControllerTab } from "./ControllerTab";
import { TokensTab } from "./TokensTab";

const PARTS = [
  { value: "account", label: msg`Your account`, Part: AccountTab },
  { value: "administrators", label: msg`Administrators`, Part: AdministratorsTab },
  { value: "tokens", label: msg`API tokens`, Part: TokensTab },
  { value: "controller", label: msg`Controller`, Part: ControllerTab },
] as const;

export function SettingsPage() {
  const { part = PARTS[0].value } = useSearch({ from: "/frame/settings" });
  const navigate = useNavigate({ from: "/settings" });
  return (
    <>
      <PageHead title={t`Settings`} />
      <Tabs
        value={part}
        keepMounted={false}
        onChange={(next) => void navigate({ search: next === null ? {} : { part: next } })}
      >
        <Tabs.List mb="lg">
          {PARTS.map(({ value, label }) => (
            <Tabs.Tab key={value} value={value}>
              {say(label)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {PARTS.map(({ value, Part }) => (
          <Tabs.Panel key={value} value={value}>
            <Part />
          </Tabs.Panel>
        ))}
      </Tabs>
    </>
  );
}
