import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { compact, count, figure, short } from "../format";
import { useTheme } from "../theme";

/** Curve is one line of a plot. */
export interface Curve {
  label: string;
  values: (number | null)[];
  /** The name of a custom property of the style sheet, such as --model. */
  colour: string;
  dash?: number[];
  /** The area below is filled. */
  filled?: boolean;
  /** What the legend and the table tell, where it is not what is drawn. */
  reported?: (number | null)[];
}

/** Mark is a vertical line at x. */
export interface Mark {
  x: number;
  rise: boolean;
}

interface Props {
  /** What screen readers call the plot. */
  name: string;
  x: number[];
  curves: Curve[];
  marks?: Mark[];
  /** The name of the x axis. */
  across?: string;
  /** Plots of the same group share the cursor. */
  group?: string;
  logarithmic?: boolean;
  /** The ends of the y axis; without them it follows the values. */
  range?: [number, number];
  format?: (v: number | undefined) => string;
  /** How the ticks of the y axis are written. */
  tick?: (v: number) => string;
  height?: number;
  /** Single values are drawn too. */
  dots?: boolean;
}

const HEIGHT = 190;
const NARROWEST = 120;

/** Plot draws curves over x, with a legend that follows the cursor and a table of its values. */
export function Plot(p: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const marks = useRef<Mark[]>([]);
  const [cursor, setCursor] = useState<number>();
  const theme = useTheme();
  const format = p.format ?? figure;
  marks.current = p.marks ?? [];

  const data = useMemo(() => table(p.x, p.curves, p.logarithmic ?? false), [p.x, p.curves, p.logarithmic]);
  // A plot is created again only when its form changes.
  const form = JSON.stringify([
    p.curves.map((c) => [c.label, c.colour, c.dash, c.filled]), p.logarithmic, p.range, p.group, p.height, p.dots, theme,
  ]);

  useEffect(() => {
    const host = box.current;
    if (!host) return;
    const u = new uPlot(options(p, host, marks, setCursor), data, host);
    plot.current = u;
    host.querySelector("canvas")?.setAttribute("aria-hidden", "true");
    const resized = new ResizeObserver(() => {
      u.setSize({ width: Math.max(host.clientWidth, NARROWEST), height: p.height ?? HEIGHT });
    });
    resized.observe(host);
    return () => {
      resized.disconnect();
      u.destroy();
      plot.current = undefined;
    };
  }, [form]);

  useEffect(() => {
    const u = plot.current;
    if (!u) return;
    const { min, max } = u.scales["x"] ?? {};
    const old = u.data[0];
    // A part that the reader chose stays; the whole grows.
    const whole = old.length < 2 || (min === old[0] && max === old[old.length - 1]);
    const other = u.data !== data;
    if (other) u.setData(data, whole);
    // To draw again would undo new scales, and is not possible before the first ones.
    if (!(other && whole) && u.status === 1 && data[0].length > 0) u.redraw();
  }, [data, p.marks]);

  const last = p.x.length - 1;
  const shown = cursor === undefined || cursor > last ? last : cursor;
  return (
    <div class="plot">
      <ul class="legend">
        {p.curves.map((c) => (
          <li key={c.label}>
            <Swatch curve={c} />
            <span class="legend-label">{c.label}</span>
            <span class="legend-value">{format(valueAt(c, shown))}</span>
          </li>
        ))}
        {last >= 0 && (
          <li class="legend-x">{p.across ?? "observation"} {count(p.x[shown] ?? 0)}</li>
        )}
      </ul>
      <div
        ref={box} class="canvas" role="img" aria-label={describe(p, format)}
        data-points={p.x.length} data-last={p.x[last] ?? ""} data-marks={marks.current.length}
      />
      <Values {...p} />
    </div>
  );
}

/** valueAt answers the value at an index, or the newest one before it. */
function valueAt(c: Curve, index: number): number | undefined {
  const values = c.reported ?? c.values;
  for (let i = index; i >= 0 && i > index - 8; i--) {
    const v = values[i];
    if (v !== null && v !== undefined) return v;
  }
  return undefined;
}

function describe(p: Props, format: (v: number | undefined) => string): string {
  const last = p.x.length - 1;
  if (last < 0) return `${p.name}: no values yet`;
  const parts = p.curves.map((c) => `${c.label} ${format(valueAt(c, last))}`);
  return `${p.name}, at ${p.across ?? "observation"} ${count(p.x[last] ?? 0)}: ${parts.join(", ")}`;
}

function table(x: number[], curves: Curve[], logarithmic: boolean): uPlot.AlignedData {
  // A logarithm has no place for 0.
  const drawn = curves.map((c) => logarithmic ? c.values.map((v) => (v !== null && v > 0 ? v : null)) : c.values);
  return [x, ...drawn];
}

/** Swatch shows the line of a curve, so that a legend does not speak by colour alone. */
function Swatch({ curve }: { curve: Curve }) {
  return (
    <svg class="swatch" width="22" height="10" aria-hidden="true">
      {curve.filled
        ? <rect x="4" y="0" width="14" height="10" rx="2" fill={`var(${curve.colour})`} />
        : <line x1="1" y1="5" x2="21" y2="5" stroke={`var(${curve.colour})`} stroke-width="2" stroke-dasharray={curve.dash?.join(" ")} />}
    </svg>
  );
}

/** Values are the values of a plot as a table, for those who do not see it. */
function Values(p: Props) {
  const [open, setOpen] = useState(false);
  return (
    <details class="values" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Values<span class="unseen"> of {p.name}</span></summary>
      {open && (
        <div class="scroll" tabIndex={0} role="group" aria-label={`Values of ${p.name}`}>
          <table>
            <thead>
              <tr><th scope="col">{p.across ?? "observation"}</th>{p.curves.map((c) => <th scope="col" key={c.label}>{c.label}</th>)}</tr>
            </thead>
            <tbody>
              {p.x.map((x, i) => (
                <tr key={x}>
                  <th scope="row">{count(x)}</th>
                  {p.curves.map((c) => <td key={c.label}>{figure((c.reported ?? c.values)[i] ?? undefined)}</td>)}
                </tr>
              )).reverse()}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}

function options(
  p: Props, host: HTMLElement, marks: { current: Mark[] }, point: (index: number | undefined) => void,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const font = `11px ${style.getPropertyValue("--sans")}`;
  const axis = { stroke: colour("--muted"), font, ticks: { show: false }, grid: { stroke: colour("--grid"), width: 1 } };
  const range = p.range;
  const tick = p.tick ?? short;
  return {
    width: Math.max(host.clientWidth, NARROWEST),
    height: p.height ?? HEIGHT,
    padding: [8, 22, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      points: { size: 6 },
      ...(p.group ? { sync: { key: p.group, scales: ["x", null] } } : {}),
    },
    scales: {
      x: { time: false },
      y: {
        ...(p.logarithmic ? { distr: 3 } : {}),
        ...(range ? { range: () => range } : {}),
      },
    },
    axes: [
      { ...axis, size: 26, gap: 4, values: (_, ticks) => ticks.map((v) => (Number.isInteger(v) ? compact(v) : "")) },
      { ...axis, size: 52, gap: 4, values: (_, ticks) => ticks.map((v) => (v === null ? "" : tick(v))) },
    ],
    series: [
      {},
      ...p.curves.map((c): uPlot.Series => ({
        label: c.label,
        stroke: colour(c.colour),
        width: c.filled ? 0 : 1.5,
        points: p.dots ? { show: true, size: 4 } : { show: false },
        spanGaps: false,
        ...(c.dash ? { dash: c.dash } : {}),
        ...(c.filled ? { fill: colour(c.colour) } : {}),
      })),
    ],
    hooks: {
      setCursor: [(u) => point(u.cursor.idx ?? undefined)],
      draw: [(u) => drawMarks(u, marks.current, colour("--worse"), colour("--better"))],
    },
  };
}

/** drawMarks draws the detected changes: a line, and an arrow where the loss rose or fell. */
function drawMarks(u: uPlot, marks: Mark[], rise: string, fall: string): void {
  const { ctx, bbox } = u;
  const dot = devicePixelRatio;
  ctx.save();
  for (const m of marks) {
    const x = Math.round(u.valToPos(m.x, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = m.rise ? rise : fall;
    ctx.lineWidth = dot;
    ctx.setLineDash([2 * dot, 3 * dot]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const tip = m.rise ? bbox.top : bbox.top + 7 * dot;
    const foot = m.rise ? bbox.top + 7 * dot : bbox.top;
    ctx.beginPath();
    ctx.moveTo(x, tip);
    ctx.lineTo(x - 4 * dot, foot);
    ctx.lineTo(x + 4 * dot, foot);
    ctx.fill();
  }
  ctx.restore();
}
