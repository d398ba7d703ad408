import { Fragment } from "react";

import { partsOf } from "./words";

/**
 * A name, or a text with names. Where a name does not fit into a line, it breaks after a dot, a hyphen or an @, and inside
 * of a part only if that alone is too wide. Belongs into an element of the class `name`.
 */
export function Name({ children: text }: { children: string }) {
  const words = text.split(/(\s+)/);
  return words.map((word, at) => {
    const parts = partsOf(word);
    if (parts.length < 2) return <Fragment key={at}>{word}</Fragment>;
    return (
      // Beside other words, a name that fits into the next line goes there.
      <span key={at} {...(words.length > 1 && { className: "whole" })}>
        {parts.map((part, place) => (
          <Fragment key={place}>
            {place > 0 && <wbr />}
            {part}
          </Fragment>
        ))}
      </span>
    );
  });
}
