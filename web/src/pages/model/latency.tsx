import { metrics } from "../../api/client";
import { quantile, readLatency, type Latency } from "../../charts/latency";
import { count, plural, seconds } from "../../format";
import { useLoad } from "../../ui/load";
import { Failure } from "../../ui/parts";

const CALLS = [["hindsight_predict_seconds", "Predict"], ["hindsight_observe_seconds", "Observe"]] as const;

/** Latencies are the durations of the model's calls since the server started, from /metrics. */
export function Latencies({ model }: { model: string }) {
  const text = useLoad(metrics, [model]);
  const read = CALLS.map(([name, title]) => ({ title, h: text.value === undefined ? undefined : readLatency(text.value, name, model) }));
  return (
    <>
      <Failure error={text.error} />
      {read.map(({ title, h }) => (h
        ? <Histogram key={title} title={title} h={h} />
        : text.value !== undefined && <p class="note" key={title}>{title}: no call since the server started. Of many models the server shows those of the first 1000 alone.</p>
      ))}
      <button type="button" class="small" onClick={text.again}>Read again</button>
    </>
  );
}

const WIDTH = 320;
const HEIGHT = 70;
const FOOT = 14;

function Histogram({ title, h }: { title: string; h: Latency }) {
  // The buckets from the first to the last that has members, and one on each side.
  const used = h.buckets.map((b, i) => (b.members > 0 ? i : -1)).filter((i) => i >= 0);
  const first = Math.max(0, (used[0] ?? 0) - 1);
  const shown = h.buckets.slice(first, (used[used.length - 1] ?? 0) + 2);
  const largest = Math.max(...shown.map((b) => b.members));
  const step = WIDTH / shown.length;
  const text = `${title}: ${plural(h.count, "call")}, median ${seconds(quantile(h, 0.5))}, 99 % within ${seconds(quantile(h, 0.99))}`;
  return (
    <figure class="latency">
      <figcaption>{text}</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT + FOOT}`} role="img" aria-label={text}>
        {shown.map((b, i) => {
          const height = b.members === 0 ? 0 : Math.max(1, (b.members / largest) * (HEIGHT - 4));
          const name = b.bound === Infinity ? "above" : `up to ${seconds(b.bound)}`;
          return (
            <g key={b.bound}>
              <rect x={i * step + 1} y={HEIGHT - height} width={step - 2} height={height}><title>{`${name}: ${count(b.members)}`}</title></rect>
              {b.bound !== Infinity && i % Math.ceil(shown.length / 6) === 0 && <text x={(i + 1) * step} y={HEIGHT + FOOT - 3} text-anchor={i + 1 < shown.length ? "middle" : "end"}>{seconds(b.bound)}</text>}
            </g>
          );
        })}
        <line x1="0" x2={WIDTH} y1={HEIGHT} y2={HEIGHT} />
      </svg>
    </figure>
  );
}
