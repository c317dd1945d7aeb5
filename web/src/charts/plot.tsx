import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { compact, count, figure, moment, short } from "../format";
import { useTheme } from "../theme";
import { drawLevels, drawMarks, type Level, type Mark } from "./draw";

export type { Level, Mark } from "./draw";

/** Values are one per x. An undefined value is one that another curve's x asks for: the line goes on over it. */
export type Values = (number | null | undefined)[];

/** Curve is one line of a plot. */
export interface Curve {
  label: string;
  values: Values;
  /** The name of a custom property of the style sheet, such as --model. */
  colour: string;
  dash?: number[];
  /** The area below is filled. */
  filled?: boolean;
  /** The lower ends of a band, whose upper ends are the values. A band has no line. */
  lower?: Values;
  /** What the legend and the table tell, where it is not what is drawn. */
  reported?: Values;
}

interface Props {
  /** What screen readers call the plot. */
  name: string;
  x: number[];
  curves: Curve[];
  /** The place where the plot begins. */
  from?: number;
  marks?: Mark[];
  /** Horizontal lines. */
  levels?: Level[];
  /** x is the clock time, in seconds since 1970. */
  time?: boolean;
  /** What x is; without it x counts observations. */
  along?: string;
  /** The names of the places 0, 1, … on the x axis. */
  names?: string[];
  /** The title of the y axis. */
  up: string;
  /** Plots of the same group share the cursor. */
  group?: string;
  logarithmic?: boolean;
  /** The ends of the y axis; without them it follows the values. */
  range?: [number, number];
  /** The y axis follows the values between these ends. */
  within?: [number, number];
  format?: (v: number | undefined) => string;
  /** How the ticks of the y axis are written. */
  tick?: (v: number) => string;
  height?: number;
  /** Single values are drawn too; "alone" draws no line. */
  dots?: boolean | "alone";
}

const HEIGHT = 210;
const NARROWEST = 120;

/** Plot draws curves over x, with a legend that follows the cursor and a table of its values. */
export function Plot(whole: Props) {
  const drawn = useMemo(() => since(whole.x, whole.curves, whole.from), [whole.x, whole.curves, whole.from]);
  const p = { ...whole, ...drawn };
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const marks = useRef<Mark[]>([]);
  const [cursor, setCursor] = useState<number>();
  const [zoomed, setZoomed] = useState(false);
  const theme = useTheme();
  const format = p.format ?? figure;
  marks.current = p.marks ?? [];

  const data = useMemo(() => table(p.x, p.curves, p.logarithmic ?? false), [p.x, p.curves, p.logarithmic]);
  // A plot is created again only when its form changes.
  const form = JSON.stringify([
    p.curves.map((c) => [c.label, c.colour, c.dash, c.filled, c.lower !== undefined]),
    p.logarithmic, p.range, p.within, p.levels, p.time, p.along, p.names, p.up, p.group, p.height, p.dots, theme,
  ]);

  useEffect(() => {
    const host = box.current;
    if (!host) return;
    const u = new uPlot(options(p, host, marks, setCursor, setZoomed), data, host);
    plot.current = u;
    setZoomed(false);
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

  // The plots of a group are zoomed together.
  const showAll = (): void => {
    for (const u of p.group ? uPlot.sync(p.group).plots : [plot.current]) u?.setData(u.data, true);
  };
  const last = p.x.length - 1;
  const shown = cursor === undefined || cursor > last ? last : cursor;
  return (
    <div class="plot">
      <ul class="legend">
        {p.curves.map((c) => (
          <li key={c.label}>
            <Swatch curve={c} dot={p.dots === "alone" && !c.dash} />
            <span class="legend-label">{c.label}</span>
            <span class="legend-value">{textAt(c, shown, format)}</span>
          </li>
        ))}
        {(p.levels ?? []).map((l) => (
          <li key={l.label}><Swatch curve={{ label: l.label, values: [], colour: l.colour, dash: LEVEL_DASH }} /><span class="legend-label">{l.label}</span></li>
        ))}
        {last >= 0 && <li class="legend-x">{at(p, shown)}</li>}
        {zoomed && <li><button type="button" class="small" onClick={showAll}>Show all<span class="unseen"> of {p.name}</span></button></li>}
      </ul>
      <div
        ref={box} class="canvas" role="img" aria-label={describe(p, format)}
        data-points={p.x.length} data-last={p.x[last] ?? ""} data-marks={marks.current.length}
      />
      <Table {...p} />
    </div>
  );
}

/** since answers the part of the curves from a place on, of two points at least. */
function since(x: number[], curves: Curve[], from = -Infinity): { x: number[]; curves: Curve[] } {
  const begin = Math.min(x.findIndex((v) => v >= from), x.length - 2);
  if (begin <= 0) return { x, curves };
  const part = (c: Curve, of: "values" | "lower" | "reported") => (c[of] ? { [of]: c[of].slice(begin) } : {});
  return { x: x.slice(begin), curves: curves.map((c) => ({ ...c, ...part(c, "values"), ...part(c, "lower"), ...part(c, "reported") })) };
}

const across = (p: Props): string => p.along ?? (p.time ? "time" : "observation");

/** at names a place on the x axis. */
function at(p: Props, index: number): string {
  const x = p.x[index] ?? 0;
  if (p.along) return `${p.along} ${p.names?.[x] ?? figure(x)}`;
  return p.time ? moment(new Date(1000 * x).toISOString()) : `observation ${count(x)}`;
}

/** valueAt answers the value at an index, or the newest one before it. */
function valueAt(values: Values, index: number): number | undefined {
  for (let i = index; i >= 0; i--) {
    const v = values[i];
    if (v !== null && v !== undefined) return v;
  }
  return undefined;
}

/** textAt writes the value of a curve at an index, or the ends of a band. */
function textAt(c: Curve, index: number, format: (v: number | undefined) => string): string {
  const v = format(valueAt(c.reported ?? c.values, index));
  return c.lower ? `${format(valueAt(c.lower, index))} to ${v}` : v;
}

function describe(p: Props, format: (v: number | undefined) => string): string {
  const last = p.x.length - 1;
  if (last < 0) return `${p.name}: no values yet`;
  const parts = [...p.curves.map((c) => `${c.label} ${textAt(c, last, format)}`), ...(p.levels ?? []).map((l) => l.label)];
  return `${p.name}, at ${at(p, last)}: ${parts.join(", ")}`;
}

function table(x: number[], curves: Curve[], logarithmic: boolean): uPlot.AlignedData {
  // A logarithm has no place for 0.
  const drawn = (values: Values): Values => (logarithmic ? values.map((v) => (typeof v === "number" && v <= 0 ? null : v)) : values);
  return [x, ...curves.flatMap((c) => (c.lower ? [drawn(c.values), drawn(c.lower)] : [drawn(c.values)]))];
}

/** Swatch shows the line of a curve, so that a legend does not speak by colour alone. */
function Swatch({ curve, dot = false }: { curve: Curve; dot?: boolean }) {
  return (
    <svg class="swatch" width="22" height="10" aria-hidden="true">
      {curve.filled || curve.lower
        ? <rect x="4" y="0" width="14" height="10" rx="2" fill={`var(${curve.colour})`} />
        : dot ? <circle cx="11" cy="5" r="2.5" fill="none" stroke={`var(${curve.colour})`} />
        : <line x1="1" y1="5" x2="21" y2="5" stroke={`var(${curve.colour})`} stroke-width="2" stroke-dasharray={curve.dash?.join(" ")} />}
    </svg>
  );
}

/** Table shows the values of a plot, for those who do not see it. */
function Table(p: Props) {
  const [open, setOpen] = useState(false);
  return (
    <details class="values" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Values<span class="unseen"> of {p.name}</span></summary>
      {open && (
        <div class="scroll" tabIndex={0} role="group" aria-label={`Values of ${p.name}`}>
          <table>
            <thead>
              <tr><th scope="col">{across(p)}</th>{p.curves.map((c) => <th scope="col" key={c.label}>{c.label}</th>)}</tr>
            </thead>
            <tbody>
              {p.x.map((x, i) => (
                <tr key={i}>
                  <th scope="row">{p.time || p.along ? at(p, i) : count(x)}</th>
                  {p.curves.map((c) => <td key={c.label}>{c.lower && `${figure(c.lower[i] ?? undefined)} to `}{figure((c.reported ?? c.values)[i] ?? undefined)}</td>)}
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
  p: Props, host: HTMLElement, marks: { current: Mark[] }, point: (index: number | undefined) => void, zoom: (zoomed: boolean) => void,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const font = `11px ${style.getPropertyValue("--sans")}`;
  const axis = {
    stroke: colour("--muted"), font, ticks: { show: false }, grid: { stroke: colour("--grid"), width: 1 },
    labelFont: font, labelSize: 16, labelGap: 0, gap: 4,
  };
  const levels = p.levels ?? [];
  const rows = p.curves.flatMap((c) => (c.lower ? [c, { ...c, colour: "" }] : [c]));
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
      x: { time: p.time ?? false, ...(p.names ? { range: [-0.5, p.names.length - 0.5] as [number, number] } : {}) },
      y: p.logarithmic ? { distr: 3 } : { range: (_, low, high) => p.range ?? rangeOf(p, low, high) },
    },
    axes: [
      { ...axis, label: across(p), ...(p.time ? { size: 38, values: (_: uPlot, ticks: number[], _axis: number, _space: number, step: number) => clock(ticks, step) } : { size: 24, values: (_: uPlot, ticks: number[]) => ticks.map((v) => (p.names ? p.names[v] ?? "" : p.along ? short(v) : Number.isInteger(v) ? compact(v) : "")) }) },
      { ...axis, label: p.up, size: 52, values: (_, ticks) => ticks.map((v) => (v === null ? "" : tick(v))) },
    ],
    series: [
      {},
      ...rows.map((c): uPlot.Series => ({
        label: c.label,
        stroke: colour(c.colour),
        width: c.filled || c.lower || (p.dots === "alone" && !c.dash) ? 0 : 1.5,
        points: p.dots && !c.lower && !(p.dots === "alone" && c.dash) ? { show: true, size: 4, width: 1, stroke: colour(c.colour) } : { show: false },
        spanGaps: false,
        ...(c.dash ? { dash: c.dash } : {}),
        ...(c.filled ? { fill: colour(c.colour) } : {}),
      })),
    ],
    bands: rows.flatMap((c, i) => (c.lower && c.colour ? [{ series: [i + 1, i + 2] as [number, number], fill: colour(c.colour) }] : [])),
    hooks: {
      setCursor: [(u) => point(u.cursor.idx ?? undefined)],
      setScale: [(u, key) => {
        const { min, max } = u.scales["x"] ?? {};
        if (key === "x") zoom((min ?? 0) > (u.data[0][0] ?? 0) || (max ?? 0) < (u.data[0][u.data[0].length - 1] ?? 0));
      }],
      draw: [(u) => {
        drawLevels(u, levels, colour, LEVEL_DASH);
        drawMarks(u, marks.current, colour("--worse"), colour("--better"));
      }],
    },
  };
}

/** clock writes ticks as moment does: the clock below a day, with the date where it changes. */
function clock(ticks: number[], step: number): string[] {
  let shown = "";
  return ticks.map((v) => {
    const [date = "", time = ""] = moment(new Date(1000 * v).toISOString()).split(" ");
    if (step >= 86_400) return date;
    const text = `${step < 60 ? time : time.slice(0, 5)}${date === shown ? "" : `\n${date}`}`;
    shown = date;
    return text;
  });
}

const LEVEL_DASH = [2, 4];

/** rangeOf is the y axis that shows the values and the levels. */
function rangeOf(p: Props, low: number | null, high: number | null): uPlot.Range.MinMax {
  const at = [low, high, ...(p.levels ?? []).map((l) => l.at)].filter((v) => v !== null);
  if (at.length === 0) return [null, null];
  const [from, to] = uPlot.rangeNum(Math.min(...at), Math.max(...at), 0.1, true);
  const [lowest, highest] = p.within ?? [-Infinity, Infinity];
  return [Math.max(from ?? lowest, lowest), Math.min(to ?? highest, highest)];
}
