/**
 * The person's language. English stands in the code; German is the catalogue de.po, which is loaded only where it is spoken.
 * public/first.js chooses the language before anything is drawn, and writes it into the page's `lang`.
 */
import { i18n, type MessageDescriptor, type Messages } from "@lingui/core";
import { compileMessage } from "@lingui/message-utils/compileMessage";

import { again } from "../shared/view";

/** Each language by its own name, for a reader who cannot read the present one. */
export const LANGUAGES = { en: "English", de: "Deutsch" } as const;
export type Language = keyof typeof LANGUAGES;

// public/first.js reads it too.
const KEPT = "culvert-language";

// English messages reach the browser uncompiled: each is compiled once.
const compiled = new Map<string, ReturnType<typeof compileMessage>>();
i18n.setMessagesCompiler((message) => {
  const known = compiled.get(message) ?? compileMessage(message);
  compiled.set(message, known);
  return known;
});

/** Speaks the language of a tag (RFC 5646) such as `de-AT`; its region sets the form of dates and numbers. */
export async function speak(tag: string): Promise<void> {
  const to: Language = /^de(?![a-z])/i.test(tag) ? "de" : "en";
  i18n.load(to, to === "de" ? await german() : {});
  i18n.activate(to, [isTag(tag) ? tag : to]);
}

/** False for what some browsers make of an environment: `de_DE`, `en-US@posix`. `Intl` throws for these. */
function isTag(tag: string): boolean {
  try {
    return Intl.getCanonicalLocales(tag).length > 0;
  } catch {
    return false;
  }
}

async function german(): Promise<Messages> {
  return (await again(() => import("./de.po"))).messages;
}

export const language = (): Language => (i18n.locale === "de" ? "de" : "en");

/** A text that stands outside of functions is a descriptor (`msg`), and is said where it is shown. */
export type Text = MessageDescriptor | string;

export const say = (text: Text): string => (typeof text === "string" ? text : i18n._(text));

/** Options whose labels are texts of the catalogue. */
export const sayOptions = <Value extends string>(
  options: readonly { value: Value; label: Text }[],
): { value: Value; label: string }[] => options.map(({ value, label }) => ({ value, label: say(label) }));

/** The tags for `Intl`. */
export const locales = (): string[] => [i18n.locales ?? i18n.locale].flat();

/** Speaks another language from now on, and in this browser's next pages. */
export async function change(to: Language): Promise<void> {
  const tag = navigator.languages.find((one) => one.toLowerCase().startsWith(to)) ?? to;
  await speak(tag);
  document.documentElement.lang = tag;
  window.localStorage.setItem(KEPT, to);
}
