/** A few small files as one archive (POSIX.1-1988, ustar), readable by their owner alone. Pure. */

const BLOCK = 512;
const text = new TextEncoder();

/** `at`: seconds since 1970. */
export function tar(files: Readonly<Record<string, Uint8Array>>, at: number): Uint8Array<ArrayBuffer> {
  const parts = Object.entries(files).flatMap(([name, content]) => [
    header(name, content.length, at),
    content,
    new Uint8Array(-content.length & (BLOCK - 1)),
  ]);
  parts.push(new Uint8Array(2 * BLOCK));
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) {
    whole.set(part, place);
    place += part.length;
  }
  return whole;
}

function header(name: string, size: number, at: number): Uint8Array {
  const block = new Uint8Array(BLOCK);
  const put = (where: number, what: string) => block.set(text.encode(what), where);
  const octal = (where: number, digits: number, value: number) =>
    put(where, value.toString(8).padStart(digits, "0"));
  put(0, name);
  octal(100, 7, 0o600);
  octal(108, 7, 0);
  octal(116, 7, 0);
  octal(124, 11, size);
  octal(136, 11, at);
  // The sum is taken with blanks in its own place.
  put(148, " ".repeat(8));
  put(156, "0");
  put(257, "ustar\0" + "00");
  octal(
    148,
    6,
    block.reduce((sum, byte) => sum + byte, 0),
  );
  block.set([0, 0x20], 154);
  return block;
}
