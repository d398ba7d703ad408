import { Tabs } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { PageHead } from "../shared/PageHead";
import { Account } from "./Account";
import { Administrators } from "./Administrators";
import { ControllerFacts } from "./ControllerFacts";
import { Tokens } from "./Tokens";

const PARTS = [
  { value: "account", label: "Your account", Part: Account },
  { value: "administrators", label: "Administrators", Part: Administrators },
  { value: "tokens", label: "API tokens", Part: Tokens },
  { value: "controller", label: "Controller", Part: ControllerFacts },
] as const;

export function SettingsPage() {
  const { part = PARTS[0].value } = useSearch({ from: "/frame/settings" });
  const navigate = useNavigate({ from: "/settings" });
  return (
    <>
      <PageHead title="Settings" />
      <Tabs
        value={part}
        keepMounted={false}
        onChange={(next) => void navigate({ search: next === null ? {} : { part: next } })}
      >
        <Tabs.List mb="lg">
          {PARTS.map(({ value, label }) => (
            <Tabs.Tab key={value} value={value}>
              {label}
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
