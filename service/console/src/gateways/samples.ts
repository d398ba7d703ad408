/** A gateway's samples as charts' rows: the drops between two samples, by cause; rates and tunnels. Pure. */
import { msg, t } from "@lingui/core/macro";
import { locales, say, type Text } from "../locale/language";
import type { GatewayDrop } from "../api/contract";
import type { Schemas } from "../api/client";

export type Sample = Schemas["SampleOut"];

export interface DropRow {
  at: number;
  [cause: string]: number;
}

/** Rows, and their causes, the most frequent first. */
export function dropRows(samples: readonly Sample[]): { rows: DropRow[]; causes: string[] } {
  const totals = new Map<string, number>();
  const rows = samples.slice(1).map((sample, before) => {
    const row: DropRow = { at: Date.parse(sample.at) };
    for (const [cause, count] of Object.entries(sample.drops)) {
      const known = samples[before]?.drops[cause] ?? 0;
      // A restarted gateway counts from 0.
      const more = count >= known ? count - known : count;
      if (more === 0) continue;
      row[cause] = more;
      totals.set(cause, (totals.get(cause) ?? 0) + more);
    }
    return row;
  });
  const causes = [...totals].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).map(([cause]) => cause);
  // Without drops, the line is at 0.
  for (const row of rows) for (const cause of causes) row[cause] ??= 0;
  return { rows, causes };
}

/** Bits per second, and open tunnels; null in a time without samples. */
export interface TrafficRow {
  at: number;
  received: number | null;
  sent: number | null;
  tunnels: number | null;
}

// The controller reads counters less often while it has many, and a view of a day has a sample for six minutes.
const GAP_MS = 120_000;

/** Rows of the measured times. `hours`: the period that the samples are of. */
export function trafficRows(samples: readonly Sample[], hours: number): TrafficRow[] {
  const gap = Math.max(GAP_MS, (hours * HOUR) / 80);
  const rows: TrafficRow[] = [];
  for (const { at: time, received, sent, tunnels } of samples) {
    if (received === null || sent === null) continue;
    const at = Date.parse(time);
    const before = rows.at(-1);
    // A line over a time without samples would show what nobody has measured.
    if (before !== undefined && at - before.at > gap)
      rows.push({ at: before.at + 1, received: null, sent: null, tunnels: null });
    rows.push({ at, received: 8 * received, sent: 8 * sent, tunnels });
  }
  return rows;
}

/** Values from 0 on, evenly apart, of which the last is not below `most`: 1, 2 or 5 times a power of ten, in at most `steps`. */
export function valueTicks(most: number, least = 0, steps = 5): number[] {
  const rough = Math.max(most / steps, least);
  const power = 10 ** Math.floor(Math.log10(rough > 0 ? rough : 1));
  const step = ([1, 2, 5].find((it) => it * power >= rough * (1 - 1e-9)) ?? 10) * power;
  const count = Math.max(1, Math.ceil(most / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, at) => at * step);
}

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((minutes) => minutes * 60_000);
const TICKS_MAX = 7;

/** Whole minutes or hours of local time within the times, evenly apart, at most `most`. Milliseconds. */
export function timeTicks(times: readonly number[], most = TICKS_MAX): number[] {
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const step = STEPS.find((each) => (last - first) / each < most) ?? DAY;
  // Hours are whole in local time, which some places have half an hour beside those of UTC.
  const offset = new Date(last).getTimezoneOffset() * 60_000;
  const ticks: number[] = [];
  for (let at = Math.ceil((first - offset) / step) * step + offset; at <= last; at += step) ticks.push(at);
  return ticks;
}

/** "0.42 ms", of microseconds. */
export function trip(microseconds: number | null | undefined): string {
  return microseconds == null
    ? t`not measured yet`
    : `${(microseconds / 1000).toLocaleString(locales(), { maximumSignificantDigits: 2 })} ms`;
}

const WORDS: Record<GatewayDrop, Text> = {
  malformed: msg`malformed`,
  no_role: msg`port without a role`,
  fragment: msg`fragment to us`,
  not_esp: msg`no ESP on its port`,
  bad_spi: msg`unknown SPI`,
  esp_malformed: msg`malformed ESP`,
  replay: msg`replayed`,
  icv: msg`failed authentication`,
  dummy: msg`dummy`,
  hard_limit: msg`keys used up`,
  key: msg`unusable key`,
  selector: msg`outside its tunnel's policy`,
  policy: msg`no policy`,
  no_sa: msg`policy without a tunnel`,
  ttl: msg`time to live`,
  no_route: msg`no route`,
  no_nexthop: msg`no next hop`,
  not_ip: msg`not IP`,
  arp_not_ours: msg`ARP for others`,
  not_our_mac: msg`for another MAC`,
  martian: msg`impossible address`,
  ip_options: msg`IP options`,
  not_offered: msg`no service there`,
  too_big: msg`too big`,
  ecn: msg`ECN`,
  leak: msg`would have left unprotected`,
  crypto_frame: msg`not a crypto host's answer`,
  crypto_answer: msg`a crypto host's wrong answer`,
  no_host: msg`no crypto host for the SA`,
};

export const causeWords = (cause: string): string => say((WORDS as Record<string, Text>)[cause] ?? cause);
