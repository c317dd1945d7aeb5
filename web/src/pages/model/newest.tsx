import { useMemo } from "preact/hooks";
import type { OutcomeEvent } from "../../api/types";
import { Plot, type Curve } from "../../charts/plot";
import { placesOf } from "../../charts/series";
import { count, figure, level, number } from "../../format";
import { Panel } from "../../ui/parts";
import { SetAsideText } from "./gate";

/** ARRIVING says what fills the plots of the newest observations. */
const ARRIVING = "What is observed from now on, while this page is open, appears here.";

/** Scatter shows each newest label against its prediction: on the dashed line both are equal. */
export function Scatter({ outcomes }: { outcomes: OutcomeEvent[] }) {
  const { x, curves } = useMemo(() => {
    const pairs = outcomes.flatMap((e) => {
      const at = predictionOf(e), label = e.labels?.[0];
      return at === null || label === undefined || e.outcome?.setAside ? [] : [[at, label] as const];
    }).sort((a, b) => a[0] - b[0]);
    const places = pairs.map(([at]) => at);
    return { x: places, curves: [
      { label: "equal", colour: "--mean", dash: [6, 3], values: places }, { label: "label", colour: "--model", values: pairs.map(([, label]) => label) },
    ] };
  }, [outcomes]);
  return (
    <Panel title="Labels against predictions">
      {x.length < 2
        ? <p class="note">{ARRIVING}</p>
        : <Plot name="Labels against predictions" up="label" along="prediction" x={x} curves={curves} dots="alone" />}
    </Panel>
  );
}

/** predictionOf is the served prediction of the first output, the prequential one where none was served. */
function predictionOf({ outcome: o }: OutcomeEvent): number | null {
  return o?.servedPrediction ?? o?.servedPredictions?.[0] ?? o?.prediction ?? o?.predictions?.[0] ?? null;
}

const BANDS = ["--band-1", "--band-2", "--band-3"];

/** Newest shows the observations since the page was opened, beside the served predictions and their intervals. */
export function Newest({ outcomes, classifier, time }: { outcomes: OutcomeEvent[]; classifier: boolean; time: boolean }) {
  const x = useMemo(() => placesOf(outcomes.map((e) => ({ sequence: number(e.outcome?.sequence), ...(e.time ? { time: e.time } : {}) })), time), [outcomes, time]);
  const curves = useMemo((): Curve[] => {
    if (classifier) return [{ label: "recent error rate, served", colour: "--model", values: outcomes.map((e) => e.outcome?.recentLoss ?? null) }];
    return [
      ...bandsOf(outcomes),
      { label: "label", colour: "--mean", dash: [6, 3], values: outcomes.map((e) => (e.outcome?.setAside ? null : e.labels?.[0] ?? null)) },
      { label: "prediction", colour: "--model", values: outcomes.map(predictionOf) },
    ];
  }, [outcomes, classifier]);
  const omitted = outcomes.reduce((sum, e) => sum + number(e.omitted), 0);
  return (
    <Panel title="Newest observations">
      {outcomes.length === 0
        ? <p class="note">{ARRIVING}</p>
        : <Plot name="Newest observations" up={classifier ? "error rate" : "label"} time={time} x={x} curves={curves} format={figure} dots={outcomes.length < 60} />}
      <SetAsideText outcomes={outcomes} />
      {omitted > 0 && <p class="note">{count(omitted)} more came in between: the server sends at most 10 a second here.</p>}
    </Panel>
  );
}

/** bandsOf are the served intervals of the first output, the widest first. An observation without a prediction leaves a gap. */
function bandsOf(outcomes: OutcomeEvent[]): Curve[] {
  const levels = [...new Set(outcomes.flatMap((e) => (e.intervals ?? []).map((i) => number(i.coverage))))].sort((a, b) => b - a);
  return levels.map((wanted, k) => {
    const of = outcomes.map((e) => e.intervals?.find((i) => number(i.coverage) === wanted));
    return {
      label: `${level(wanted)} interval, served`, colour: BANDS[k % BANDS.length] ?? "",
      values: of.map((i) => i?.upper ?? i?.uppers?.[0] ?? null), lower: of.map((i) => i?.lower ?? i?.lowers?.[0] ?? null),
    };
  });
}
