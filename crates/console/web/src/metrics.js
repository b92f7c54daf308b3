// Parses the few families of /metrics that the charts need, and computes rates between two samples.

const FAMILIES = {
  apiserver_request_total: (out, labels, value) => (out[classOf(label(labels, "verb"))] += value),
  apiserver_request_duration_seconds_bucket: (out, labels, value) => {
    if (/^(WATCH|CONNECT|WATCHLIST)$/.test(label(labels, "verb"))) return;
    const bound = label(labels, "le");
    out.buckets.set(bound, (out.buckets.get(bound) ?? 0) + value);
  },
  apiserver_longrunning_requests: (out, labels, value) => {
    if (/^WATCH/.test(label(labels, "verb"))) out.watchers += value;
  },
  process_resident_memory_bytes: (out, _, value) => (out.memory = value / 1e6),
};

const label = (labels, name) => labels.match(new RegExp(`(?:^|,)${name}="([^"]*)"`))?.[1] ?? "";

function classOf(verb) {
  if (/^WATCH/.test(verb)) return "watches";
  return /^(GET|LIST|HEAD)$/.test(verb) ? "reads" : "writes";
}

/** Sums of the families. */
export function read(text) {
  const out = { reads: 0, writes: 0, watches: 0, watchers: 0, memory: 0, buckets: new Map() };
  for (const line of text.split("\n")) {
    const match = line.match(/^(\w+)(?:\{(.*)\})? (\S+)$/);
    if (match) FAMILIES[match[1]]?.(out, match[2] ?? "", Number(match[3]));
  }
  return out;
}

/** What happened between two readings. */
export function rates(from, to) {
  const seconds = Math.max(to.at - from.at, 0.001);
  const rate = (key) => Math.max(0, to[key] - from[key]) / seconds;
  return {
    at: to.at,
    reads: rate("reads"),
    writes: rate("writes"),
    watches: rate("watches"),
    watchers: to.watchers,
    memory: to.memory,
    p50: quantile(0.5, from.buckets, to.buckets),
    p99: quantile(0.99, from.buckets, to.buckets),
  };
}

/** A quantile of what was added to a histogram, in milliseconds, linear within a bucket; null where nothing was. */
export function quantile(part, from, to) {
  const bounds = [...to.keys()].map((text) => [text === "+Inf" ? Infinity : Number(text), to.get(text) - (from.get(text) ?? 0)]).sort((a, b) => a[0] - b[0]);
  const total = bounds.at(-1)?.[1] ?? 0;
  if (total <= 0) return null;
  const wanted = part * total;
  let [lower, below] = [0, 0];
  for (const [bound, count] of bounds) {
    if (count >= wanted) {
      if (bound === Infinity) return lower * 1000;
      const share = count === below ? 1 : (wanted - below) / (count - below);
      return (lower + (bound - lower) * share) * 1000;
    }
    [lower, below] = [bound, count];
  }
  return null;
}
