import { useMemo, useState } from "preact/hooks";
import { getHistory, listModels } from "../../api/client";
import type { HistoryPoint, Model, Stats } from "../../api/types";
import { Plot, type Curve, type Level, type Mark } from "../../charts/plot";
import { beside, coverages, dictionaries, dwarfed, errors, losses, nominal, placesOf, regrets, skills, stack, type Smoothing } from "../../charts/series";
import { compact, count, level, number, percent, short } from "../../format";
import { useLoad } from "../../ui/load";
import { Choice, Failure, Pair, Panel } from "../../ui/parts";
import type { Live } from "./live";
import { DriftText } from "./tables";

const SMOOTHINGS = [["recent", "Last 1000"], ["points", "Each point"], ["whole", "From the start"]] as const;
const AXES = [["rounds", "Rounds"], ["time", "Clock time"]] as const;

const TRIVIAL: Level[] = [{ at: 0, label: "0: as good as trivial", colour: "--mean" }];
const WHOLE: [number, number] = [0, 1];
const whole = (v: number | undefined): string => (v === undefined ? "–" : count(Math.round(v)));

/** View is how the plots of a model are drawn: along which axis, and back to when. */
export interface View {
  axis: "rounds" | "time";
  range: Range;
}

type Range = "all" | "hour" | "day" | "week";

/** RANGES are the last seconds of the model's life that are drawn. */
const RANGES: Record<Range, { text: string; seconds: number }> = {
  hour: { text: "1 h", seconds: 3600 }, day: { text: "1 d", seconds: 86_400 }, week: { text: "7 d", seconds: 604_800 }, all: { text: "All", seconds: Infinity },
};

/** useView answers what the plots share: their x axis, the place where they begin, and the fields that change both. */
function useView(points: HistoryPoint[], { axis, range }: View, set: (v: View) => void) {
  const time = axis === "time";
  const at = useMemo(() => placesOf(points, true), [points]);
  const [first = 0] = at, last = at[at.length - 1] ?? 0;
  const begin = points.find((_, i) => (at[i] ?? 0) >= last - RANGES[range].seconds);
  const ranges = (Object.keys(RANGES) as Range[]).filter((r) => r === "all" || r === range || RANGES[r].seconds < last - first);
  const fields = (
    <>
      {ranges.length > 1 && <Choice label="Time range" value={range} options={ranges.map((r) => [r, RANGES[r].text] as const)} choose={(r) => set({ axis, range: r })} />}
      <Choice label="Along" value={axis} options={AXES} choose={(a) => set({ axis: a, range })} />
    </>
  );
  return { time, fields, shared: { group: "sequence", time, ...(begin && range !== "all" ? { from: placesOf([begin], time)[0] ?? 0 } : {}) } };
}

const NO_POINTS: HistoryPoint[] = [];

/** Curves are the plots of how good the model is. */
export function Curves({ live, model, stats, view, set }: { live: Live; model: Model; stats: Stats; view: View; set: (v: View) => void }) {
  const history = live.history.value;
  const [smoothing, setSmoothing] = useState<Smoothing>("recent");
  // Until the reader chooses, the losses decide.
  const [chosen, setLogarithmic] = useState<boolean>();
  const [other, setOther] = useState("");
  const second = useLoad(async (signal) => (other ? { id: other, history: await getHistory(other, signal) } : undefined), [other]);
  const classifier = model.spec?.classes !== undefined;

  const points = history?.points ?? NO_POINTS;
  const { time, fields, shared } = useView(points, view, set);
  const marks = useMemo((): Mark[] => (history?.drifts ?? []).map((d) => ({ x: placesOf([d], time)[0] ?? 0, rise: d.rise ?? false })), [history, time]);
  const { skill, loss } = useMemo(() => {
    const draw = (of: HistoryPoint[], now?: Stats): Curve[] => (classifier ? errors(of, smoothing, now) : losses(of, smoothing, now));
    const drawn = withNow(points, stats, time), add = second.value?.history.points ?? [];
    const compared = (curves: Curve[]) => second.value && { id: second.value.id, x: placesOf(add, time), curves };
    return {
      loss: beside(drawn.x, draw(drawn.points, stats), compared(draw(add))),
      skill: beside(drawn.x, skills(drawn.points, smoothing, stats), compared(skills(add, smoothing))),
    };
  }, [points, stats, time, smoothing, classifier, second.value]);
  const logarithmic = chosen ?? dwarfed(loss.curves);
  const levels = model.spec?.coverage ?? [];
  const inside = useMemo(() => {
    const drawn = withNow(points, stats, time);
    return { x: drawn.x, curves: coverages(drawn.points, levels, level, stats.intervals ?? []) };
  }, [points, stats, time]);
  const regret = useMemo(() => {
    const drawn = withNow(points, stats, time), add = second.value?.history.points ?? [];
    return beside(drawn.x, regrets(drawn.points), second.value && { id: second.value.id, x: placesOf(add, time), curves: regrets(add) });
  }, [points, stats, time, second.value]);
  return (
    <>
      <Failure error={live.history.error ?? second.error} />
      <div class="view">
        {fields}
        <Choice label="Mean over" value={smoothing} options={SMOOTHINGS} choose={setSmoothing} />
        <Beside model={model} set={setOther} />
      </div>
      <Pair>
        <Panel title="Skill">
          <Plot name="Skill" up="skill" {...shared} {...skill} marks={marks} levels={TRIVIAL} within={skillAxis(skill.curves)} />
          <DriftText drift={stats.drift} />
        </Panel>
        <Panel title={classifier ? "Error rate" : "Loss"} aside={
          <label class="check"><input type="checkbox" checked={logarithmic} onChange={(e) => setLogarithmic(e.currentTarget.checked)} />Log scale</label>}
        >
          <Plot
            name={classifier ? "Error rate" : "Mean loss"} up={classifier ? "error rate" : "mean loss"} {...shared} {...loss}
            marks={marks} logarithmic={logarithmic}
          />
        </Panel>
        {inside.curves.length > 0 && (
          <Panel title="Labels inside the intervals">
            <Plot
              name="Share of labels inside the intervals, over the last 1000" up="share inside" {...shared} {...inside} levels={nominal(levels, level)}
              within={WHOLE} format={percent} tick={level}
            />
          </Panel>
        )}
        <Panel title="Regret">
          {regret.curves.length > 0
            ? <Plot name="Regret" up="regret" {...shared} {...regret} />
            : <p class="note">It is not known: this learner does not track it, or still measures the scale of its inputs.</p>}
        </Panel>
      </Pair>
    </>
  );
}

/** skillAxis is the part of the skills that is drawn. A first skill far below 0 is not; the newest one always is. */
function skillAxis(curves: Curve[]): [number, number] {
  const newest = curves.map((c) => c.values.findLast((v) => typeof v === "number") ?? 0);
  return [Math.min(-1, ...newest.map((v) => 1.2 * v)), 1];
}

/** Shares are the plots of what the model is made of. */
export function Shares({ live, stats, view, set }: { live: Live; stats: Stats; view: View; set: (v: View) => void }) {
  const history = live.history.value;
  const points = history?.points ?? NO_POINTS;
  const { time, fields, shared } = useView(points, view, set);
  const x = useMemo(() => placesOf(points, time), [points, time]);
  const stacked = useMemo(() => (history ? stack(history) : []), [history]);
  const centres = useMemo(() => {
    const drawn = withNow(points, stats, time);
    return { x: drawn.x, curves: dictionaries(drawn.points) };
  }, [points, stats, time]);
  if (stacked.length === 0 && centres.curves.length === 0) return <Failure error={live.history.error} />;
  return (
    <>
      <Failure error={live.history.error} />
      <div class="view">{fields}</div>
      {stacked.length > 0 && (
        <Panel title="Weights of the experts">
          <Plot name="Weights of the experts" up="sum of weights" {...shared} x={x} curves={stacked} range={WHOLE} format={short} />
        </Panel>
      )}
      {centres.curves.length > 0 && (
        <Panel title="Dictionary"><Plot name="Dictionary centres" up="centres" {...shared} {...centres} format={whole} tick={compact} /></Panel>
      )}
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

/** withNow adds the newest statistics to the points, or to the newest point if it is as new: some learners have regrets in statistics alone. */
function withNow(points: HistoryPoint[], { observations, regret, regretBound, dictionary }: Stats, time: boolean): { x: number[]; points: HistoryPoint[] } {
  const last = points[points.length - 1];
  const ahead = number(last?.sequence) - number(observations);
  const now = { sequence: observations, time: new Date().toISOString(), regret, regretBound, dictionary } as unknown as HistoryPoint;
  const newest = last && ahead === 0 ? [...points.slice(0, -1), { ...now, ...last }] : points;
  const all = ahead < 0 ? [...points, now] : newest;
  return { x: placesOf(all, time), points: all };
}
