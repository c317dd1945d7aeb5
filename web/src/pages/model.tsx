import { useState } from "preact/hooks";
import type { Link } from "../api/events";
import { Rejection } from "../api/rejection";
import { getAccess, grpcAddress, httpAddress } from "../api/session";
import type { Model, Stats } from "../api/types";
import { count, moment, number } from "../format";
import { TABS, modelHref, modelsHref, replace, type Tab } from "../router";
import { useMay } from "../ui/may";
import { useLoad } from "../ui/load";
import { Choice, Copy, Failure, Field, Light, Num, Pair, Panel } from "../ui/parts";
import { Snapshots, Transfer } from "./model/actions";
import { Curves, Shares, type View } from "./model/curves";
import { AllFigures, PerformanceTable, Tiles, skillOf } from "./model/figures";
import { GateFigures, GateWarning } from "./model/gate";
import { Latencies } from "./model/latency";
import { useLive, type Live } from "./model/live";
import { Newest, Residuals, Scatter } from "./model/newest";
import { LANGUAGES, snippet, type Language } from "./model/snippets";
import { Aliases, Compared, Edit } from "./model/resource";
import { Classes, Effects, Experts, Families, Importances, Inputs, Intervals, Missing, Ranking, RecentRegret, Reliability, Weights } from "./model/tables";
import { Try } from "./model/try";

const LINKS: Record<Link, string> = { connecting: "connecting…", live: "connected", lost: "connection lost, trying again" };

/** ModelPage shows one part of a model. */
export function ModelPage({ id, tab }: { id: string; tab: Tab }) {
  const live = useLive(id);
  const [view, setView] = useState<View>({ axis: "rounds", range: "all" });
  const { model, stats } = live;
  if (!model.value) {
    return (
      <>
        <div class="heading"><h1>{id}</h1></div>
        {model.error === undefined ? <p class="note">Loading…</p> : <Failure error={model.error} />}
        {model.error instanceof Rejection && model.error.reason === "MODEL_NOT_FOUND" && (
          <p class="note">A deleted model that can be brought back is <a href={modelsHref(new URLSearchParams({ contains: id, deleted: "true" }))}>in the list of models</a>.</p>
        )}
      </>
    );
  }
  const parts = { live, model: model.value, stats: stats.value, view, setView };
  const begun = number(stats.value?.observations) > 0;
  return (
    <>
      <Heading model={model.value} live={live} />
      <Failure error={model.error ?? stats.error} />
      <GateWarning gate={stats.value?.labelGate} />
      <Tabs id={model.value.id} tab={tab} />
      {tab !== "try" && (
        <div class="parts" role="tabpanel" id="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={-1}>
          {tab === "operate" ? <Operate {...parts} /> : stats.value && (begun ? <Learned {...parts} stats={stats.value} tab={tab} /> : <Empty model={model.value} tab={tab} />)}
          {tab === "uses" && <SpecPanel model={model.value} />}
        </div>
      )}
      {/* What is typed stays while another part is shown. */}
      <div class="parts" role="tabpanel" id="tabpanel-try" aria-labelledby="tab-try" tabIndex={-1} hidden={tab !== "try"}>
        <Try model={model.value} observed={() => { stats.again(); model.again(); }} />
        <Snippets model={model.value} />
      </div>
    </>
  );
}

/** Tabs lead to the parts of a model's page. They are links, so that an address names a part. */
function Tabs({ id, tab }: { id: string; tab: Tab }) {
  const press = (e: KeyboardEvent & { currentTarget: HTMLElement }): void => {
    const tabs = [...e.currentTarget.children] as HTMLAnchorElement[];
    const at = tabs.findIndex((t) => t === e.target), last = tabs.length - 1;
    const next = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[e.key];
    if (next === undefined) return;
    e.preventDefault();
    tabs[next]?.focus();
    // A tab passed by an arrow key leaves no entry in the history of the browser.
    replace(modelHref(id, TABS[next]?.[0]));
  };
  return (
    <div class="tabs" role="tablist" aria-label="Parts of the page" onKeyDown={press}>
      {TABS.map(([t, text]) => (
        <a
          role="tab" key={t} id={`tab-${t}`} href={modelHref(id, t)} aria-selected={t === tab} tabIndex={t === tab ? 0 : -1}
          aria-controls={t === "try" ? "tabpanel-try" : t === tab ? "tabpanel" : undefined}
        >{text}</a>
      ))}
    </div>
  );
}

/** Empty says how a model gets its first observation. */
function Empty({ model, tab }: { model: Model; tab: Tab }) {
  const { write } = useMay();
  return (
    <>
      <p class="empty">
        Nothing was observed yet. {write
          ? <>Predict and observe by hand, or copy a program that does both: <a href={modelHref(model.id, "try")}>Try</a> has them.</>
          : "Observing needs the role write."}
      </p>
      {tab === "good" && <Compared model={model} />}
    </>
  );
}

interface Parts { live: Live; model: Model; stats: Stats; view: View; setView: (v: View) => void }

/** Learned are the parts of a model that has learned something. */
function Learned({ tab, ...parts }: Parts & { tab: "good" | "uses" | "data" }) {
  if (tab === "good") return <Good {...parts} />;
  return tab === "uses" ? <Uses {...parts} /> : <Data {...parts} />;
}

function Good({ live, model, stats, view, setView }: Parts) {
  const { intervals = [], classes } = stats;
  const bins = classes?.reliability ?? [];
  return (
    <>
      <Tiles stats={stats} />
      <Curves live={live} model={model} stats={stats} view={view} set={setView} />
      <Compared model={model} />
      <Panel title="Performance"><PerformanceTable stats={stats} />{classes?.ranking && <Ranking ranking={classes.ranking} />}</Panel>
      <Pair>
        {classes ? <Panel title="Classes"><Classes classes={classes} /></Panel> : <Scatter outcomes={live.outcomes} />}
        {bins.length > 0 && <Panel title="Reliability"><Reliability bins={bins} /></Panel>}
        {intervals.length > 0 && <Panel title="Intervals"><Intervals intervals={intervals} outputs={model.spec?.outputs ?? 1} /></Panel>}
      </Pair>
      <Panel title="Regret on the last observations"><RecentRegret model={model.id} /></Panel>
      <Panel title="All figures"><AllFigures stats={stats} /></Panel>
    </>
  );
}

function Uses({ live, model, stats, view, setView }: Parts) {
  const outputs = model.spec?.outputs ?? 1;
  const { experts = [], families = [], effects = [], weights: affine = [] } = stats;
  return (
    <>
      <Shares live={live} stats={stats} view={view} set={setView} />
      <Pair>
        {families.length > 0 && <Panel title="What auto uses"><Families families={families} /></Panel>}
        {experts.length > 0 && <Panel title="Experts"><Experts experts={experts} /></Panel>}
        {families.length > 0 && <Panel title="Inputs that matter"><Importances model={model.id} /></Panel>}
        {effects.length > 0 && <Panel title="Largest effects of keys"><Effects effects={effects} outputs={outputs} /></Panel>}
        {affine.length > 0 && <Panel title="Weights of the features"><Weights weights={affine} outputs={outputs} /></Panel>}
        {/^pkawv_(taylor|nystrom)$/.test(model.learner ?? "") && <Panel title="Features that are missing"><Missing model={model.id} /></Panel>}
      </Pair>
    </>
  );
}

function Data({ live, model, stats, view }: Parts) {
  const { inputs = [], labelGate } = stats;
  return (
    <>
      <Pair>
        <Newest outcomes={live.outcomes} classifier={stats.classes !== undefined} time={view.axis === "time"} />
        {!stats.classes && <Residuals model={model} outcomes={live.outcomes} />}
      </Pair>
      {inputs.length > 0 && <Panel title="Inputs"><Inputs inputs={inputs} learned={model.inputs ?? []} times={(model.spec?.inputs ?? []).map((i) => i.time && i.name)} /></Panel>}
      {labelGate && <Panel title="Label gate"><GateFigures gate={labelGate} /></Panel>}
    </>
  );
}

function Operate({ live, model, stats }: Omit<Parts, "stats"> & { stats: Stats | undefined }) {
  const may = useMay();
  return (
    <Pair>
      <Snapshots model={model} sequence={number(stats?.observations)} newest={number(stats?.snapshotSequence)} changed={live.again} />
      <Aliases model={model} changed={live.model.again} />
      {may.all && <Panel title="Latency since the server started"><Latencies model={model.id} /></Panel>}
    </Pair>
  );
}

function SpecPanel({ model }: { model: Model }) {
  const text = JSON.stringify(model.spec, null, 2);
  return (
    <Panel title="Spec" aside={<Copy what="the spec" text={text} />}>
      <pre tabIndex={0} class="spec" aria-label="Spec as JSON">{text}</pre>
    </Panel>
  );
}

function Heading({ model, live }: { model: Model; live: Live }) {
  const { admin } = useMay();
  const stats = live.stats.value;
  const labels = Object.entries(model.labels ?? {});
  return (
    <div class="heading model">
      <div>
        <h1>{model.id}</h1>
        <p class="meta">
          {model.displayName && <span>{model.displayName}</span>}
          <span>{model.learner}</span>
          {stats && number(stats.observations) > 0 && <Light skill={skillOf(stats)} />}
          {stats && <span><Num name="observations" value={number(stats.observations)} write={count} /> observations</span>}
          {(model.aliases ?? []).map((a) => <span class="chip" key={a} title="alias">{a}</span>)}
          {labels.map(([k, v]) => <a class="chip" key={k} href={modelsHref(new URLSearchParams({ tag: `${k}=${v}` }))}>{k}={v}</a>)}
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

const GRPC = "hindsight.grpc";

/** Snippets shows programs that call the model. */
function Snippets({ model }: { model: Model }) {
  const [language, setLanguage] = useState<Language>("curl");
  // The server says where it listens. The address may differ behind a proxy.
  const access = useLoad(getAccess, []).value;
  const [typed, setTyped] = useState(() => localStorage.getItem(GRPC) ?? undefined);
  const grpc = typed ?? (access ? grpcAddress(access) : "");
  const text = snippet(language, model, { grpc, http: httpAddress(), tls: access?.tls ?? false, token: access?.tokens ?? false });
  // An empty address is not stored: the page shows the server's address again.
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
