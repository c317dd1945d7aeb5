import { useEffect, useRef, useState } from "preact/hooks";
import { getHistory, getModel, getStats } from "../../api/client";
import { watch, type Link } from "../../api/events";
import type { History, HistoryPoint, Model, OutcomeEvent, Stats } from "../../api/types";
import { number } from "../../format";
import { useLoad, type Loaded } from "../../ui/load";
import { dimensionOf, inputsOf } from "./input";

/** The plot of the newest shows so many outcomes. */
const OUTCOMES = 300;
/** With this many points the page asks for the history again, which has fewer. */
const MAX_POINTS = 600;
/** How often the page draws at most. */
const FRAME = 200;
/** How often the page asks for all statistics, classes and categories of a model that learns. */
const WHOLE_STATS = 4000;

/** A model with more inputs does not send them with its outcomes: ten outcomes a second would be megabytes. */
export const MAX_INPUTS = 200;

/** sendsInputs reports whether the outcomes of a model have its inputs. */
export function sendsInputs(model: Model): boolean {
  return (inputsOf(model).length || dimensionOf(model)) <= MAX_INPUTS;
}

/** Live is a model with its statistics, kept up to date by its events. */
export interface Live {
  model: Loaded<Model>;
  stats: Loaded<Stats>;
  history: Loaded<History>;
  outcomes: OutcomeEvent[];
  link: Link;
  /** Asks for everything again, after a change of the model. */
  again: () => void;
}

export function useLive(id: string): Live {
  const model = useLoad((signal) => getModel(id, signal), [id]);
  const stats = useLoad((signal) => getStats(id, signal), [id]);
  const history = useLoad((signal) => getHistory(id, signal), [id]);
  const [outcomes, setOutcomes] = useState<OutcomeEvent[]>([]);
  const [link, setLink] = useState<Link>("connecting");
  const loaded = model.value !== undefined;

  const again = (): void => {
    model.again();
    stats.again();
    history.again();
  };
  const latest = useRef({ again, model, stats, history });
  latest.current = { again, model, stats, history };

  useEffect(() => {
    if (!loaded) return undefined;
    // Events are gathered and shown together.
    const gathered = gather((g) => {
      const { stats: newest } = g;
      if (newest) {
        stats.set((old) => merge(old, newest));
        whole ??= setTimeout(() => {
          whole = undefined;
          latest.current.stats.again();
          latest.current.model.again();
        }, WHOLE_STATS);
      }
      const point = g.points[0];
      if (point && missed(latest.current.history.value, point)) latest.current.history.again();
      if (point) history.set((old) => append(old, g.points));
      if (g.outcomes.length > 0) setOutcomes((old) => follow(old, g.outcomes));
    });
    let whole: ReturnType<typeof setTimeout> | undefined;
    let first = true;
    let lost = 0;
    const { value } = latest.current.model;
    const stop = watch(id, value !== undefined && sendsInputs(value), {
      outcome: (e) => gathered.add((g) => g.outcomes.push(e)),
      stats: (s) => gathered.add((g) => { g.stats = s; }),
      history: (p) => gathered.add((g) => g.points.push(p)),
      link: (l) => {
        // The page asks for what it missed. If the stream stays lost, the session may have ended
        // or the model may be deleted: the answer says which.
        if (l === "live" && !first) latest.current.again();
        lost = l === "lost" ? lost + 1 : 0;
        if (lost > 1) latest.current.model.again();
        if (l !== "connecting") first = false;
        setLink(l);
      },
    });
    return () => {
      stop();
      gathered.stop();
      clearTimeout(whole);
    };
  }, [id, loaded]);

  const points = history.value?.points?.length ?? 0;
  useEffect(() => {
    if (points > MAX_POINTS) history.again();
  }, [points > MAX_POINTS]);

  return { model, stats, history, outcomes, link, again };
}

interface Gathered {
  outcomes: OutcomeEvent[];
  points: HistoryPoint[];
  stats?: Stats;
}

function gather(show: (g: Gathered) => void): { add: (put: (g: Gathered) => void) => void; stop: () => void } {
  let g: Gathered = { outcomes: [], points: [] };
  let timer: ReturnType<typeof setTimeout> | undefined;
  return {
    add(put) {
      put(g);
      timer ??= setTimeout(() => {
        const full = g;
        g = { outcomes: [], points: [] };
        timer = undefined;
        show(full);
      }, FRAME);
    },
    stop: () => clearTimeout(timer),
  };
}

/** follow puts newer outcomes behind the old. A restored model has the same sequences again. */
function follow(old: OutcomeEvent[], newer: OutcomeEvent[]): OutcomeEvent[] {
  const from = number(newer[0]?.outcome?.sequence);
  return [...old.filter((e) => number(e.outcome?.sequence) < from), ...newer].slice(-OUTCOMES);
}

/** spanOf is how many observations a point has. */
function spanOf(p: HistoryPoint): number {
  return number(p.performance?.observations ?? p.classes?.observations);
}

/** missed reports whether observations lie between the history and the first of newer points. */
function missed(old: History | undefined, newer: HistoryPoint): boolean {
  const last = old?.points?.[old.points.length - 1];
  return number(newer.sequence) - spanOf(newer) > number(last?.sequence);
}

/** append puts newer points behind the old points and replaces the points of the same sequences. */
function append(old: History | undefined, newer: HistoryPoint[]): History | undefined {
  if (!old) return old;
  const points = [...(old.points ?? [])];
  for (const p of newer) {
    const from = number(p.sequence) - spanOf(p);
    while (points.length > 0 && number(points[points.length - 1]?.sequence) > from) points.pop();
    points.push(p);
  }
  return { ...old, points };
}

/**
 * merge takes newer statistics. Events leave out what is expensive to compute: it stays as it
 * was until the page asks for the statistics again. Another list that is left out is empty.
 */
function merge(old: Stats | undefined, newest: Stats): Stats {
  const present = Object.entries(newest).filter(([, v]) => v !== "" && (!Array.isArray(v) || v.length > 0));
  return { ...old, ...Object.fromEntries(present) } as Stats;
}
