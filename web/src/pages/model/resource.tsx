import { useState } from "preact/hooks";
import { compareModels, deleteAlias, listAliases, setAlias, updateModel } from "../../api/client";
import { Rejection } from "../../api/rejection";
import type { ClassPerformance, Comparison, Model, Performance } from "../../api/types";
import { count, number } from "../../format";
import { modelHref } from "../../router";
import { useMay } from "../../ui/may";
import { useLoad } from "../../ui/load";
import { useNotice } from "../../ui/notice";
import { Busy, Dialog, Failure, Field, Light, Num, Panel, Scroll } from "../../ui/parts";
import { pairsOf, pairsText, typed } from "../draft";

/** Edit changes a model. The etag rejects the change if somebody else changed the model meanwhile. */
export function Edit({ model, changed }: { model: Model; changed: () => void }) {
  const [open, setOpen] = useState(false);
  // The current model, which may be newer than the page.
  const show = (): void => {
    changed();
    setOpen(true);
  };
  return (
    <>
      <button type="button" onClick={show}>Edit…</button>
      {open && <EditDialog model={model} close={() => { setOpen(false); changed(); }} />}
    </>
  );
}

/** Texts are the texts of the form, by the names of the model's fields. */
interface Texts {
  displayName: string;
  labels: string;
  annotations: string;
  labelTtl: string;
  maxPendingLabels: string;
}

function textsOf(m: Model): Texts {
  return {
    displayName: m.displayName ?? "", labels: pairsText(m.labels ?? {}), annotations: pairsText(m.annotations ?? {}),
    labelTtl: (m.labelTtl ?? "").replace(/s$/, ""), maxPendingLabels: m.maxPendingLabels === undefined ? "" : String(m.maxPendingLabels),
  };
}

/** valueOf is the new value of a field, undefined for the server's default. */
function valueOf(field: keyof Texts, text: string): unknown {
  if (field === "labels" || field === "annotations") return pairsOf(text);
  if (text.trim() === "") return undefined;
  if (field === "labelTtl") return `${text.trim()}s`;
  return field === "maxPendingLabels" ? typed(text) : text.trim();
}

function EditDialog({ model, close }: { model: Model; close: () => void }) {
  // The change is of the model that the dialog opened with.
  const [before, setBefore] = useState(model);
  const [texts, setTexts] = useState(textsOf(model));
  const [error, setError] = useState<unknown>();
  const notice = useNotice();
  const old = textsOf(before);
  const fields = (Object.keys(texts) as (keyof Texts)[]).filter((f) => texts[f] !== old[f]);
  // Until something is typed the dialog follows the model.
  if (fields.length === 0 && before.etag !== model.etag) {
    setBefore(model);
    setTexts(textsOf(model));
  }
  const save = async (): Promise<void> => {
    try {
      if (fields.length > 0) {
        const values = Object.fromEntries(fields.map((f) => [f, valueOf(f, texts[f])]));
        await updateModel({ ...values, id: before.id, etag: before.etag ?? "" }, fields.join(","));
        notice({ text: `${before.id} was changed.` });
      }
      close();
    } catch (e) {
      setError(e);
    }
  };
  const wrong = (name: string): string | undefined =>
    (error instanceof Rejection ? error.violations : []).find((v) => v.field.replace(/^model\./, "").split(".")[0] === name)?.description;
  const put = (field: keyof Texts) => (e: { currentTarget: { value: string } }): void => {
    setTexts({ ...texts, [field]: e.currentTarget.value });
    setError(undefined);
  };
  return (
    <Dialog title={`Edit ${before.id}`} close={close}>
      <form onSubmit={(e) => e.preventDefault()} noValidate>
        <Field label="Display name" hint="For people." wrong={wrong("display_name")}>
          {(a) => <input {...a} autofocus value={texts.displayName} onInput={put("displayName")} />}
        </Field>
        <Field label="Tags" hint="For selecting models; labels in the API. One a line: team=rides" wrong={wrong("labels")}>
          {(a) => <textarea {...a} rows={3} spellcheck={false} value={texts.labels} onInput={put("labels")} />}
        </Field>
        <Field label="Annotations" hint="For programs. One a line: runbook=https://…" wrong={wrong("annotations")}>
          {(a) => <textarea {...a} rows={3} spellcheck={false} value={texts.annotations} onInput={put("annotations")} />}
        </Field>
        <div class="fields">
          <Field label="Label TTL, in seconds" hint="How long a prediction stays pending. Empty: the server's default." wrong={wrong("label_ttl")}>
            {(a) => <input {...a} inputMode="decimal" value={texts.labelTtl} onInput={put("labelTtl")} />}
          </Field>
          <Field label="Maximum of pending labels" hint="How many predictions may be pending. Empty: the server's limit." wrong={wrong("max_pending_labels")}>
            {(a) => <input {...a} inputMode="numeric" value={texts.maxPendingLabels} onInput={put("maxPendingLabels")} />}
          </Field>
        </div>
        <Failure error={error} />
        <div class="actions">
          <button type="button" onClick={close}>Cancel</button>
          <Busy submit kind="primary" run={save}>Save</Busy>
        </div>
      </form>
    </Dialog>
  );
}

/** Aliases are the other names of a model. Adding an alias of another model moves the alias here. */
export function Aliases({ model, changed }: { model: Model; changed: () => void }) {
  const { admin } = useMay();
  const [alias, setTyped] = useState("");
  const [error, setError] = useState<unknown>();
  const all = useLoad(listAliases, [model.id]);
  const notice = useNotice();
  const now = all.value?.find((a) => a.alias === alias.trim())?.model;
  const change = async (what: () => Promise<string>): Promise<void> => {
    try {
      notice({ text: await what() });
      setError(undefined);
      setTyped("");
      changed();
    } catch (e) {
      setError(e);
    }
    all.again();
  };
  // The server compares with what the page shows. "-" stands for an unknown alias.
  const set = (name: string): Promise<void> => change(async () => {
    await setAlias(name, model.id, now ?? "-");
    return `${name} names ${model.id}.`;
  });
  const remove = (name: string): Promise<void> => change(async () => {
    await deleteAlias(name);
    return `The alias ${name} was removed.`;
  });
  return (
    <Panel title="Aliases" id="aliases">
      {(model.aliases ?? []).length === 0 && <p class="note">None. An alias stands for the model wherever a model is named, and changes over at once.</p>}
      {(model.aliases ?? []).map((a) => (
        <div class="alias" key={a}>
          <code>{a}</code> {admin && <Busy kind="small" run={() => remove(a)}>Remove<span class="unseen"> the alias {a}</span></Busy>}
        </div>
      ))}
      {admin && <form onSubmit={(e) => e.preventDefault()} noValidate>
        <Field label="Alias" hint={now && now !== model.id ? `It names ${now} now, and would change over.` : "Such as champion."}>
          {(a) => <input {...a} autocomplete="off" spellcheck={false} value={alias} onInput={(e) => setTyped(e.currentTarget.value)} />}
        </Field>
        <Failure error={error ?? all.error} />
        <div class="actions"><Busy submit disabled={!alias.trim() || now === model.id} run={() => set(alias.trim())}>Set</Busy></div>
      </form>}
    </Panel>
  );
}

const REFRESH = 5000;

function lossOf(p: Performance | undefined, c: ClassPerformance | undefined): number | undefined {
  if (c?.prequential) return number(c.prequential.errorRate);
  return p?.prequential && number(p.prequential.meanLoss);
}

/** Compared shows a model and its followers, each on the observations that it has learned. */
export function Compared({ model }: { model: Model }) {
  const list = useLoad((signal) => compareModels(model.id, signal), [model.id, model.follows], REFRESH);
  const rows = list.value ?? [];
  if (rows.length < 2) return list.error === undefined ? null : <Failure error={list.error} />;
  return (
    <Panel title="Champion and challengers" id="comparison">
      <Scroll label="Champion and challengers">
        <table>
          <thead>
            <tr>
              <th scope="col">Model</th><th scope="col">Learner</th>
              {["Observations", "Behind", model.spec?.classes ? "Prequential error rate" : "Prequential loss", "Followed, on the same"].map((t) => <th scope="col" class="right" key={t}>{t}</th>)}
              <th scope="col" class="right">Prequential skill</th>
            </tr>
          </thead>
          <tbody>{rows.map((r) => <Row key={r.model} r={r} here={r.model === model.id} />)}</tbody>
        </table>
      </Scroll>
    </Panel>
  );
}

function Row({ r, here }: { r: Comparison; here: boolean }) {
  const skill = r.classes?.prequential ? r.classes.prequential.skill : r.performance?.prequential?.skill;
  const id = r.model ?? "";
  return (
    <tr>
      <th scope="row">{here ? <strong>{id}</strong> : <a href={modelHref(id)}>{id}</a>}</th>
      <td>{r.learner}</td>
      <td class="right"><Num name={`compared.${id}.observations`} value={number(r.observations)} write={count} /></td>
      <td class="right"><Num value={number(r.behind)} write={count} /></td>
      <td class="right"><Num name={`compared.${id}.loss`} value={lossOf(r.performance, r.classes)} /></td>
      <td class="right"><Num name={`compared.${id}.followed`} value={lossOf(r.followed, r.followedClasses)} /></td>
      <td class="right skill"><Light skill={skill} brief /> <Num value={skill} /></td>
    </tr>
  );
}
