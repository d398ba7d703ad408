/** Bounds how often a busy log makes parts of the page ask again. */

/**
 * Passes values on to `act`: the first at once, and then, at most once each `milliseconds`, all that have come since.
 */
export function bounded<Value>(
  milliseconds: number,
  act: (values: ReadonlySet<Value>) => void,
): (values: Iterable<Value>) => void {
  let waiting = new Set<Value>();
  let isResting = false;
  const pass = () => {
    isResting = waiting.size > 0;
    if (!isResting) return;
    const values = waiting;
    waiting = new Set();
    setTimeout(pass, milliseconds);
    act(values);
  };
  return (values) => {
    for (const value of values) waiting.add(value);
    if (!isResting) pass();
  };
}
