/** The rows of a live view, made from its events (service/culvert_service/live/timeline.py). Pure. */

export type Rows<Row> = ReadonlyMap<string, Row>;

export type LiveEvent<Row> =
  | { kind: "snapshot"; rows: Record<string, Row> }
  | { kind: "changed"; key: string; row: Row }
  | { kind: "gone"; key: string };

export function after<Row>(rows: Rows<Row>, event: LiveEvent<Row>): Rows<Row> {
  switch (event.kind) {
    case "snapshot":
      return new Map(Object.entries(event.rows));
    case "changed":
      return new Map(rows).set(event.key, event.row);
    case "gone": {
      const left = new Map(rows);
      left.delete(event.key);
      return left;
    }
  }
}
