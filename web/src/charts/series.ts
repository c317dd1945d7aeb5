import type { History, HistoryPoint, IntervalStats, Stats } from "../api/types";
import { number } from "../format";
import uPlot from "uplot";
import type { Curve, Level } from "./plot";

/** Smoothing is over how many observations a mean loss is taken. */
export type Smoothing = "points" | "recent" | "whole";

/** RECENT is what the recent figures of GetModelStats are taken over, nearly. */
export const RECENT = 1000;

/** placesOf are the places of points on the x axis: their sequences, or the seconds since 1970. */
export function placesOf(points: { sequence?: number | string; time?: string }[], time: boolean): number[] {
  return points.map((p) => (time ? Date.parse(p.time ?? "") / 1000 : number(p.sequence)));
}

/**
 * means answers the mean of a figure over the observations behind each point. A point has
 * the sum since the point before; whole points are taken, so that the recent mean is over
 * the fewest points that have RECENT observations.
 */
export function means(sums: (number | null)[], weights: number[], smoothing: Smoothing): (number | null)[] {
  const wanted = { points: 1, recent: RECENT, whole: Infinity }[smoothing];
  return sums.map((_, i) => {
    // Each window is summed anew: one sum that is subtracted from would keep the rounding errors of large losses.
    let sum = 0;
    let weight = 0;
    for (let k = i; k >= 0 && weight < wanted; k--) {
      if (sums[k] !== null) {
        sum += sums[k] ?? 0;
        weight += weights[k] ?? 0;
      }
      if (smoothing === "points") break;
    }
    return weight > 0 ? sum / weight : null;
  });
}

/** Evaluated are the figures of a model over some observations. */
type Evaluated = Partial<Pick<HistoryPoint, "performance" | "classes">>;

/** figureOf reads one figure. */
type figureOf<P> = (p: P) => number | undefined;

type Look = Omit<Curve, "values">;

/** ended puts the figure of the newest statistics at the end of a curve, so that a plot ends at the figure of the table. */
function ended(values: (number | null)[], end: number | undefined): (number | null)[] {
  return end === undefined || values.length === 0 ? values : [...values.slice(0, -1), end];
}

function curve<P>(points: P[], weights: number[], smoothing: Smoothing, read: figureOf<P>, look: Look, end?: number): Curve | undefined {
  const values = points.map((p) => read(p));
  if (values.every((v) => v === undefined)) return undefined;
  const sums = values.map((v, i) => (v === undefined ? null : v * (weights[i] ?? 0)));
  return { ...look, values: ended(means(sums, weights, smoothing), end) };
}

const present = (curves: (Curve | undefined)[]): Curve[] => curves.filter((c) => c !== undefined);

/** newestOf are the figures that statistics have over what a smoothing takes the mean of. */
function newestOf(stats: Stats | undefined, smoothing: Smoothing): Evaluated {
  if (!stats || smoothing === "points") return {};
  const of = smoothing === "recent" ? "recent" : "performance";
  return { performance: stats[of], classes: stats.classes?.[of] } as Evaluated;
}

/** losses are the mean losses of a model and of the trivial predictors. The last values come from the statistics. */
export function losses(points: HistoryPoint[], smoothing: Smoothing, stats?: Stats): Curve[] {
  const weights = points.map((p) => number(p.performance?.observations)), newest = newestOf(stats, smoothing);
  const at = (read: figureOf<Evaluated>, look: Look): Curve | undefined => curve(points, weights, smoothing, read, look, read(newest));
  const served = (p: Evaluated): number | undefined => p.performance?.served && number(p.performance.served.meanLoss);
  const prequential = (p: Evaluated): number | undefined => p.performance?.prequential && number(p.performance.prequential.meanLoss);
  const differ = points.some((p) => served(p) !== prequential(p));
  return present([
    at((p) => p.performance?.served?.lastLabelLoss, { label: "last label", colour: "--last", dash: [2, 3] }),
    at((p) => p.performance?.served?.runningMeanLoss, { label: "running mean", colour: "--mean", dash: [6, 3] }),
    differ ? at(prequential, { label: "prequential", colour: "--prequential", dash: [8, 3, 2, 3] }) : undefined,
    at(served, { label: "served", colour: "--model" }),
  ]);
}

/** errors are the error rates of a classifier and of the trivial predictors. The last values come from the statistics. */
export function errors(points: HistoryPoint[], smoothing: Smoothing, stats?: Stats): Curve[] {
  const weights = points.map((p) => number(p.classes?.observations)), newest = newestOf(stats, smoothing);
  const at = (read: figureOf<Evaluated>, look: Look): Curve | undefined => curve(points, weights, smoothing, read, look, read(newest));
  return present([
    at((p) => p.classes?.served && number(p.classes.served.lastClassErrorRate), { label: "last class", colour: "--last", dash: [2, 3] }),
    at((p) => p.classes?.served && number(p.classes.served.majorityErrorRate), { label: "most frequent class", colour: "--mean", dash: [6, 3] }),
    at((p) => p.classes?.served && number(p.classes.served.errorRate), { label: "served", colour: "--model" }),
  ]);
}

/** skills are 1 − loss / the smaller loss of the trivial predictors over the same observations, of a classifier with errors. */
export function skills(points: HistoryPoint[], smoothing: Smoothing, stats?: Stats): Curve[] {
  const newest = newestOf(stats, smoothing);
  const skill = (side: "served" | "prequential", look: Look): Curve | undefined => {
    const all = points.map((p): { losses: [number, number, number]; evaluated: number } | undefined => {
      const c = p.classes?.[side], f = p.performance?.[side];
      if (c) return { losses: [number(c.errorRate), number(c.majorityErrorRate), number(c.lastClassErrorRate)], evaluated: number(p.classes?.observations) };
      if (f?.runningMeanLoss === undefined || f.lastLabelLoss === undefined) return undefined;
      return { losses: [number(f.meanLoss), f.runningMeanLoss, f.lastLabelLoss], evaluated: number(p.performance?.observations) };
    });
    if (all.every((one) => one === undefined)) return undefined;
    const weights = all.map((one) => one?.evaluated ?? 0);
    const [model, mean, last] = ([0, 1, 2] as const).map((k) => means(all.map((one) => (one ? one.losses[k] * one.evaluated : null)), weights, smoothing));
    const values = points.map((_, i) => {
      const loss = model?.[i], better = Math.min(mean?.[i] ?? 0, last?.[i] ?? 0);
      return typeof loss === "number" && better > 0 ? 1 - loss / better : null;
    });
    return { ...look, values: ended(values, (newest.classes ?? newest.performance)?.[side]?.skill) };
  };
  const prequential = skill("prequential", { label: "prequential", colour: "--prequential", dash: [8, 3, 2, 3] });
  const served = skill("served", { label: "served", colour: "--model" });
  const differ = prequential?.values.some((v, i) => v !== served?.values[i]);
  return present([differ ? prequential : undefined, served]);
}

/** The colours of the predictors that ignore the inputs. */
const TRIVIAL = ["--last", "--mean"];

const isTrivial = (c: Curve): boolean => TRIVIAL.includes(c.colour);

/** DWARFED is how many times the loss of a model a baseline has, so that a linear axis no longer shows the model. */
const DWARFED = 20;

/** dwarfed reports whether a trivial predictor loses so much more than the model that the axis has to be logarithmic. */
export function dwarfed(curves: Curve[]): boolean {
  // The mean of the logarithms: a few large losses at the start do not hide what follows.
  const mean = ({ values }: Curve): number => {
    const logs = values.flatMap((v) => (typeof v === "number" && v > 0 ? [Math.log(v)] : []));
    return logs.reduce((sum, v) => sum + v, 0) / logs.length;
  };
  const served = curves.find((c) => c.colour === "--model");
  return served !== undefined && curves.some((c) => isTrivial(c) && mean(c) > mean(served) + Math.log(DWARFED));
}

/** beside puts the curves of another model, named and in another colour, over the union of both x. */
export function beside(
  x: number[], curves: Curve[], other: { id: string; x: number[]; curves: Curve[] } | undefined,
): { x: number[]; curves: Curve[] } {
  const compared = other?.curves.filter((c) => c.colour === "--model") ?? [];
  if (!other || compared.length === 0 || other.x.length === 0) return { x, curves };
  const all = [...curves, ...compared.map((c): Curve => ({ ...c, label: `${other.id}, ${c.label}`, colour: "--other" }))];
  const [places, ...values] = uPlot.join([[x, ...curves.map((c) => c.values)], [other.x, ...compared.map((c) => c.values)]]);
  return { x: [...places], curves: all.map((c, i) => ({ ...c, values: [...(values[i] ?? [])] })) };
}

export function regrets(points: HistoryPoint[]): Curve[] {
  const column = (read: figureOf<HistoryPoint>): (number | null)[] => points.map((p) => read(p) ?? null);
  const regret = column((p) => p.regret);
  const bound = column((p) => p.regretBound);
  return present([
    bound.some((v) => v !== null && v !== 0) ? { label: "bound", colour: "--mean", dash: [6, 3], values: bound } : undefined,
    regret.some((v) => v !== null) ? { label: "regret, prequential", colour: "--model", values: regret } : undefined,
  ]);
}

export function dictionaries(points: HistoryPoint[]): Curve[] {
  const values = points.map((p) => p.dictionary ?? null);
  return values.some((v) => v !== null) ? [{ label: "centres", colour: "--model", values }] : [];
}

const TOP = 8;

/**
 * stack is the weights of the experts: a curve for each of the experts with the largest mean weights, and one for
 * the rest. A layer is drawn at the sum of its weight and the weights below, and reported by its weight.
 */
export function stack(history: History): Curve[] {
  const points = history.points ?? [];
  const names = history.experts ?? [];
  const mean = names.map((_, n) => points.reduce((sum, p) => sum + number(p.expertWeights?.[n]), 0));
  const order = names.map((_, n) => n).sort((a, b) => number(mean[b]) - number(mean[a]));
  const weight = (experts: number[]): (number | null)[] => points.map((p) =>
    p.expertWeights?.length ? experts.reduce((sum, n) => sum + number(p.expertWeights?.[n]), 0) : null);
  const layers = order.slice(0, TOP).map((n, k) => ({ label: names[n] ?? "", colour: `--layer-${k + 1}`, reported: weight([n]) }));
  // A history has the first 64 experts. The weights of all are 1.
  const first = weight(order.slice(0, TOP));
  if (order.length > TOP) layers.push({ label: "others", colour: "--layer-rest", reported: first.map((v) => (v === null ? null : Math.max(0, 1 - v))) });
  // The first layer is at the top: its curve is the sum of all. Later curves are drawn over it.
  const below = points.map(() => 0);
  const curves: Curve[] = [];
  for (const layer of [...layers].reverse()) {
    const values = layer.reported.map((v, i) => (v === null ? null : (below[i] = number(below[i]) + v)));
    curves.unshift({ ...layer, values, filled: true });
  }
  return curves;
}

const LEVEL_COLOURS = ["--model", "--mean", "--last", "--prequential"];
const LEVEL_DASHES = [undefined, [6, 3], [2, 3], [8, 3, 2, 3]];

/** nominal are the levels that the shares of labels inside are to have. */
export function nominal(levels: number[], label: (v: number) => string): Level[] {
  return levels.map((at, k) => ({ at, label: `${label(at)} intended`, colour: LEVEL_COLOURS[k % LEVEL_COLOURS.length] ?? "--model" }));
}

/** coverages are the shares of labels inside the intervals of each level. The last values come from the statistics of one output. */
export function coverages(points: HistoryPoint[], levels: number[], label: (v: number) => string, intervals: IntervalStats[]): Curve[] {
  const counts = points.map((p) => number(p.performance?.observations));
  return present(levels.map((wanted, k) => {
    const dash = LEVEL_DASHES[k % LEVEL_DASHES.length];
    return curve(points, counts, "recent", (p) => p.realised?.[k], {
      label: label(wanted), colour: LEVEL_COLOURS[k % LEVEL_COLOURS.length] ?? "--model", ...(dash ? { dash } : {}),
    }, intervals.length === levels.length ? intervals[k]?.recent : undefined);
  }));
}
