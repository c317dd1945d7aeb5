import type { ClassPerformance, Performance, Stats } from "../../api/types";
import { bytes, count, figure, level, number, percent, short } from "../../format";
import { Light, Num, Scroll } from "../../ui/parts";
import { Th, Word } from "../../ui/word";

/** skillOf is the recent served skill, which the traffic light shows. */
export function skillOf(stats: Stats): number | undefined {
  return stats.classes ? stats.classes.recent?.served?.skill : stats.recent?.served?.skill;
}

/** Tiles are the most important figures. */
export function Tiles({ stats }: { stats: Stats }) {
  const classes = stats.classes?.recent?.served;
  const served = stats.recent?.served;
  const interval = stats.intervals?.[stats.intervals.length - 1];
  return (
    <dl class="tiles" aria-label="Figures">
      <div>
        <dt><Word of={classes ? "ClassFigures.errorRate" : "PerformanceFigures.meanLoss"}>{classes ? "Recent error rate" : "Recent loss"}, served</Word></dt>
        <dd><Num name="recentLoss" value={classes ? number(classes.errorRate) : served && number(served.meanLoss)} /></dd>
      </div>
      {served?.rmse !== undefined && <div><dt><Word of="PerformanceFigures.rmse">Recent RMSE, served</Word></dt><dd><Num name="recentRmse" value={served.rmse} /></dd></div>}
      <div><dt><Word of={classes ? "ClassFigures.skill" : "PerformanceFigures.skill"}>Recent skill, served</Word></dt><dd><Num name="recentSkill" value={skillOf(stats)} /></dd></div>
      <div><dt><Word of="ModelStats.regret">Regret, prequential</Word></dt><dd><Num name="regret" value={stats.regret} /></dd></div>
      <div>
        <dt><Word of="ModelStats.regretBound">{stats.certified ? "Guarantee" : "Guarantee, not certified"}</Word></dt>
        <dd><Num name="regretBound" value={number(stats.regretBound) === 0 ? undefined : number(stats.regretBound)} /></dd>
      </div>
      {interval && (
        <div><dt><Word of="IntervalStats.recent">Inside {level(number(interval.coverage))}</Word></dt><dd><Num name="coverage" value={interval.recent ?? interval.realised} write={percent} /></dd></div>
      )}
      <div><dt><Word of="ModelStats.pendingLabels">Pending labels</Word></dt><dd><Num name="pendingLabels" value={number(stats.pendingLabels)} write={count} /></dd></div>
      <div><dt><Word of="ModelStats.stateBytes">State</Word></dt><dd><Num name="stateBytes" value={number(stats.stateBytes)} write={bytes} /></dd></div>
    </dl>
  );
}

/** PerformanceTable shows the model beside the trivial predictors. */
export function PerformanceTable({ stats }: { stats: Stats }) {
  const c = stats.classes;
  if (c) {
    return (
      <Scroll label="Performance">
        <table>
          <thead><tr><th scope="col">Error rate</th><Heads of="ClassFigures" heads={[
            ["errorRate", "model"], ["majorityErrorRate", "most frequent"], ["lastClassErrorRate", "last class"], ["logLoss", "log loss"], ["brierScore", "Brier"], ["skill", "skill"], [],
          ]} /></tr></thead>
          <tbody>
            <ClassRows name="All rounds" at="classes.performance" p={c.performance} />
            <ClassRows name="Last 1000" at="classes.recent" p={c.recent} />
          </tbody>
        </table>
      </Scroll>
    );
  }
  const units = stats.performance?.prequential?.rmse !== undefined;
  return (
    <Scroll label="Performance">
      <table>
        <thead><tr><th scope="col">Mean loss</th><Heads of="PerformanceFigures" heads={[
          ["meanLoss", "model"], ["runningMeanLoss", "running mean"], ["lastLabelLoss", "last label"], ["skill", "skill"], [], ...(units ? [["rmse", "RMSE"], ["mae", "MAE"]] : []),
        ]} /></tr></thead>
        <tbody>
          <Rows name="All rounds" at="performance" p={stats.performance} units={units} />
          <Rows name="Last 1000" at="recent" p={stats.recent} units={units} />
        </tbody>
      </table>
    </Scroll>
  );
}

/** Heads are the heads of the columns of figures: each its field and its word, none above the verdict. */
function Heads({ of, heads }: { of: string; heads: string[][] }) {
  return <>{heads.map(([field, text]) => (field ? <Th of={`${of}.${field}`} key={field}>{text}</Th> : <th key="none"><span class="unseen">verdict</span></th>))}</>;
}

/** SIDES are the kinds of predictions. Every loss and skill names its kind. */
const SIDES = ["prequential", "served"] as const;

/** Side names a line: its rounds and the kind of its predictions. */
function Side({ name, side, observations }: { name: string; side: (typeof SIDES)[number]; observations: number }) {
  return (
    <th scope="row">
      {side === "served"
        ? <span class="indent"><span class="unseen">{name} </span><Word of="Performance.served">served</Word></span>
        : <>{name} <small>{count(observations)}</small> <Word of="Performance.prequential">prequential</Word></>}
    </th>
  );
}

function Rows({ name, at, p, units }: { name: string; at: string; p: Performance | undefined; units: boolean }) {
  return (
    <>
      {SIDES.map((side) => {
        const f = p?.[side];
        return (
          <tr key={side} class={side === "served" ? "second" : ""}>
            <Side name={name} side={side} observations={Math.round(number(p?.observations))} />
            <td class="right"><Num name={`${at}.${side}.meanLoss`} value={f && number(f.meanLoss)} /></td>
            <td class="right"><Num name={`${at}.${side}.runningMeanLoss`} value={f?.runningMeanLoss} /></td>
            <td class="right"><Num name={`${at}.${side}.lastLabelLoss`} value={f?.lastLabelLoss} /></td>
            <td class="right"><Num name={`${at}.${side}.skill`} value={f?.skill} write={short} /></td>
            <td><Light skill={f?.skill} /></td>
            {units && <td class="right"><Num name={`${at}.${side}.rmse`} value={f?.rmse} /></td>}
            {units && <td class="right"><Num name={`${at}.${side}.mae`} value={f?.mae} /></td>}
          </tr>
        );
      })}
    </>
  );
}

function ClassRows({ name, at, p }: { name: string; at: string; p: ClassPerformance | undefined }) {
  return (
    <>
      {SIDES.map((side) => {
        const f = p?.[side];
        return (
          <tr key={side} class={side === "served" ? "second" : ""}>
            <Side name={name} side={side} observations={number(p?.observations)} />
            <td class="right"><Num name={`${at}.${side}.errorRate`} value={f && number(f.errorRate)} /></td>
            <td class="right"><Num name={`${at}.${side}.majorityErrorRate`} value={f && number(f.majorityErrorRate)} /></td>
            <td class="right"><Num name={`${at}.${side}.lastClassErrorRate`} value={f && number(f.lastClassErrorRate)} /></td>
            <td class="right"><Num name={`${at}.${side}.logLoss`} value={f && number(f.logLoss)} /></td>
            <td class="right"><Num name={`${at}.${side}.brierScore`} value={f && number(f.brierScore)} /></td>
            <td class="right"><Num name={`${at}.${side}.skill`} value={f?.skill} write={short} /></td>
            <td><Light skill={f?.skill} /></td>
          </tr>
        );
      })}
    </>
  );
}

/** ROWS are the single figures of GetModelStats, by the names of its fields. */
const ROWS: readonly [keyof Stats, string, "count" | "figure" | "bytes"][] = [
  ["observations", "Observations", "count"], ["lossSum", "Sum of losses, prequential", "figure"], ["meanLoss", "Mean loss, prequential", "figure"],
  ["hindsightLoss", "Loss in hindsight", "figure"], ["regret", "Regret, prequential", "figure"], ["servedRegret", "Regret, served", "figure"],
  ["regretUnpenalized", "Regret without penalty", "figure"], ["certificate", "Certificate, prequential", "figure"],
  ["servedCertificate", "Certificate, served", "figure"], ["regretBound", "Guarantee, prequential", "figure"],
  ["logDeterminant", "log det(A / λ)", "figure"], ["effectiveDimension", "Effective dimension", "figure"],
  ["parametricShare", "Share of the parametric part", "figure"], ["recoding", "Recoding", "figure"],
  ["labelBound", "Largest |label|", "figure"], ["features", "Features", "count"], ["dictionary", "Dictionary centres", "count"],
  ["servedObservations", "Served observations", "count"], ["servedLossSum", "Sum of losses, served", "figure"],
  ["pendingLabels", "Pending labels", "count"], ["snapshotSequence", "Newest snapshot at", "count"], ["stateBytes", "State", "bytes"],
];

/** OF_THEOREM are the fields that are 0 for a learner without a theorem. They are hidden then. */
const OF_THEOREM: readonly (keyof Stats)[] = ["certificate", "regretBound", "logDeterminant", "snapshotSequence"];

const WRITE = { count, figure, bytes };

/** AllFigures shows every single figure of GetModelStats. */
export function AllFigures({ stats }: { stats: Stats }) {
  return (
    <dl class="list">
      {ROWS.filter(([field]) => stats[field] !== undefined && !(OF_THEOREM.includes(field) && number(stats[field] as number | string) === 0)).map(([field, text, kind]) => (
        <div key={field}><dt><Word of={`ModelStats.${field}`}>{text}</Word></dt><dd><Num name={field} value={number(stats[field] as number)} write={WRITE[kind]} /></dd></div>
      ))}
      <div><dt><Word of="ModelStats.certified">Certified, prequential</Word></dt><dd>{stats.certified ? "yes, the guarantee is proved" : "no"}</dd></div>
      {stats.certificateOk !== undefined && <div><dt><Word of="ModelStats.certificateOk">Certificate holds</Word></dt><dd>{stats.certificateOk ? "yes" : "no: the state is corrupt"}</dd></div>}
      <div><dt><Word of="ModelStats.durability">Durability</Word></dt><dd>{stats.durability || "–"}</dd></div>
      {stats.stateDigest && <div class="long"><dt><Word of="ModelStats.stateDigest">State digest</Word></dt><dd><code>{stats.stateDigest}</code></dd></div>}
    </dl>
  );
}
