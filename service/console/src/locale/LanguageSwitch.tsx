import { Anchor } from "@mantine/core";

import { change, language, LANGUAGES, type Language } from "./language";

/** Offers the other languages, each by its own name. */
export function LanguageSwitch() {
  return (Object.keys(LANGUAGES) as Language[])
    .filter((one) => one !== language())
    .map((one) => (
      <Anchor key={one} component="button" type="button" size="sm" lang={one} onClick={() => change(one)}>
        {LANGUAGES[one]}
      </Anchor>
    ));
}
