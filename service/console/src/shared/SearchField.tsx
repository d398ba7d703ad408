import { t } from "@lingui/core/macro";
import { CloseButton, Kbd, TextInput } from "@mantine/core";
import { useDebouncedCallback, useHotkeys } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useRef, useState } from "react";

import { DNS_NAME_MAX } from "../api/contract";

const PAUSE_MS = 200;

/** The key `/` focuses it. `onSearch` is called once the typing pauses. */
export function SearchField({
  label,
  value,
  onSearch,
}: {
  label: string;
  value: string;
  onSearch: (text: string) => void;
}) {
  const field = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState(value);
  const [known, setKnown] = useState(value);
  // Back and forward change it too.
  if (known !== value) {
    setKnown(value);
    if (typed.trim() !== value) setTyped(value);
  }
  const search = useDebouncedCallback((text: string) => onSearch(text.trim()), PAUSE_MS);
  useHotkeys([["/", () => field.current?.focus()]]);
  return (
    <TextInput
      ref={field}
      w={{ base: "100%", xs: 320 }}
      aria-label={label}
      placeholder={label}
      maxLength={DNS_NAME_MAX}
      leftSection={<IconSearch size={16} />}
      rightSection={
        typed === "" ? (
          <Kbd size="xs" visibleFrom="sm">
            /
          </Kbd>
        ) : (
          <CloseButton
            size="sm"
            aria-label={t`Clear the search`}
            onClick={() => {
              setTyped("");
              onSearch("");
            }}
          />
        )
      }
      value={typed}
      onChange={({ currentTarget }) => {
        setTyped(currentTarget.value);
        search(currentTarget.value);
      }}
    />
  );
}
