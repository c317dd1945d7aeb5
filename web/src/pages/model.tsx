import { useState } from "preact/hooks";
import type { Link } from "../api/events";
import { Rejection } from "../api/rejection";
import { getAccess, grpcAddress, httpAddress } from "../api/session";
import type { Model, Stats } from "../api/types";
import { moment, number } from "../format";
import { modelHref, modelsHref } from "../router";
import { useMay } from "../ui/may";
import { useLoad } from "../ui/load";
import { Choice, Copy, Failure, Field, Light, Pair, Panel } from "../ui/parts";
import { Snapshots, Transfer } from "./model/actions";
import { Curves } from "./model/curves";
import { AllFigures, PerformanceTable, Tiles, skillOf } from "./model/figures";
import { GateFigures, GateWarning } from "./model/gate";
import { Latencies } from "./model/latency";
import { useLive, type Live } from "./model/live";
import { LANGUAGES, snippet, type Language } from "./model/snippets";
import { Aliases, Compared, Edit } from "./model/resource";
import { Classes, Effects, Experts, Importances, Inputs, Intervals, Missing, Ranking, Reliability, Weights } from "./model/tables";
import { Try } from "./model/try";

const LINKS: Record<Link, string> = { connecting: "connecting…", live: "live", lost: "connection lost, trying again" };

/** ModelPage shows one model. */
export function ModelPage({ id }: { id: string }) {
  const live = useLive(id);
  const may = useMay();
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
  const begun = number(stats.value?.observations) > 0;
  return (
    <>
      <Heading model={model.value} live={live} />
      <Failure error={model.error ?? stats.error} />
      <GateWarning gate={stats.value?.labelGate} />
      {stats.value && <Tiles stats={stats.value} />}
      <Jumps begun={begun} />
      {stats.value && !begun && (
        <p class="empty">Nothing was observed yet. {may.write ? "Predict and observe by hand, or copy a program that does both: they are below." : "Observing needs the role write."}</p>
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
          {may.all && <Panel title="Latency since the server started"><Latencies model={model.value.id} /></Panel>}
          <Panel title="Spec" id="spec" aside={<Copy what="the spec" text={JSON.stringify(model.value.spec, null, 2)} />}>
            <pre tabIndex={0} class="spec" aria-label="Spec as JSON">{JSON.stringify(model.value.spec, null, 2)}</pre>
          </Panel>
          {begun && /^pkawv_(taylor|nystrom)$/.test(model.value.learner ?? "") && <Panel title="Features that are missing"><Missing model={model.value.id} /></Panel>}
          {stats.value && <Panel title="All figures"><AllFigures stats={stats.value} /></Panel>}
        </Pair>
      </div>
    </>
  );
}

const PARTS = [["curves", "Curves"], ["figures", "Figures"], ["try", "Predict and observe"], ["program", "Programs"], ["snapshots", "Snapshots"], ["spec", "Spec"]] as const;

/** Jumps go to the parts of the page. They are no links: the address names the page. */
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
          {stats && <Light skill={skillOf(stats)} />}
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

/** Tables shows the figures that have several rows. */
function Tables({ stats, model }: { stats: Stats; model: Model }) {
  const outputs = model.spec?.outputs ?? 1;
  const { intervals = [], experts = [], families = [], inputs = [], effects = [], weights: affine = [], classes, labelGate } = stats;
  return (
    <>
      <Panel title="Performance"><PerformanceTable stats={stats} />{classes?.ranking && <Ranking ranking={classes.ranking} />}</Panel>
      {inputs.length > 0 && <Panel title="Inputs"><Inputs inputs={inputs} learned={model.inputs ?? []} /></Panel>}
      <Pair>
        {intervals.length > 0 && <Panel title="Intervals"><Intervals intervals={intervals} outputs={outputs} /></Panel>}
        {classes && <Panel title="Classes"><Classes classes={classes} /></Panel>}
        {classes && (classes.reliability ?? []).length > 0 && <Panel title="Reliability"><Reliability bins={classes.reliability ?? []} /></Panel>}
        {labelGate && <Panel title="Label gate"><GateFigures gate={labelGate} /></Panel>}
        {affine.length > 0 && <Panel title="Weights of the features"><Weights weights={affine} outputs={outputs} /></Panel>}
        {effects.length > 0 && <Panel title="Largest effects of keys"><Effects effects={effects} outputs={outputs} /></Panel>}
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
