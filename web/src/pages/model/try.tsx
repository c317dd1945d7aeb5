import { useState } from "preact/hooks";
import { observe, predict } from "../../api/client";
import type { Interval, Model, ObserveBody, Outcome, Prediction } from "../../api/types";
import { count, full, level, number, percent } from "../../format";
import { useMay } from "../../ui/may";
import { Busy, Choice, Copy, Failure, Field, Light, Num, Pair, Panel } from "../../ui/parts";
import { list, typed } from "../draft";
import { InputFields, NOTHING, bodyOfInput, type Given } from "./input";
import { Bar, Families } from "./tables";

/** Try are the forms to predict and to observe by hand. */
export function Try({ model, observed }: { model: Model; observed: () => void }) {
  const [last, setLast] = useState<Prediction>();
  const { write } = useMay();
  return (
    <Pair>
      <PredictForm model={model} last={last} done={setLast} write={write} />
      {write && <ObserveForm model={model} last={last?.predictionId} done={() => { setLast(undefined); observed(); }} />}
    </Pair>
  );
}

function PredictForm({ model, last, done, write }: { model: Model; last: Prediction | undefined; done: (p: Prediction) => void; write: boolean }) {
  const [given, setGiven] = useState<Given>(NOTHING);
  const [remember, setRemember] = useState(true);
  const [error, setError] = useState<unknown>();
  const send = async (): Promise<void> => {
    try {
      done(await predict(model.id, { ...bodyOfInput(model, given), remember: remember && write, explain: model.learner === "auto" }));
      setError(undefined);
    } catch (e) {
      setError(e);
    }
  };
  return (
    <Panel title="Predict" id="predict">
      <form onSubmit={(e) => e.preventDefault()} noValidate>
        <InputFields model={model} given={given} set={setGiven} />
        {write && (
          <label class="check">
            <input type="checkbox" checked={remember} onChange={(e) => setRemember(e.currentTarget.checked)} />
            A label will come: remember the prediction
          </label>
        )}
        <div class="actions"><Busy submit kind="primary" run={send}>Predict</Busy></div>
      </form>
      <Failure error={error} />
      <div role="status">
        {last && <PredictionText p={last} />}
        {last && last.explanation.length > 0 && <Families families={last.explanation} />}
      </div>
    </Panel>
  );
}

function PredictionText({ p }: { p: Prediction }) {
  const scores = Object.entries(p.scores ?? {}).sort(([, a], [, b]) => b - a);
  return (
    <dl class="list answer">
      {p.class && <div><dt>Class</dt><dd data-name="prediction.class"><strong>{p.class}</strong></dd></div>}
      {p.value !== undefined && <div><dt>Value</dt><dd><strong><Num name="prediction.value" value={p.value} /></strong></dd></div>}
      {p.values && p.values.length > 0 && <div><dt>Values</dt><dd><Nums values={p.values} /></dd></div>}
      {scores.slice(0, 10).map(([name, score]) => <div key={name}><dt>P({name})</dt><dd><Bar value={score} axis={[0, 1]} /><Num value={score} write={percent} /></dd></div>)}
      {p.probability !== undefined && <div><dt>P(label 1)</dt><dd><Num value={p.probability} write={percent} /></dd></div>}
      {(p.intervals ?? []).map((i) => (
        <div key={i.coverage}><dt>{level(number(i.coverage))} {i.lowers.length > 0 ? "intervals" : "interval"}</dt><dd>{boundsOf(i)}</dd></div>
      ))}
      {p.parametricValue !== undefined && <div><dt>Parametric part</dt><dd><Num value={p.parametricValue} /></dd></div>}
      {p.standardError !== undefined && <div><dt>Standard error</dt><dd><Num value={p.standardError} /></dd></div>}
      {p.standardErrors && p.standardErrors.length > 0 && <div><dt>Standard errors</dt><dd><Nums values={p.standardErrors} /></dd></div>}
      {p.leverage !== undefined && <div><dt>Leverage</dt><dd><Num value={p.leverage} /></dd></div>}
      <div><dt>Learned from</dt><dd>{count(number(p.stateSequence))}</dd></div>
      {p.predictionId && <div class="long"><dt>Prediction id</dt><dd><code>{p.predictionId}</code> <Copy text={p.predictionId} what="the prediction id" /></dd></div>}
    </dl>
  );
}

/** Nums are the numbers of several outputs, in their order. */
function Nums({ values }: { values: number[] }) {
  return <>{values.map((v, i) => <Num key={i} value={v} />)}</>;
}

/** boundsOf writes an interval, or an interval for each output. Without observations it has no ends. */
function boundsOf(i: Interval) {
  if (i.lowers.length === 0) return i.lower === undefined ? "not known yet" : <><Num value={i.lower} /> to <Num value={i.upper} /></>;
  return i.lowers.map((low, k) => <span key={k}><Num value={low} /> to <Num value={i.uppers[k]} />{k + 1 < i.lowers.length ? "," : ""}</span>);
}

/** newId makes the id of an observation, so that a click that is sent twice is learned once. */
function newId(): string {
  const random = crypto.getRandomValues(new Uint8Array(12));
  return `console-${[...random].map((b) => b.toString(16).padStart(2, "0")).join("")}`;
}

function ObserveForm({ model, last, done }: { model: Model; last: string | undefined; done: () => void }) {
  const [how, setHow] = useState<"id" | "input">("id");
  const [id, setId] = useState<string>();
  const [given, setGiven] = useState<Given>(NOTHING);
  const [label, setLabel] = useState("");
  const [weight, setWeight] = useState("");
  const [observationId, setObservationId] = useState(newId);
  const [outcome, setOutcome] = useState<Outcome>();
  const [error, setError] = useState<unknown>();
  // The field shows the id of the last prediction until the reader types another id.
  const predictionId = id ?? last ?? "";

  const send = async (): Promise<void> => {
    try {
      const body: ObserveBody = {
        ...(how === "id" ? { predictionId: predictionId.trim() } : { ...bodyOfInput(model, given), observationId }),
        ...target(model, label),
        ...(weight.trim() ? { weight: typed(weight) } : {}),
      };
      setOutcome(await observe(model.id, body));
      setError(undefined);
      setLabel("");
      setId(undefined);
      setObservationId(newId());
      done();
    } catch (e) {
      setError(e);
    }
  };

  return (
    <Panel title="Observe" id="observe">
      <form onSubmit={(e) => e.preventDefault()} noValidate>
        <Choice label="What was observed" value={how} choose={setHow} options={[["id", "A prediction"], ["input", "An input"]]} />
        {how === "id" ? (
          <Field label="Prediction id" hint="Of the last prediction above, or another.">
            {(a) => <input {...a} class="code" spellcheck={false} value={predictionId} onInput={(e) => setId(e.currentTarget.value)} />}
          </Field>
        ) : (
          <>
            <InputFields model={model} given={given} set={setGiven} />
            <Field label="Observation id" hint="The same id is learned once.">
              {(a) => <input {...a} class="code" spellcheck={false} value={observationId} onInput={(e) => setObservationId(e.currentTarget.value)} />}
            </Field>
          </>
        )}
        <div class="fields">
          <LabelField model={model} label={label} set={setLabel} />
          <Field label="Weight" hint="Default 1.">
            {(a) => <input {...a} inputMode="decimal" value={weight} onInput={(e) => setWeight(e.currentTarget.value)} />}
          </Field>
        </div>
        <div class="actions"><Busy submit kind="primary" run={send}>Observe</Busy></div>
      </form>
      <Failure error={error} />
      <div role="status">{outcome && <OutcomeText o={outcome} />}</div>
    </Panel>
  );
}

function outputsOf(model: Model): number {
  return model.spec?.outputs ?? 1;
}

/** target is the label of a request. An empty field sends no label, which the server rejects. */
function target(model: Model, label: string): ObserveBody {
  if (model.spec?.classes) return label ? { class: label } : {};
  if (!label.trim()) return {};
  return outputsOf(model) > 1 ? { labels: { values: list(label) } } : { label: typed(label) };
}

function LabelField({ model, label, set }: { model: Model; label: string; set: (text: string) => void }) {
  const outputs = outputsOf(model);
  if (model.spec?.classes) {
    return (
      <Field label="Class" hint={(model.classes ?? []).length > 0 ? `Seen so far: ${(model.classes ?? []).slice(0, 8).join(", ")}` : "Any text."}>
        {(a) => (
          <>
            <input {...a} list={`${a.id}-classes`} value={label} onInput={(e) => set(e.currentTarget.value)} />
            <datalist id={`${a.id}-classes`}>{(model.classes ?? []).map((c) => <option key={c} value={c} />)}</datalist>
          </>
        )}
      </Field>
    );
  }
  return (
    <Field label={outputs > 1 ? "Labels" : "Label"} hint={outputs > 1 ? `${outputs} numbers.` : `What really happened${model.spec?.label?.unit ? `, in ${model.spec.label.unit}` : ""}.`}>
      {(a) => <input {...a} inputMode={outputs > 1 ? "text" : "decimal"} value={label} onInput={(e) => set(e.currentTarget.value)} />}
    </Field>
  );
}

function OutcomeText({ o }: { o: Outcome }) {
  return (
    <dl class="list answer">
      <div><dt>Sequence</dt><dd><Num name="outcome.sequence" value={number(o.sequence)} write={count} /></dd></div>
      {o.setAside && <div><dt>Label set aside</dt><dd>It cannot be right: the model did not learn it.</dd></div>}
      {o.duplicate && <div><dt>Duplicate</dt><dd>It had been learned before.</dd></div>}
      {o.prediction !== undefined && <div><dt>Prediction, prequential</dt><dd><Num value={o.prediction} /></dd></div>}
      {o.predictions && o.predictions.length > 0 && <div><dt>Predictions, prequential</dt><dd><Nums values={o.predictions} /></dd></div>}
      {o.class && <div><dt>Class, prequential</dt><dd>{o.class}</dd></div>}
      <div><dt>Loss, prequential</dt><dd><Num name="outcome.loss" value={o.loss} write={full} /></dd></div>
      {o.servedLoss !== undefined && <div><dt>Loss, served</dt><dd><Num value={o.servedLoss} write={full} /></dd></div>}
      {o.regret !== undefined && <div><dt>Regret, prequential</dt><dd><Num value={o.regret} /></dd></div>}
      {o.recentSkill !== undefined && <div><dt>Recent skill, served</dt><dd><Num value={o.recentSkill} /> <Light skill={o.recentSkill} /></dd></div>}
    </dl>
  );
}
