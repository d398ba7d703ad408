/** A gateway's samples as a chart's rows: the drops between two samples, by cause. Pure. */
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

const DAY = 86_400_000;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((minutes) => minutes * 60_000);
const TICKS_MAX = 7;

/** Whole minutes within the times, evenly apart, at most seven. Milliseconds. */
export function timeTicks(times: readonly number[]): number[] {
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const step = STEPS.find((each) => (last - first) / each < TICKS_MAX) ?? DAY;
  const ticks: number[] = [];
  for (let at = Math.ceil(first / step) * step; at <= last; at += step) ticks.push(at);
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
};

export const causeWords = (cause: string): string => say((WORDS as Record<string, Text>)[cause] ?? cause);
