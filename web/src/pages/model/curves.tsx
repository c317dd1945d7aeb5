import { useMemo, useState } from "preact/hooks";
import { getHistory, listModels } from "../../api/client";
import type { FamilyPart, History, HistoryPoint, Model, OutcomeEvent, Stats } from "../../api/types";
import { Plot, type Curve, type Level, type Mark } from "../../charts/plot";
import { beside, coverages, dictionaries, dwarfed, errors, losses, nominal, placesOf, regrets, skills, stacks, type Smoothing } from "../../charts/series";
import { compact, count, figure, level, number, percent, short } from "../../format";
import { useLoad } from "../../ui/load";
import { Choice, Failure, Pair, Panel } from "../../ui/parts";
import { SetAsideText } from "./gate";
import type { Live } from "./live";
import { DriftText, Families } from "./tables";

const SMOOTHINGS = [["recent", "Last 1000"], ["points", "Each point"], ["whole", "From the start"]] as const;
const AXES = [["rounds", "Rounds"], ["time", "Clock time"]] as const;

const TRIVIAL: Level[] = [{ at: 0, label: "0: as good as trivial", colour: "--mean" }];
const SKILLS: [number, number] = [-1, 1];
const WHOLE: [number, number] = [0, 1];
const whole = (v: number | undefined): string => (v === undefined ? "–" : count(Math.round(v)));

/** Curves are the plots of the model's life. */
export function Curves({ live, model, stats }: { live: Live; model: Model; stats: Stats }) {
  const history = live.history.value;
  const [smoothing, setSmoothing] = useState<Smoothing>("recent");
  const [axis, setAxis] = useState<"rounds" | "time">("rounds");
  // Until the reader chooses, the losses decide.
  const [chosen, setLogarithmic] = useState<boolean>();
  const [other, setOther] = useState("");
  const second = useLoad(async (signal) => (other ? { id: other, history: await getHistory(other, signal) } : undefined), [other]);
  const time = axis === "time";
  const classifier = model.spec?.classes !== undefined;

  const points = useMemo(() => history?.points ?? [], [history]);
  const x = useMemo(() => placesOf(points, time), [points, time]);
  const marks = useMemo((): Mark[] => (history?.drifts ?? []).map((d) => ({ x: placesOf([d], time)[0] ?? 0, rise: d.rise ?? false })), [history, time]);
  const { skill, loss } = useMemo(() => {
    const draw = (of: HistoryPoint[]): Curve[] => (classifier ? errors(of, smoothing) : losses(of, smoothing));
    const own = draw(points), add = second.value?.history.points ?? [];
    const compared = (curves: Curve[]) => second.value && { id: second.value.id, x: placesOf(add, time), curves };
    return {
      loss: beside(x, own, compared(draw(add))),
      skill: beside(x, skills(points, smoothing), compared(skills(add, smoothing))),
    };
  }, [points, x, smoothing, classifier, second.value]);
  const logarithmic = chosen ?? dwarfed(loss.curves);
  const levels = model.spec?.coverage ?? [];
  const inside = useMemo(() => coverages(points, levels, level), [points]);
  const regret = useMemo(() => {
    const own = withNow(regrets, points, stats, time), add = second.value?.history.points ?? [];
    return beside(own.x, own.curves, second.value && { id: second.value.id, x: placesOf(add, time), curves: regrets(add) });
  }, [points, stats, time, second.value]);
  const dictionary = useMemo(() => withNow(dictionaries, points, stats, time), [points, stats, time]);
  const stacked = useMemo(() => (history ? stacks(history) : []), [history]);
  const shared = { group: "sequence", time };
  return (
    <>
      <Failure error={live.history.error} />
      <Panel title="Skill" aside={
        <>
          <Beside model={model} set={setOther} />
          <Choice label="Along" value={axis} options={AXES} choose={setAxis} />
          <Choice label="Mean over" value={smoothing} options={SMOOTHINGS} choose={setSmoothing} />
        </>}
      >
        <Failure error={second.error} />
        <Plot name="Skill" up="skill" {...shared} {...skill} marks={marks} levels={TRIVIAL} within={SKILLS} height={240} />
        <DriftText drift={stats.drift} />
      </Panel>
      <Panel title={classifier ? "Error rate" : "Loss"} aside={
        <label class="check"><input type="checkbox" checked={logarithmic} onChange={(e) => setLogarithmic(e.currentTarget.checked)} />Log scale</label>}
      >
        <Plot
          name={classifier ? "Error rate" : "Mean loss"} up={classifier ? "error rate" : "mean loss"} {...shared} {...loss}
          marks={marks} logarithmic={logarithmic} height={240}
        />
      </Panel>
      <Pair>
        <Newest outcomes={live.outcomes} classifier={classifier} time={time} />
        {inside.length > 0 && (
          <Panel title="Labels inside the intervals">
            <Plot
              name="Share of labels inside the intervals, over the last 1000" up="share inside" {...shared} x={x} curves={inside} levels={nominal(levels, level)}
              within={WHOLE} format={percent} tick={level}
            />
          </Panel>
        )}
        <Panel title="Regret">
          {regret.curves.length > 0
            ? <Plot name="Regret" up="regret" {...shared} {...regret} />
            : <p class="note">It is not known: this learner does not track it, or still measures the scale of its inputs.</p>}
        </Panel>
        {dictionary.curves.length > 0 && (
          <Panel title="Dictionary"><Plot name="Dictionary centres" up="centres" {...shared} {...dictionary} format={whole} tick={compact} /></Panel>
        )}
        {(stats.families ?? []).length > 0 && <Uses families={stats.families ?? []} history={history} />}
      </Pair>
      {stacked.map(({ name, curves }) => (
        <Panel title={name} key={name}>
          <Plot name={name} up="sum of weights" {...shared} x={x} curves={curves} range={WHOLE} format={short} />
        </Panel>
      ))}
    </>
  );
}

/** Beside asks for a model to draw into the same plots. */
function Beside({ model, set }: { model: Model; set: (id: string) => void }) {
  const [typed, setTyped] = useState("");
  const list = useLoad((signal) => listModels({ contains: typed, orderBy: "", pageSize: 20, pageToken: "", showDeleted: false }, signal), [typed]);
  return (
    <>
      <input
        class="beside-model" aria-label="Draw another model beside it" placeholder="Beside model…" list="beside-models" spellcheck={false} autocomplete="off"
        value={typed} onInput={(e) => setTyped(e.currentTarget.value)} onChange={(e) => set(e.currentTarget.value.trim())}
      />
      <datalist id="beside-models">{(list.value?.models ?? []).filter((m) => m.id !== model.id).map((m) => <option key={m.id} value={m.id} />)}</datalist>
    </>
  );
}

/** Uses shows what the predictions of auto are made of. */
function Uses({ families, history }: { families: FamilyPart[]; history: History | undefined }) {
  const weights = history?.points?.[history.points.length - 1]?.expertWeights ?? [];
  const names = history?.experts ?? [];
  const largest = weights.map((w, n) => [names[n] ?? "", w] as const).filter(([, w]) => w > 0).sort((a, b) => b[1] - a[1]).slice(0, 3);
  return (
    <Panel title="What auto uses">
      <Families families={families} />
      {largest.length > 0 && <p class="note">Of the experts inside, {largest.map(([name, w]) => `${name} (${short(w)})`).join(", ")} weigh most.</p>}
    </Panel>
  );
}

/** withNow extends curves to the newest statistics, which may be newer than the newest point. */
function withNow(
  draw: (points: HistoryPoint[]) => Curve[], points: HistoryPoint[], { observations, regret, regretBound, dictionary }: Stats, time: boolean,
): { x: number[]; curves: Curve[] } {
  const behind = number(observations) > number(points[points.length - 1]?.sequence);
  const now = { sequence: observations, time: new Date().toISOString(), regret, regretBound, dictionary } as unknown as HistoryPoint;
  const all = behind ? [...points, now] : points;
  return { x: placesOf(all, time), curves: draw(all) };
}

/** Scatter shows each newest label against its prediction: on the dashed line both are equal. */
function Scatter({ outcomes }: { outcomes: OutcomeEvent[] }) {
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
  if (x.length < 2) return null;
  return <Plot name="Labels against predictions" up="label" along="prediction" x={x} curves={curves} dots="alone" />;
}

/** predictionOf is the served prediction of the first output, the prequential one where none was served. */
function predictionOf({ outcome: o }: OutcomeEvent): number | null {
  return o?.servedPrediction ?? o?.servedPredictions?.[0] ?? o?.prediction ?? o?.predictions?.[0] ?? null;
}

const BANDS = ["--band-1", "--band-2", "--band-3"];

/** Newest shows the observations since the page was opened, beside the served predictions and their intervals. */
function Newest({ outcomes, classifier, time }: { outcomes: OutcomeEvent[]; classifier: boolean; time: boolean }) {
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
        ? <p class="note">What is observed from now on appears here, with the intervals that were served.</p>
        : <Plot name="Newest observations" up={classifier ? "error rate" : "label"} time={time} x={x} curves={curves} format={figure} dots={outcomes.length < 60} />}
      {!classifier && <Scatter outcomes={outcomes} />}
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
