import { useMemo, useState } from "preact/hooks";
import type { Model, OutcomeEvent } from "../../api/types";
import { Plot, type Curve, type Level } from "../../charts/plot";
import { placesOf } from "../../charts/series";
import { count, figure, level, number, plural } from "../../format";
import { Panel } from "../../ui/parts";
import { SetAsideText } from "./gate";
import { dimensionOf, inputsOf, kindOf, type Kind } from "./input";
import { MAX_INPUTS, sendsInputs } from "./live";

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

/** The inputs that a residual is drawn along. Lists and texts have no place on an axis. */
const DRAWN: Kind[] = ["numeric", "boolean", "categorical", "time"];

/** Residuals shows by how much each newest label is above its prediction, along one input: the model has not learned what leans or fans out. */
export function Residuals({ model, outcomes }: { model: Model; outcomes: OutcomeEvent[] }) {
  const inputs = inputsOf(model);
  const names = inputs.length > 0 ? inputs.filter((i) => DRAWN.includes(kindOf(i))).map((i) => i.name) : Array.from({ length: dimensionOf(model) }, (_, i) => `x[${i}]`);
  const [chosen, choose] = useState<string>();
  const name = chosen ?? names[0] ?? "";
  const input = inputs.find((i) => i.name === name), kind = input ? kindOf(input) : "numeric";
  const { x, residuals, categories, missing } = useMemo(() => residualsOf(outcomes, name, kind), [outcomes, name, kind]);
  const curves = useMemo((): Curve[] => [{ label: "label − prediction", colour: "--model", values: residuals }], [residuals]);
  return (
    <Panel title="Residuals by input" aside={
      <select aria-label="Input" value={name} onChange={(e) => choose(e.currentTarget.value)}>{names.map((n) => <option key={n}>{n}</option>)}</select>}
    >
      {!sendsInputs(model)
        ? <p class="note">A model with more than {MAX_INPUTS} inputs does not send them here.</p>
        : x.length < 2
          ? <p class="note">{ARRIVING}</p>
          : <Plot
              name={`Residuals by ${name}`} up="label − prediction" {...(kind === "time" ? { time: true } : { along: name })}
              x={x} curves={curves} levels={EXACT} dots="alone" {...(categories ? { names: categories } : {})}
            />}
      {missing > 0 && <p class="note">{plural(missing, "observation")} without a value of {name} {missing === 1 ? "is" : "are"} not drawn.</p>}
    </Panel>
  );
}

const EXACT: Level[] = [{ at: 0, label: "0: exact", colour: "--mean" }];

/** residualsOf are the residuals in the order of an input. Categories stand at 0, 1, … in the order of their texts. */
function residualsOf(outcomes: OutcomeEvent[], name: string, kind: Kind): { x: number[]; residuals: number[]; categories: string[] | undefined; missing: number } {
  const index = /^x\[(\d+)\]$/.exec(name)?.[1];
  const pairs = outcomes.flatMap((e) => {
    const at = predictionOf(e), label = e.labels?.[0];
    const value: unknown = e.inputs ? (e.inputs as Record<string, unknown>)[name] : index === undefined ? undefined : e.features?.[Number(index)];
    return at === null || label === undefined || e.outcome?.setAside || value === undefined ? [] : [[value, label - at] as const];
  });
  const known = pairs.filter(([value]) => value !== null);
  const categories = kind === "categorical" ? [...new Set(known.map(([value]) => String(value)))].sort() : undefined;
  const place = (value: unknown): number => (categories ? categories.indexOf(String(value)) : kind === "time" ? Date.parse(String(value)) / 1000 : Number(value));
  const sorted = known.map(([value, residual]) => [place(value), residual] as const).sort((a, b) => a[0] - b[0]);
  return { x: sorted.map(([at]) => at), residuals: sorted.map(([, residual]) => residual), categories, missing: pairs.length - known.length };
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
