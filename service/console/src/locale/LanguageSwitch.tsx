import { Anchor } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";

import { stream } from "../live/stream";
import { change, language, LANGUAGES, type Language } from "./language";

/** Offers the other languages, each by its own name. */
export function LanguageSwitch() {
  const changeTo = useLanguageChange();
  return others().map((one) => (
    <Anchor
      key={one}
      component="button"
      type="button"
      size="sm"
      lang={one}
      onClick={() => void changeTo(one)}
    >
      {LANGUAGES[one]}
    </Anchor>
  ));
}

export const others = (): Language[] =>
  (Object.keys(LANGUAGES) as Language[]).filter((one) => one !== language());

/** The page keeps its state, and gets the controller's answers again, in the new language. */
export function useLanguageChange(): (to: Language) => Promise<void> {
  const queries = useQueryClient();
  return async (to) => {
    await change(to);
    stream.beginAgain();
    await queries.invalidateQueries({ predicate: ({ queryKey: [area] }) => area !== "session" });
  };
}
