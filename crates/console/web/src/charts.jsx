// Activity: charts of request rate, latency, watchers and memory, computed from /metrics.
import uPlot from "uplot";
import { useEffect, useRef, useState } from "preact/hooks";
import { getText } from "./api.js";
import { useTitle } from "./hooks.js";
import { Failure } from "./parts.jsx";
import { rates, read } from "./metrics.js";

const INTERVAL_MS = 2000;
/** Ten minutes. */
const POINTS_MAX = 300;
/** The least time that a chart shows. */
const WINDOW_SECONDS = 60;
const now = () => Date.now() / 1000;

const milliseconds = (value) => (value === null || value === undefined ? "–" : value < 1 ? `${(value * 1000).toFixed(0)} µs` : `${value.toPrecision(3)} ms`);
const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en", { maximumFractionDigits: 1 }));
const CHARTS = [
  { title: "Requests per second", series: [["reads", "Reads"], ["writes", "Writes"], ["watches", "Watches opened"]], text: number },
  { title: "Latency", series: [["p50", "Median"], ["p99", "99th percentile"]], text: milliseconds },
  { title: "Open watches", series: [["watchers", "Watches"]], text: number },
  { title: "Memory", series: [["memory", "Resident MB"]], text: number },
];

export function Charts() {
  const heading = useTitle("Activity");
  const [points, setPoints] = useState([]);
  const [error, setError] = useState(null);
  useEffect(() => {
    const abort = new AbortController();
    let last;
    const poll = async () => {
      try {
        const current = { at: now(), ...read(await getText("/metrics", { accept: "text/plain", signal: abort.signal })) };
        if (last) {
          const point = rates(last, current);
          setPoints((all) => [...all, point].slice(-POINTS_MAX));
        }
        last = current;
        setError(null);
      } catch (why) {
        if (abort.signal.aborted) return;
        setError(why);
        if (why.code === 403) return;
      }
      timer = setTimeout(poll, INTERVAL_MS);
    };
    let timer = setTimeout(poll, 0);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, []);
  return (
    <section class="view">
      <div class="title">
        <h1 ref={heading} tabIndex={-1}>
          Activity
        </h1>
        <p class="hint">Of this server, every two seconds, for ten minutes at most.</p>
      </div>
      {error?.code === 403 ? (
        <div class="failure" role="alert">
          <p>You may not read the metrics of the server. The right is “get” on the path /metrics.</p>
        </div>
      ) : (
        error && <Failure error={error} />
      )}
      <div class="charts">
        {CHARTS.map((chart) => (
          <Chart chart={chart} points={points} />
        ))}
      </div>
    </section>
  );
}

/** A colour of the theme as rgb(), which canvases understand. */
function css(name, host) {
  host.style.color = `var(${name})`;
  return getComputedStyle(host).color;
}

function Chart({ chart, points }) {
  const host = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    // Observers may run once more after the view is gone, when the reference is already cleared.
    const element = host.current;
    const make = () => {
      plot.current?.destroy();
      const color = (name) => css(name, element);
      const line = color("--line");
      const axis = { stroke: color("--muted"), grid: { stroke: line, width: 1 }, ticks: { stroke: line }, font: "11px system-ui" };
      const lines = chart.series.map(([, label], index) => {
        const stroke = color(`--owner-${index}`);
        const fill = index === 0 ? stroke.replace("rgb(", "rgba(").replace(")", ", 0.1)") : undefined;
        return { label, stroke, fill, width: 1.75, points: { show: false } };
      });
      const range = (_, __, high) => [0, Math.max(high || 0, 1)];
      // One point alone would be drawn in the middle of years.
      const time = (_, from, to) => [Math.min(from ?? Infinity, (to ?? now()) - WINDOW_SECONDS), to ?? now()];
      const clock = (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toLocaleTimeString("en", { hourCycle: "h23" }));
      plot.current = new uPlot(
        {
          width: element.clientWidth,
          height: 180,
          legend: { show: false },
          cursor: { y: false, drag: { x: false, y: false } },
          scales: { x: { range: time }, y: { range } },
          axes: [{ ...axis, space: 80, values: clock }, { ...axis, size: 52 }],
          series: [{}, ...lines],
        },
        columns(chart, points),
        element,
      );
    };
    make();
    const resized = new ResizeObserver(() => element.isConnected && plot.current.setSize({ width: element.clientWidth, height: 180 }));
    resized.observe(element);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("themechange", make);
    scheme.addEventListener("change", make);
    return () => {
      removeEventListener("themechange", make);
      scheme.removeEventListener("change", make);
      resized.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.setData(columns(chart, points)), [points]);
  const latest = points.at(-1);
  return (
    <figure>
      <figcaption>
        <h2>{chart.title}</h2>
        <dl>
          {chart.series.map(([key, label], index) => (
            <div>
              <dt>
                <span class={`owner-dot owner-${index}`} aria-hidden="true" />
                {label}
              </dt>
              <dd>{chart.text(latest?.[key])}</dd>
            </div>
          ))}
        </dl>
      </figcaption>
      <div ref={host} role="img" aria-label={`${chart.title} over the last minutes; the numbers above are the latest`} />
    </figure>
  );
}

const columns = (chart, points) => [points.map((point) => point.at), ...chart.series.map(([key]) => points.map((point) => point[key] ?? null))];
