import { useEffect, useState } from "preact/hooks";
import { createModel, listLearners, validateSpec } from "../api/client";
import { Rejection } from "../api/rejection";
import type { Learner, LearnerField, Spec, SpecCost } from "../api/types";
import { bytes, count, number } from "../format";
import { go, modelHref } from "../router";
import { RETRY, useLoad } from "../ui/load";
import { useNotice } from "../ui/notice";
import { Busy, Choice, Failure, Field, Panel } from "../ui/parts";
import { EMPTY, bodyOf, specOf, type Draft, type InputDraft } from "./draft";
import { kindOf, spoken } from "./learners";

const TYPING = 250;
const ID = /^[a-z0-9][a-z0-9._-]{0,62}$/;

type Set = (change: Partial<Draft>) => void;
type Wrong = (field: string) => string | undefined;

/** CreatePage makes a model. The server checks the spec as it is typed. */
export function CreatePage() {
  const [draft, setDraft] = useState(EMPTY);
  // The text of the spec, once it is written by hand; the form then no longer makes it.
  const [text, setText] = useState<string>();
  const [rejected, setRejected] = useState<unknown>();
  const notice = useNotice();
  const set: Set = (change) => {
    setDraft((d) => ({ ...d, ...change }));
    setRejected(undefined);
  };

  const learners = useLoad(listLearners, []);
  const made = JSON.stringify(specOf(draft, learners.value ?? []), null, 2);
  const { spec, broken } = parse(text ?? made);
  const { cost, error, checking } = useValidation(spec);
  // A server that was not reached has not checked: the call itself finds out.
  const checked = error !== undefined && !(error instanceof Rejection && error.status === "");
  const violations = [error, rejected].flatMap((e) => (e instanceof Rejection ? e.violations : []));
  const wrong: Wrong = (field) => violations.find((v) => v.field === field)?.description;
  const idWrong = draft.id && !ID.test(draft.id)
    ? "Small letters, digits, '.', '_' and '-'; a letter or a digit first; at most 63." : wrong("id");

  const create = async (): Promise<void> => {
    if (!spec) return;
    try {
      const model = await createModel(bodyOf(draft, spec));
      notice({ text: `Model ${model.id} was created.` });
      go(modelHref(model.id));
    } catch (e) {
      setRejected(e);
    }
  };

  const why = reason();
  function reason(): string | undefined {
    if (!draft.id) return "The model needs an id.";
    if (idWrong) return "The id is wrong: see its field.";
    if (!spec) return "The spec is not JSON.";
    return checked ? "The server rejects the spec, see above." : undefined;
  }
  const form = text === undefined ? <Form draft={draft} learners={learners.value ?? []} set={set} wrong={wrong} /> : null;
  return (
    <>
      <div class="heading"><h1>Create a model</h1></div>
      <form class="columns" onSubmit={(e) => e.preventDefault()} noValidate>
        <div>
          <Panel title="Model">
            <div class="fields">
              <Field label="Id" wrong={idWrong} hint="The name that requests use.">
                {(a) => <input {...a} required autocomplete="off" spellcheck={false} value={draft.id} onInput={(e) => set({ id: e.currentTarget.value })} />}
              </Field>
              <Field label="Display name" wrong={wrong("display_name")} hint="For people. May change later.">
                {(a) => <input {...a} value={draft.displayName} onInput={(e) => set({ displayName: e.currentTarget.value })} />}
              </Field>
              <Field label="Tags" wrong={violations.find((v) => v.field.startsWith("labels"))?.description} hint="For selecting models; labels in the API. One a line: team=rides">
                {(a) => <textarea {...a} rows={2} spellcheck={false} value={draft.labels} onInput={(e) => set({ labels: e.currentTarget.value })} />}
              </Field>
              <Field label="Follows" wrong={wrong("follows")} hint="A model with the same inputs and labels, whose observations it learns as well.">
                {(a) => <input {...a} autocomplete="off" spellcheck={false} value={draft.follows} onInput={(e) => set({ follows: e.currentTarget.value })} />}
              </Field>
            </div>
          </Panel>
          {form}
        </div>
        <div class="beside">
          <Panel title="Spec" aside={
            <Choice
              label="How the spec is written" value={text === undefined ? "form" : "text"}
              options={[["form", "By form"], ["text", "As JSON"]]} choose={(v) => setText(v === "form" ? undefined : made)}
            />}
          >
            {text === undefined
              ? <pre tabIndex={0} class="spec" aria-label="Spec as JSON">{made}</pre>
              : <textarea aria-label="Spec as JSON" class="spec" rows={16} spellcheck={false} value={text} onInput={(e) => { setText(e.currentTarget.value); setRejected(undefined); }} />}
            <Verdict cost={cost} checking={checking} />
            {broken && <p class="failure" role="alert">{broken}</p>}
            <Failure error={rejected ?? error ?? learners.error} />
            <div class="actions">
              <span class="why" id="why-not" role="status">{why}</span>
              <Busy submit kind="primary" run={create} disabled={why !== undefined} describedBy="why-not">Create</Busy>
            </div>
          </Panel>
        </div>
      </form>
    </>
  );
}

function parse(text: string): { spec?: Spec; broken?: string } {
  try {
    return { spec: JSON.parse(text) as Spec };
  } catch (e) {
    return { broken: `Not JSON: ${e instanceof Error ? e.message : String(e)}` };
  }
}

/** useValidation asks the server what it thinks of a spec, once the typing stops. */
function useValidation(spec: Spec | undefined): { cost?: SpecCost | undefined; error?: unknown; checking: boolean } {
  const [answer, setAnswer] = useState<{ of: string; cost?: SpecCost; error?: unknown }>();
  // A server that did not answer is asked again.
  const [round, setRound] = useState(0);
  const text = spec && JSON.stringify(spec);
  useEffect(() => {
    if (!text) return undefined;
    const control = new AbortController();
    const timer = setTimeout(() => {
      validateSpec(JSON.parse(text) as Spec, control.signal).then(
        (cost) => setAnswer({ of: text, cost }),
        (error: unknown) => {
          if (control.signal.aborted) return;
          setAnswer({ of: text, error });
          if (error instanceof Rejection && error.status === "") again = setTimeout(() => setRound((r) => r + 1), RETRY);
        },
      );
    }, TYPING);
    let again: ReturnType<typeof setTimeout> | undefined;
    return () => {
      clearTimeout(timer);
      clearTimeout(again);
      control.abort();
    };
  }, [text, round]);
  // Until the next answer the last one stands, so that the page does not flicker.
  return { cost: answer?.cost, error: answer?.error, checking: answer?.of !== text };
}

function Verdict({ cost, checking }: { cost: SpecCost | undefined; checking: boolean }) {
  return (
    <div role="status" class="cost" aria-busy={checking}>
      {cost && (
        <dl class="tiles">
          <div><dt>Features</dt><dd data-name="features">{count(cost.features ?? 0)}</dd></div>
          <div><dt>State</dt><dd data-name="stateBytes" title={`${number(cost.stateBytes)} bytes`}>{bytes(number(cost.stateBytes))}</dd></div>
          <div><dt>Predict</dt><dd data-name="predictFlops">{count(number(cost.predictFlops))} <small>multiply-adds</small></dd></div>
          <div><dt>Observe</dt><dd data-name="observeFlops">{count(number(cost.observeFlops))} <small>multiply-adds</small></dd></div>
        </dl>
      )}
    </div>
  );
}

function Form({ draft, learners, set, wrong }: { draft: Draft; learners: Learner[]; set: Set; wrong: Wrong }) {
  const learner = learners.find((l) => l.name === draft.learner);
  return (
    <>
      <Panel title="Inputs and labels">
        <Choice
          label="What the inputs are" value={draft.by} choose={(by) => set({ by })}
          options={[["dimension", "Numbers by position"], ["inputs", "Named inputs"]]}
        />
        {draft.by === "dimension" ? (
          <div class="fields">
            <Field label="Dimension" wrong={wrong("spec.dimension")} hint="How many numbers an input has.">
              {(a) => <input {...a} inputMode="numeric" value={draft.dimension} onInput={(e) => set({ dimension: e.currentTarget.value })} />}
            </Field>
          </div>
        ) : <Inputs inputs={draft.inputs} set={(inputs) => set({ inputs })} wrong={wrong} />}
        <div class="fields">
          <Field label="Labels are" hint="What an observation has.">
            {(a) => (
              <select {...a} value={draft.classes ? "classes" : "numbers"} onChange={(e) => set({ classes: e.currentTarget.value === "classes" })}>
                <option value="numbers">numbers</option>
                <option value="classes">classes</option>
              </select>
            )}
          </Field>
          {draft.classes ? (
            <Field label="Maximum of classes" wrong={wrong("spec.classes.max_classes")} hint="Default 64 of auto, 256 of rlsc, else 2.">
              {(a) => <input {...a} inputMode="numeric" value={draft.maxClasses} onInput={(e) => set({ maxClasses: e.currentTarget.value })} />}
            </Field>
          ) : (
            <>
              <Field label="Labels per observation" wrong={wrong("spec.outputs")} hint="Default 1.">
                {(a) => <input {...a} inputMode="numeric" value={draft.outputs} onInput={(e) => set({ outputs: e.currentTarget.value })} />}
              </Field>
              <Field label="Intervals" wrong={wrong("spec.coverage") ?? wrong("spec.coverage[0]")} hint="Shares of labels inside: 0.5, 0.9. Default 0.9 for auto.">
                {(a) => <input {...a} value={draft.coverage} onInput={(e) => set({ coverage: e.currentTarget.value })} />}
              </Field>
              <Field label="Smallest label" wrong={wrong("spec.label.min")} hint="0 for counts and shares. Default none.">
                {(a) => <input {...a} inputMode="decimal" value={draft.smallest} onInput={(e) => set({ smallest: e.currentTarget.value })} />}
              </Field>
              <Field label="Largest label" wrong={wrong("spec.label.max")} hint="Default none.">
                {(a) => <input {...a} inputMode="decimal" value={draft.largest} onInput={(e) => set({ largest: e.currentTarget.value })} />}
              </Field>
              <Field label="Whole labels" wrong={wrong("spec.label")} hint="Counts: intervals end at whole numbers.">
                {(a) => <input {...a} type="checkbox" checked={draft.whole} onChange={(e) => set({ whole: e.currentTarget.checked })} />}
              </Field>
            </>
          )}
          <Field label="Scaling" wrong={wrong("spec.scaling")} hint="Default: running.">
            {(a) => (
              <select {...a} value={draft.scaling} onChange={(e) => set({ scaling: e.currentTarget.value })}>
                <option value="">default</option>
                <option value="running">running</option>
                <option value="warmup">warm-up of 100</option>
                <option value="none">none</option>
              </select>
            )}
          </Field>
          <Field label="Seed" wrong={wrong("spec.seed")} hint="Of all random draws. Default 0.">
            {(a) => <input {...a} inputMode="numeric" value={draft.seed} onInput={(e) => set({ seed: e.currentTarget.value })} />}
          </Field>
        </div>
      </Panel>
      <Panel title="Learner">
        <div class="fields">
          <Field label="Learner" wrong={wrong("spec.learner") ?? wrong(`spec.${draft.learner}`)} hint={learner?.description}>
            {(a) => (
              <select {...a} value={draft.learner} onChange={(e) => set({ learner: e.currentTarget.value, options: {} })}>
                {learners.map((l) => <option key={l.name} value={l.name}>{l.name}</option>)}
              </select>
            )}
          </Field>
          {learner?.fields?.map((f) => (
            <LearnerInput
              key={`${learner.name}.${f.name}`} field={f} value={draft.options[f.name] ?? ""} wrong={wrong} path={`spec.${learner.name}.${f.name}`}
              set={(v) => set({ options: { ...draft.options, [f.name]: v } })}
            />
          ))}
        </div>
      </Panel>
    </>
  );
}

function LearnerInput({ field, value, set, wrong, path }: {
  field: LearnerField; value: string; set: (v: string) => void; wrong: Wrong; path: string;
}) {
  const kind = kindOf(field), { name: label, description: hint } = field;
  if (!kind) return null;
  const values = (field.values ?? []).map((v) => <option key={v} value={v}>{spoken(v)}</option>);
  if (kind === "kernel") {
    const [name = "", sigma = ""] = value.split(" ");
    return (
      <>
        <Field label={label} hint={hint} wrong={wrong(path) ?? wrong(`${path}.kind`)}>
          {(a) => (
            <select {...a} value={name} onChange={(e) => set(`${e.currentTarget.value} ${sigma}`)}>
              <option value="">default</option>
              {values}
            </select>
          )}
        </Field>
        <Field label={`${label}.sigma`} hint="The bandwidth of the kernel. Default 1." wrong={wrong(`${path}.sigma`)}>
          {(a) => <input {...a} inputMode="decimal" value={sigma} onInput={(e) => set(`${name} ${e.currentTarget.value}`)} />}
        </Field>
      </>
    );
  }
  return (
    <Field label={label} hint={kind === "kernels" ? `${hint} Bandwidths of Gaussian kernels.` : hint} wrong={wrong(path) ?? wrong(`${path}[0]`)}>
      {(a) => (kind === "boolean" || kind === "choice"
        ? (
          <select {...a} value={value} onChange={(e) => set(e.currentTarget.value)}>
            <option value="">default</option>
            {kind === "choice" ? values : [<option key="true" value="true">yes</option>, <option key="false" value="false">no</option>]}
          </select>
        )
        : <input {...a} inputMode={kind === "number" ? "decimal" : "text"} value={value} onInput={(e) => set(e.currentTarget.value)} />
      )}
    </Field>
  );
}

const INPUT_KINDS = [
  ["numeric", "number"], ["boolean", "true or false"], ["categorical", "category"], ["time", "time"], ["vector", "list of numbers"], ["text", "text of words"],
] as const;

function Inputs({ inputs, set, wrong }: { inputs: InputDraft[]; set: (inputs: InputDraft[]) => void; wrong: Wrong }) {
  const change = (at: number, part: Partial<InputDraft>): void => set(inputs.map((i, n) => (n === at ? { ...i, ...part } : i)));
  return (
    <fieldset class="inputs">
      <legend>Inputs</legend>
      {inputs.map((input, n) => (
        <div class="fields row" key={n}>
          <Field label={`Name of input ${n + 1}`} wrong={wrong(`spec.inputs[${n}].name`) ?? wrong(`spec.inputs[${n}]`)}>
            {(a) => <input {...a} value={input.name} spellcheck={false} onInput={(e) => change(n, { name: e.currentTarget.value })} />}
          </Field>
          <Field label={`Kind of input ${n + 1}`}>
            {(a) => (
              <select {...a} value={input.kind} onChange={(e) => change(n, { kind: e.currentTarget.value as InputDraft["kind"] })}>
                {INPUT_KINDS.map(([v, text]) => <option key={v} value={v}>{text}</option>)}
              </select>
            )}
          </Field>
          {input.kind === "vector" && (
            <Field label="Length" wrong={wrong(`spec.inputs[${n}].vector.length`)}>
              {(a) => <input {...a} inputMode="numeric" value={input.length} onInput={(e) => change(n, { length: e.currentTarget.value })} />}
            </Field>
          )}
          <button type="button" class="small" disabled={inputs.length === 1} aria-label={`Remove input ${n + 1}`} onClick={() => set(inputs.filter((_, k) => k !== n))}>Remove</button>
        </div>
      ))}
      <button type="button" class="small" onClick={() => set([...inputs, { name: "", kind: "numeric", length: "" }])}>Add an input</button>
    </fieldset>
  );
}
