import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { getAsked } from "../../api/client";
import type { ClassRanking, ClassStats, Drift, Expert, FamilyPart, FeatureWeight, InputStats, IntervalStats, KeyEffect, LearnedInput, ReliabilityBin } from "../../api/types";
import { count, days, figure, level, number, percent, short, utc } from "../../format";
import { Busy, Failure, Num, Scroll, useFew } from "../../ui/parts";
import { Th } from "../../ui/word";

export function Intervals({ intervals, outputs }: { intervals: IntervalStats[]; outputs: number }) {
  return (
    <Scroll label="Intervals">
      <table>
        <thead>
          <tr>
            <Th of="IntervalStats.coverage" left>Level</Th>{outputs > 1 && <th scope="col" class="right">Output</th>}
            <Th of="IntervalStats.realised">Inside</Th><Th of="IntervalStats.recent">Last 1000</Th><Th of="IntervalStats.least">Lowest of 500</Th>
            <Th of="IntervalStats.meanWidth">Mean width</Th><Th of="IntervalStats.meanScore">Score</Th>
          </tr>
        </thead>
        <tbody>
          {intervals.map((i) => (
            <tr key={`${i.coverage} ${i.output ?? 0}`}>
              <th scope="row">{level(number(i.coverage))}</th>{outputs > 1 && <td class="right">{i.output ?? 0}</td>}
              <td class="right"><Num name="realised" value={i.realised} write={percent} /></td>
              <td class="right"><Num value={i.recent} write={percent} /></td>
              <td class="right"><Num value={i.least} write={percent} /></td>
              <td class="right"><Num value={i.meanWidth} /></td>
              <td class="right"><Num value={i.meanScore} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

export function DriftText({ drift }: { drift: Drift | undefined }) {
  const detected = number(drift?.detected);
  if (!drift || detected === 0) return <p class="note">No change of the loss was detected.</p>;
  const rises = number(drift.rises);
  return (
    <p class="note">
      <strong data-name="drift.detected">{count(detected)}</strong> {detected === 1 ? "change" : "changes"} of the loss: {count(rises)} <span class="light-worse">▲ up</span>, {count(detected - rises)} <span class="light-better">▼ down</span>.
      {drift.lastChangeSequence !== undefined && (
        <> The newest at observation {count(number(drift.lastChangeSequence))}: from <Num value={drift.lossBefore} /> to <Num value={drift.lossAfter} />.</>
      )}
    </p>
  );
}

export function Experts({ experts }: { experts: Expert[] }) {
  const sorted = useMemo(() => [...experts].sort((a, b) => number(b.weight) - number(a.weight)), [experts]);
  const axis = axisOf(experts.map((e) => number(e.weight)));
  return (
    <Scroll label="Experts">
      <table class="tall">
        <thead><tr><th scope="col">Expert</th><Th of="Expert.weight" span={2}>Weight</Th><Th of="Expert.lossSum">Sum of losses</Th></tr></thead>
        <tbody>
          {sorted.map((e) => (
            <tr key={e.name}>
              <th scope="row">{e.name}{!e.awake && <small> asleep until its first observations</small>}</th>
              <Barred value={number(e.weight)} axis={axis} />
              <td class="right"><Num value={number(e.lossSum)} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

/** Families shows what each family of experts weighs in predictions, and what it says in one. */
export function Families({ families }: { families: FamilyPart[] }) {
  const said = families.some((f) => (f.contributions ?? []).length > 0);
  const numbers = (values: number[] | undefined) => (values ?? []).flatMap((v, j) => [j > 0 && " · ", <Num key={j} value={v} write={short} />]);
  const axis = axisOf(families.flatMap((f) => f.weights ?? []));
  return (
    <Scroll label="Families">
      <table>
        <thead><tr><th scope="col">Family</th><Th of="FamilyPart.weights" span={2}>Weight</Th>{said && <Th of="FamilyPart.contributions">Contribution</Th>}</tr></thead>
        <tbody>
          {families.map((f) => [
            <tr key={f.family}>
              <th scope="row">{f.family}</th>
              {f.weights?.length === 1 ? <Barred value={number(f.weights[0])} axis={axis} /> : <td class="right several" colSpan={2}>{numbers(f.weights)}</td>}
              {said && <td class="right several">{numbers(f.contributions)}</td>}
            </tr>,
            ...(f.keys ?? []).map((k) => (
              <tr key={`${f.family} ${k.input}`}><td>of {k.input}</td><td colSpan={2} /><td class="right">{numbers(k.contributions)}</td></tr>
            )),
          ])}
        </tbody>
      </table>
    </Scroll>
  );
}

/** Asked computes what the reader asks for with its button, and shows it. */
function Asked<T>({ says, of, children }: { says: string; of: () => Promise<T>; children: (found: T) => ComponentChildren }) {
  const [found, setFound] = useState<T>();
  const [error, setError] = useState<unknown>();
  const ask = async (): Promise<void> => {
    try {
      setFound(await of());
      setError(undefined);
    } catch (e) {
      setError(e);
    }
  };
  return (
    <>
      <div class="asked"><p class="note">{says}</p><Busy run={ask}>Compute</Busy></div>
      <Failure error={error} />
      <div role="status">{found !== undefined && children(found)}</div>
    </>
  );
}

/** Importances shows how much each input matters to the trees, once the reader asks. */
export function Importances({ model }: { model: string }) {
  return (
    <Asked says="How much the trees gain by each input." of={async () => (await getAsked(model, { includeImportances: true })).importances ?? []}>
      {(found) => found.length === 0 ? <p class="note">No tree has grown yet.</p> : (
        <Scroll label="Inputs of the trees">
          <table>
            <thead><tr><th scope="col">Input</th><Th of="InputImportance.permutation">Permutation</Th><Th of="InputImportance.gain" span={2}>Gain</Th></tr></thead>
            <tbody>
              {found.map((i) => (
                <tr key={i.input}>
                  <th scope="row">{i.input}</th>
                  <td class="right"><Num value={number(i.permutation)} write={short} /></td>
                  <Barred value={number(i.gain)} axis={axisOf(found.map((f) => number(f.gain)))} write={percent} />
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Asked>
  );
}

/** Missing shows what more features of the kernel could gain, once the reader asks. */
export function Missing({ model }: { model: string }) {
  return (
    <Asked says="What more features of the kernel could gain." of={() => getAsked(model, { includeRegretRkhs: true })}>
      {({ regretRkhs: rkhs, regret }) => rkhs === undefined ? <p class="note">This model cannot tell.</p> : (
        <p class="note">
          More features would gain at most <Num name="missing" value={rkhs - number(regret)} /> of the sum of losses: the regret against all
          functions of the kernel is at most <Num name="regretRkhs" value={rkhs} />. The bound is loose where many inputs are far from the features.
        </p>
      )}
    </Asked>
  );
}

/** RecentRegret shows the regret on the last observations, once the reader asks. */
export function RecentRegret({ model }: { model: string }) {
  return (
    <Asked says="On the newest observations alone. A copy of the model learns them again: in seconds, up to a minute." of={async () => (await getAsked(model, { includeRecentRegret: true })).recentRegret ?? []}>
      {(found) => found.length === 0 ? <p class="note">This model cannot tell.</p> : (
        <Scroll label="Recent regret">
          <table>
            <thead><tr><Th of="RecentRegret.observations" left>Last</Th><Th of="RecentRegret.lossSum">Sum of losses</Th><Th of="RecentRegret.hindsightLoss">Loss in hindsight</Th><Th of="RecentRegret.regret">Regret</Th></tr></thead>
            <tbody>
              {found.map((r) => (
                <tr key={r.observations}>
                  <th scope="row">{count(number(r.observations))}</th><td class="right"><Num value={number(r.lossSum)} /></td>
                  <td class="right"><Num value={number(r.hindsightLoss)} /></td><td class="right"><Num name="recentRegret" value={number(r.regret)} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Asked>
  );
}

/** Effects shows the largest effects of users, stores, devices and the like on the label. */
export function Effects({ effects, outputs }: { effects: KeyEffect[]; outputs: number }) {
  return (
    <Scroll label="Effects of keys">
      <table>
        <thead>
          <tr>
            <th scope="col">Input</th><th scope="col">Key</th>{outputs > 1 && <th scope="col" class="right">Output</th>}
            <Th of="KeyEffect.effect">Effect</Th><Th of="KeyEffect.observations">Observations</Th>
          </tr>
        </thead>
        <tbody>
          {effects.map((e) => (
            <tr key={`${e.input} ${e.category ?? ""} ${e.missing} ${e.output ?? 0}`}>
              <th scope="row">{e.input}</th><td>{e.category ?? <small>{e.missing ? "missing" : "forgotten"}</small>}</td>
              {outputs > 1 && <td class="right">{e.output ?? 0}</td>}
              <td class="right"><Num value={number(e.effect)} write={short} /></td><td class="right"><Num value={number(e.observations)} write={short} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

/** Ranking says how well probabilities tell the rarer of two classes from the other. */
export function Ranking({ ranking }: { ranking: ClassRanking }) {
  return (
    <p class="note">
      AUC <strong><Num name="ranking.auc" value={number(ranking.auc)} /></strong>. From the probability <Num value={number(ranking.threshold)} write={short} /> on, <strong>{ranking.class}</strong> has
      the best F1, <Num name="ranking.f1" value={number(ranking.f1)} write={short} />, with the precision <Num value={number(ranking.precision)} write={percent} /> and the recall <Num value={number(ranking.recall)} write={percent} />.
    </p>
  );
}

type Axis = [low: number, high: number];

/** axisOf is the axis of bars that are compared: from the smallest value, at most 0, to the largest. */
export function axisOf(values: number[]): Axis {
  return [Math.min(0, ...values), Math.max(0, ...values)];
}

/** Barred are the two cells of a number with its bar. All bars of a column stand on one axis. */
function Barred({ value, axis, write = short }: { value: number; axis: Axis; write?: (v: number) => string }) {
  return <><td class="barred"><Bar value={value} axis={axis} /></td><td class="right"><Num value={value} write={write} /></td></>;
}

const BAR = 60;

/** Bar shows a number beside others on its axis, from 0. */
export function Bar({ value, axis: [low, high] }: { value: number; axis: Axis }) {
  const at = (v: number): number => BAR * (v - low) / (high - low || 1);
  return (
    <svg class="bar" width={BAR} height="10" aria-hidden="true">
      <rect x={at(Math.min(value, 0))} y="1" width={Math.abs(at(value) - at(0))} height="8" />
      {low < 0 && <line x1={at(0)} x2={at(0)} y1="0" y2="10" />}
    </svg>
  );
}

export function Weights({ weights, outputs }: { weights: FeatureWeight[]; outputs: number }) {
  const [few, more] = useFew(weights, "weights");
  return (
    <>
      <Scroll label="Weights">
        <table>
          <thead>
            <tr>
              <th scope="col">Feature</th>{outputs > 1 && <th scope="col" class="right">Output</th>}
              <Th of="FeatureWeight.weight">Weight</Th><Th of="FeatureWeight.effect">Effect</Th>
            </tr>
          </thead>
          <tbody>
            {few.map((w) => (
              <tr key={`${w.feature ?? ""} ${w.output ?? 0}`}>
                <th scope="row">{w.feature || "constant"}</th>{outputs > 1 && <td class="right">{w.output ?? 0}</td>}
                <td class="right"><Num value={number(w.weight)} /></td><td class="right"><Num value={w.effect} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {more}
    </>
  );
}

/** An input whose InputStats.shift is larger has moved much. */
const MOVED = 0.1;
const MOVED_MUCH = 0.25;

function shiftText(shift: number | undefined): string {
  if (shift === undefined || shift <= MOVED) return "";
  return shift > MOVED_MUCH ? "moved by much" : "moved";
}

export function Inputs({ inputs, learned, times }: { inputs: InputStats[]; learned: LearnedInput[]; times: unknown[] }) {
  const known = new Map(learned.map((l) => [l.name, l.categories ?? []]));
  const [few, more] = useFew(inputs, "inputs");
  return (
    <>
      <Scroll label="Inputs">
        <table>
          <thead>
            <tr>
              <th scope="col">Input</th><Th of="InputStats.seen">Seen</Th><Th of="InputStats.missing">Missing</Th>
              <Th of="InputStats.outsideShare">Outside</Th><Th of="InputStats.low">Low</Th><Th of="InputStats.high">High</Th>
              <Th of="InputStats.mean">Mean</Th><Th of="InputStats.deviation">Deviation</Th><Th of="InputStats.shift">Shift</Th><th scope="col">Categories</th>
            </tr>
          </thead>
          <tbody>
            {few.map((i) => {
              const categories = known.get(i.name) ?? [];
              const shift = i.shift;
              const [write, span] = times.includes(i.name) ? [utc, days] : [figure, figure];
              return (
                <tr key={i.name}>
                  <th scope="row">{i.name}</th>
                  <td class="right"><Num value={number(i.seen)} write={count} /></td>
                  <td class="right"><Num value={number(i.missing)} write={count} /></td>
                  <td class="right"><Num value={number(i.outsideShare)} write={percent} /></td>
                  <td class="right"><Num value={i.low} write={write} /></td>
                  <td class="right"><Num value={i.high} write={write} /></td>
                  <td class="right"><Num value={i.mean} write={write} /></td>
                  <td class="right"><Num value={i.deviation} write={span} /></td>
                  <td class="right"><Num value={shift} write={short} />{shiftText(shift) && <div class="light-worse">▲ {shiftText(shift)}</div>}</td>
                  <td class="wrap" title={categories.map((c) => `${c.name} ${number(c.observations)}`).join(", ")}>
                    {categories.length > 0 ? `${categories.slice(0, 6).map((c) => c.name).join(", ")}${categories.length > 6 ? ` and ${categories.length - 6} more` : ""}` : i.categories ? count(i.categories) : ""}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
      {more}
    </>
  );
}

export function Classes({ classes }: { classes: ClassStats }) {
  return (
    <Scroll label="Classes">
      <table>
        <thead>
          <tr>
            <th scope="col">Class</th><Th of="ClassCounts.observed">Observed</Th><Th of="ClassCounts.predicted">Predicted</Th>
            <Th of="ClassCounts.expected">Expected</Th><th scope="col" class="right">Found</th><th scope="col" class="right">Missed</th><th scope="col" class="right">Error rate</th>
          </tr>
        </thead>
        <tbody>
          {(classes.classes ?? []).map((c) => {
            const observed = number(c.observed);
            const errors = number(c.errors);
            return (
              <tr key={c.class}>
                <th scope="row">{c.class}</th>
                <td class="right"><Num name={`class.${c.class}.observed`} value={observed} write={count} /></td>
                <td class="right"><Num value={number(c.predicted)} write={count} /></td>
                <td class="right"><Num value={number(c.expected)} /></td>
                <td class="right"><Num value={observed - errors} write={count} /></td>
                <td class="right"><Num name={`class.${c.class}.errors`} value={errors} write={count} /></td>
                <td class="right"><Num value={observed > 0 ? errors / observed : undefined} write={percent} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Scroll>
  );
}

const SIDE = 190;
const EDGE = 26;

/** Reliability shows how often classes were observed beside their predicted probability. */
export function Reliability({ bins }: { bins: ReliabilityBin[] }) {
  const seen = bins.filter((b) => number(b.members) > 0);
  const largest = Math.max(1, ...seen.map((b) => number(b.members)));
  const at = (v: number): number => EDGE + v * (SIDE - EDGE - 6);
  const up = (v: number): number => SIDE - EDGE - v * (SIDE - EDGE - 6);
  const points = seen.map((b) => [number(b.predicted), number(b.found), number(b.members)] as const);
  return (
    <div class="reliability">
      <svg viewBox={`0 0 ${SIDE} ${SIDE}`} role="img" aria-label="Reliability: found beside predicted probability; the diagonal is exact">
        {[0, 0.5, 1].map((v) => (
          <g key={v}>
            <line class="grid" x1={at(v)} x2={at(v)} y1={up(0)} y2={up(1)} /><line class="grid" x1={at(0)} x2={at(1)} y1={up(v)} y2={up(v)} />
            <text x={at(v)} y={SIDE - 12} text-anchor="middle">{v}</text><text x={EDGE - 4} y={up(v) + 3} text-anchor="end">{v}</text>
          </g>
        ))}
        <line class="diagonal" x1={at(0)} y1={up(0)} x2={at(1)} y2={up(1)} />
        <polyline points={points.map(([x, y]) => `${at(x)},${up(y)}`).join(" ")} />
        {points.map(([x, y, n]) => <circle key={x} cx={at(x)} cy={up(y)} r={2 + 3 * Math.sqrt(n / largest)}><title>{`predicted ${percent(x)}, found ${percent(y)}, ${count(n)} times`}</title></circle>)}
      </svg>
      <Scroll label="Reliability">
        <table>
          <thead><tr><th scope="col">Probability</th><Th of="ReliabilityBin.members">Times</Th><Th of="ReliabilityBin.predicted">Predicted</Th><th scope="col" class="right">Found</th></tr></thead>
          <tbody>
            {bins.map((b) => (
              <tr key={number(b.low)}>
                <th scope="row">{short(number(b.low))}–{short(number(b.high))}</th>
                <td class="right"><Num value={number(b.members)} write={count} /></td>
                <td class="right"><Num value={b.predicted} write={percent} /></td>
                <td class="right"><Num value={b.found} write={percent} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </div>
  );
}
