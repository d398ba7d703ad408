/** ⌘K: its code is loaded when it is first opened; keys that are typed meanwhile are kept. */
import { useHotkeys, useWindowEvent } from "@mantine/hooks";
import { spotlight } from "@mantine/spotlight";
import { Suspense, useState } from "react";

import { useSoon, view } from "../shared/view";

const load = () => import("./CommandList");
const CommandList = view(load, "CommandList");

/** `asked`: the palette has been opened before. */
export function CommandPalette({ asked, onOpen }: { asked: boolean; onOpen: () => void }) {
  const [query, setQuery] = useState("");
  const [hasField, setHasField] = useState(false);
  useHotkeys([["mod+K", onOpen]]);
  useSoon(load);
  if (!asked) return null;
  return (
    <>
      {!hasField && <Early onType={(key) => setQuery((before) => before + key)} />}
      <Suspense>
        <CommandList query={query} onQuery={setQuery} onField={() => setHasField(true)} />
      </Suspense>
    </>
  );
}

export function useCommandPalette(): { asked: boolean; onOpen: () => void } {
  const [asked, setAsked] = useState(false);
  const onOpen = () => {
    setAsked(true);
    spotlight.open();
  };
  return { asked, onOpen };
}

function Early({ onType }: { onType: (key: string) => void }) {
  useWindowEvent("keydown", (event) => {
    if (event.key.length > 1 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    onType(event.key);
  });
  return null;
}
