import { useMemo, useState } from "preact/hooks";
import type { Link } from "../api/events";
import { written } from "../api/exact";
import { Refusal } from "../api/refusal";
import { getAccess, grpcAddress, httpAddress } from "../api/session";
import type { HistoryPoint, Model, OutcomeEvent, Stats } from "../api/types";
import { Plot, type Curve, type Mark } from "../charts/plot";
import { coverages, dictionaries, errors, losses, regrets, sequences, stacks, type Smoothing } from "../charts/series";
import { compact, count, level, moment, number, percent, short } from "../format";
import { modelHref, modelsHref } from "../router";
import { useAdmin } from "../ui/admin";
import { useLoad } from "../ui/load";
import { Choice, Copy, Failure, Field, Light, Pair, Panel } from "../ui/parts";
import { Snapshots, Transfer } from "./model/actions";
import { AllFigures, PerformanceTable, Tiles, skillOf } from "./model/figures";
import { GateFigures, GateWarning, SetAsideText } from "./model/gate";
import { Latencies } from "./model/latency";
import { useLive, type Live } from "./model/live";
import { LANGUAGES, snippet, type Language } from "./model/snippets";
import { Aliases, Compared, Edit } from "./model/resource";
import { Classes, DriftText, Experts, Families, Importances, Inputs, Intervals, Reliability, Weights } from "./model/tables";
import { Try } from "./model/try";

const LINKS: Record<Link, string> = { connecting: "connecting…", live: "live", lost: "connection lost, trying again" };

/** ModelPage shows one model. */
export function ModelPage({ id }: { id: string }) {
  const live = useLive(id);
  const { model, stats } = live;
  if (!model.value) {
    return (
      <>
        <div class="heading"><h1>{id}</h1></div>
        {model.error === undefined ? <p class="note">Loading…</p> : <Failure error={model.error} />}
        {model.error instanceof Refusal && model.error.reason === "MODEL_NOT_FOUND" && (
          <p class="note">A deleted model that can be brought back is <a href={modelsHref(new URLSearchParams({ contains: id, deleted: "true" }))}>in the list of models</a>.</p>
        )}
      </>
    );
  }
  const begun = number(stats.value?.observations) > 0;
  return (
    <>
      <Heading model={model.value} live={live} />
      <Failure error={model.error ?? stats.error} />
      <GateWarning gate={stats.value?.labelGate} />
      {stats.value && <Tiles stats={stats.value} />}
      <Jumps begun={begun} />
      {stats.value && !begun && (
        <p class="empty">Nothing was observed yet. Predict and observe by hand, or copy a program that does both: they are below.</p>
      )}
      <div class="parts">
        {stats.value && begun && (
          <>
            <div class="parts-of" id="curves" tabIndex={-1}><Curves live={live} model={model.value} stats={stats.value} /></div>
            <div class="parts-of" id="figures" tabIndex={-1}><Tables stats={stats.value} model={model.value} /></div>
          </>
        )}
        <Compared model={model.value} />
        <div id="try" tabIndex={-1}><Try model={model.value} observed={() => { stats.again(); model.again(); }} /></div>
        <Pair>
          <Snippets model={model.value} />
          <Snapshots
            model={model.value} sequence={number(stats.value?.observations)} newest={number(stats.value?.snapshotSequence)} changed={live.again}
          />
          <Aliases model={model.value} changed={model.again} />
          <Panel title="Latency since the server started"><Latencies model={model.value.id} /></Panel>
          <Panel title="Spec" id="spec" aside={<Copy what="the spec" text={written(model.value.spec)} />}>
            <pre tabIndex={0} class="spec" aria-label="Spec as JSON">{written(model.value.spec)}</pre>
          </Panel>
          {stats.value && <Panel title="All figures"><AllFigures stats={stats.value} /></Panel>}
        </Pair>
      </div>
    </>
  );
}

const PARTS = [["curves", "Curves"], ["figures", "Figures"], ["try", "Predict and observe"], ["program", "Programs"], ["snapshots", "Snapshots"], ["spec", "Spec"]] as const;

/** Jumps go to the parts of the page. They are no links: the address is that of the page. */
function Jumps({ begun }: { begun: boolean }) {
  const jump = (id: string): void => {
    const part = document.getElementById(id);
    part?.scrollIntoView();
    part?.focus({ preventScroll: true });
  };
  const parts = begun ? PARTS : PARTS.slice(2);
  return (
    <nav class="jumps" aria-label="Parts of the page">
      {parts.map(([id, text]) => <button type="button" class="quiet small" key={id} onClick={() => jump(id)}>{text}</button>)}
    </nav>
  );
}

function Heading({ model, live }: { model: Model; live: Live }) {
  const admin = useAdmin();
  const stats = live.stats.value;
  const labels = Object.entries(model.labels ?? {});
  return (
    <div class="heading model">
      <div>
        <h1>{model.id}</h1>
        <p class="meta">
          {model.displayName && <span>{model.displayName}</span>}
          <span>{model.learner}</span>
          {stats && <Light skill={skillOf(stats)} />}
          {(model.aliases ?? []).map((a) => <span class="chip" key={a} title="alias">{a}</span>)}
          {labels.map(([k, v]) => <span class="chip" key={k}>{k}={v}</span>)}
          {model.follows && <span>follows <a href={modelHref(model.follows)}>{model.follows}</a></span>}
          <span>created {moment(model.createTime)}</span>
          <span class={`link link-${live.link}`} role="status">{LINKS[live.link]}</span>
        </p>
      </div>
      {admin && (
        <div class="actions">
          <Edit model={model} changed={live.model.again} />
          <Transfer model={model} />
        </div>
      )}
    </div>
  );
}

const SMOOTHINGS = [["recent", "Last 1000"], ["points", "Each point"], ["whole", "From the start"]] as const;

/** Curves are the plots of the model's life. */
function Curves({ live, model, stats }: { live: Live; model: Model; stats: Stats }) {
  const history = live.history.value;
  const [smoothing, setSmoothing] = useState<Smoothing>("recent");
  const [logarithmic, setLogarithmic] = useState(false);
  const points = useMemo(() => history?.points ?? [], [history]);
  const x = useMemo(() => sequences(points), [points]);
  const classifier = model.spec?.classes !== undefined;
  const loss = useMemo(() => (classifier ? errors(points, smoothing) : losses(points, smoothing)), [points, smoothing, classifier]);
  const marks = useMemo((): Mark[] => (history?.drifts ?? []).map((d) => ({ x: number(d.sequence), rise: d.rise ?? false })), [history]);
  const levels = model.spec?.coverage ?? [];
  const inside = useMemo(() => coverages(points, levels, level), [points]);
  const regret = useMemo(() => withNow(regrets, points, stats), [points, stats]);
  const dictionary = useMemo(() => withNow(dictionaries, points, stats), [points, stats]);
  const stacked = useMemo(() => (history ? stacks(history) : []), [history]);
  return (
    <>
      <Failure error={live.history.error} />
      <Panel title={classifier ? "Error rate" : "Loss"} aside={
        <>
          <Choice label="Mean over" value={smoothing} options={SMOOTHINGS} choose={setSmoothing} />
          <label class="check"><input type="checkbox" checked={logarithmic} onChange={(e) => setLogarithmic(e.currentTarget.checked)} />Log scale</label>
        </>}
      >
        <Plot name={classifier ? "Error rate" : "Mean loss"} group="sequence" x={x} curves={loss} marks={marks} logarithmic={logarithmic} height={240} />
        <DriftText drift={stats.drift} />
      </Panel>
      <Pair>
        <Panel title="Regret">
          {regret.curves.length > 0
            ? <Plot name="Regret" group="sequence" x={regret.x} curves={regret.curves} />
            : <p class="note">It is not known: this learner does not track it, or still measures the scale of its inputs.</p>}
        </Panel>
        {dictionary.curves.length > 0 && (
          <Panel title="Dictionary"><Plot name="Dictionary centres" group="sequence" x={dictionary.x} curves={dictionary.curves} format={whole} tick={compact} /></Panel>
        )}
        {inside.length > 0 && (
          <Panel title="Labels inside the intervals">
            <Plot name="Share of labels inside the intervals, over the last 1000" group="sequence" x={x} curves={inside} format={percent} tick={level} />
          </Panel>
        )}
        <Newest outcomes={live.outcomes} classifier={classifier} />
      </Pair>
      {stacked.map(({ name, curves }) => (
        <Panel title={name} key={name}>
          <Plot name={name} group="sequence" x={x} curves={curves} range={WHOLE} format={short} />
        </Panel>
      ))}
    </>
  );
}

const WHOLE: [number, number] = [0, 1];
const whole = (v: number | undefined): string => (v === undefined ? "–" : count(Math.round(v)));

/** withNow extends curves to the newest statistics, which may be newer than the newest point. */
function withNow(
  draw: (points: HistoryPoint[]) => Curve[], points: HistoryPoint[], { observations, regret, regretBound, dictionary }: Stats,
): { x: number[]; curves: Curve[] } {
  const behind = number(observations) > number(points[points.length - 1]?.sequence);
  const now = { sequence: number(observations), regret, regretBound, dictionary } as HistoryPoint;
  const all = behind ? [...points, now] : points;
  return { x: sequences(all), curves: draw(all) };
}

/** Newest shows the observations since the page was opened, beside the served predictions. */
function Newest({ outcomes, classifier }: { outcomes: OutcomeEvent[]; classifier: boolean }) {
  const x = useMemo(() => outcomes.map((e) => number(e.outcome?.sequence)), [outcomes]);
  const curves = useMemo(() => {
    if (classifier) return [{ label: "recent error rate, served", colour: "--model", values: outcomes.map((e) => e.outcome?.recentLoss ?? null) }];
    return [
      { label: "label", colour: "--mean", dash: [6, 3], values: outcomes.map((e) => (e.outcome?.setAside ? null : e.labels?.[0] ?? null)) },
      { label: "prediction", colour: "--model", values: outcomes.map((e) => e.outcome?.servedPrediction ?? e.outcome?.servedPredictions?.[0] ?? e.outcome?.prediction ?? e.outcome?.predictions?.[0] ?? null) },
    ];
  }, [outcomes, classifier]);
  const omitted = outcomes.reduce((sum, e) => sum + number(e.omitted), 0);
  return (
    <Panel title="Newest observations">
      {outcomes.length === 0
        ? <p class="note">What is observed from now on appears here.</p>
        : <Plot name="Newest observations" x={x} curves={curves} dots={outcomes.length < 60} />}
      <SetAsideText outcomes={outcomes} />
      {omitted > 0 && <p class="note">{count(omitted)} more came in between: the server sends at most 10 a second here.</p>}
    </Panel>
  );
}

/** Tables shows the figures that have several rows. */
function Tables({ stats, model }: { stats: Stats; model: Model }) {
  const outputs = model.spec?.outputs ?? 1;
  const { intervals = [], experts = [], families = [], inputs = [], weights: affine = [], classes, labelGate } = stats;
  return (
    <>
      <Panel title="Performance"><PerformanceTable stats={stats} /></Panel>
      {inputs.length > 0 && <Panel title="Inputs"><Inputs inputs={inputs} learned={model.inputs ?? []} /></Panel>}
      <Pair>
        {intervals.length > 0 && <Panel title="Intervals"><Intervals intervals={intervals} outputs={outputs} /></Panel>}
        {classes && <Panel title="Classes"><Classes classes={classes} /></Panel>}
        {classes && (classes.reliability ?? []).length > 0 && <Panel title="Reliability"><Reliability bins={classes.reliability ?? []} /></Panel>}
        {labelGate && <Panel title="Label gate"><GateFigures gate={labelGate} /></Panel>}
        {affine.length > 0 && <Panel title="Weights of the features"><Weights weights={affine} outputs={outputs} /></Panel>}
        {families.length > 0 && <Panel title="Families of experts"><Families families={families} /></Panel>}
        {families.length > 0 && <Panel title="Inputs that matter"><Importances model={model.id} /></Panel>}
        {experts.length > 0 && <Panel title="Experts"><Experts experts={experts} /></Panel>}
      </Pair>
    </>
  );
}

const GRPC = "hindsight.grpc";

/** Snippets shows programs that call the model. */
function Snippets({ model }: { model: Model }) {
  const [language, setLanguage] = useState<Language>("curl");
  // The server says where it listens. The address may differ behind a proxy.
  const access = useLoad(getAccess, []).value;
  const [typed, setTyped] = useState(() => localStorage.getItem(GRPC) ?? undefined);
  const grpc = typed ?? (access ? grpcAddress(access) : "");
  const text = snippet(language, model, { grpc, http: httpAddress(), tls: access?.tls ?? false, token: access?.tokens ?? false });
  // An empty address is not stored: the page shows that of the server again.
  const setGrpc = (address: string): void => {
    setTyped(address);
    if (address) localStorage.setItem(GRPC, address);
    else localStorage.removeItem(GRPC);
  };
  return (
    <Panel title="From a program" id="program" aside={<Choice label="Language" value={language} options={LANGUAGES} choose={setLanguage} />}>
      {language !== "curl" && (
        <Field label="gRPC address of the server">
          {(a) => <input {...a} class="code" spellcheck={false} value={grpc} onInput={(e) => setGrpc(e.currentTarget.value)} />}
        </Field>
      )}
      <div class="snippet"><pre tabIndex={0} aria-label={`Program in ${language}`}>{text}</pre><Copy text={text} what="the program" /></div>
    </Panel>
  );
}
