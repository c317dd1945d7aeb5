/** Latency is a histogram of durations, in seconds. */
export interface Latency {
  count: number;
  sum: number;
  /** Members of one bucket are in no other; the last bound is Infinity. */
  buckets: { bound: number; members: number }[];
}

/** readLatency reads the histogram of a model from the text of /metrics. */
export function readLatency(text: string, name: string, model: string): Latency | undefined {
  const of = `model="${model}"`;
  const out: Latency = { count: 0, sum: 0, buckets: [] };
  let before = 0;
  let found = false;
  for (const line of text.split("\n")) {
    if (!line.startsWith(name) || !line.includes(of)) continue;
    found = true;
    const value = Number(line.slice(line.lastIndexOf(" ") + 1));
    if (line.startsWith(`${name}_count{`)) out.count = value;
    else if (line.startsWith(`${name}_sum{`)) out.sum = value;
    else {
      const bound = /le="([^"]+)"/.exec(line)?.[1];
      if (bound === undefined) continue;
      out.buckets.push({ bound: bound === "+Inf" ? Infinity : Number(bound), members: value - before });
      before = value;
    }
  }
  return found && out.count > 0 ? out : undefined;
}

/** quantile estimates a quantile; durations within a bucket count as evenly spread. */
export function quantile(h: Latency, q: number): number {
  let left = q * h.count;
  let low = 0;
  for (const b of h.buckets) {
    if (left <= b.members && b.members > 0) {
      return b.bound === Infinity ? low : low + (b.bound - low) * (left / b.members);
    }
    left -= b.members;
    low = b.bound === Infinity ? low : b.bound;
  }
  return low;
}
