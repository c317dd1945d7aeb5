import { useState } from "preact/hooks";
import { compareModels, deleteAlias, listAliases, setAlias, updateModel } from "../../api/client";
import type { ClassPerformance, Comparison, Model, Performance } from "../../api/types";
import { count, number } from "../../format";
import { modelHref } from "../../router";
import { useLoad } from "../../ui/load";
import { useNotice } from "../../ui/notice";
import { Busy, Dialog, Failure, Field, Light, Num, Panel, Scroll } from "../../ui/parts";
import { labelsOf, labelsText } from "../draft";

/** Edit changes the display name and the labels. What another changed meanwhile is refused by the etag. */
export function Edit({ model, changed }: { model: Model; changed: () => void }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>Edit…</button>
      {open && <EditDialog model={model} close={() => setOpen(false)} done={() => { setOpen(false); changed(); }} />}
    </>
  );
}

function EditDialog({ model, close, done }: { model: Model; close: () => void; done: () => void }) {
  // The model as it was when the dialog opened: what is saved is a change of that one.
  const [before] = useState(model);
  const [name, setName] = useState(model.displayName ?? "");
  const [labels, setLabels] = useState(labelsText(model.labels ?? {}));
  const [error, setError] = useState<unknown>();
  const notice = useNotice();
  const save = async (): Promise<void> => {
    try {
      await updateModel(
        { id: before.id, etag: before.etag ?? "", displayName: name.trim(), labels: labelsOf(labels) }, "displayName,labels",
      );
      notice({ text: `${before.id} was changed.` });
      done();
    } catch (e) {
      setError(e);
    }
  };
  return (
    <Dialog title={`Edit ${before.id}`} close={close}>
      <form onSubmit={(e) => { e.preventDefault(); void save(); }} noValidate>
        <Field label="Display name" hint="For people.">
          {(a) => <input {...a} autofocus value={name} onInput={(e) => setName(e.currentTarget.value)} />}
        </Field>
        <Field label="Labels" hint="For selecting models: team=rides, env=prod">
          {(a) => <input {...a} spellcheck={false} value={labels} onInput={(e) => setLabels(e.currentTarget.value)} />}
        </Field>
        <Failure error={error} />
        <div class="actions">
          <button type="button" onClick={close}>Cancel</button>
          <Busy submit kind="primary">Save</Busy>
        </div>
      </form>
    </Dialog>
  );
}

/** Aliases are the other names of a model. One of another model changes over from that. */
export function Aliases({ model, changed }: { model: Model; changed: () => void }) {
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
  // What the page shows is what must be so: "-" is an alias that is not there.
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
          <code>{a}</code> <Busy kind="small" run={() => remove(a)}>Remove<span class="unseen"> the alias {a}</span></Busy>
        </div>
      ))}
      <form onSubmit={(e) => { e.preventDefault(); if (alias.trim()) void set(alias.trim()); }} noValidate>
        <Field label="Alias" hint={now && now !== model.id ? `It names ${now} now, and would change over.` : "Such as champion."}>
          {(a) => <input {...a} autocomplete="off" spellcheck={false} value={alias} onInput={(e) => setTyped(e.currentTarget.value)} />}
        </Field>
        <Failure error={error ?? all.error} />
        <div class="actions"><Busy submit disabled={!alias.trim() || now === model.id}>Set</Busy></div>
      </form>
    </Panel>
  );
}

const REFRESH = 5000;

function lossOf(p: Performance | undefined, c: ClassPerformance | undefined): number | undefined {
  if (c?.prequential) return number(c.prequential.errorRate);
  return p?.prequential && number(p.prequential.meanLoss);
}

/** Compared is a model and those that follow it, each on the observations that it has learned. */
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
              {["Observations", "Behind", model.spec?.classes ? "Error rate" : "Mean loss", "Followed, on the same"].map((t) => <th scope="col" class="right" key={t}>{t}</th>)}
              <th scope="col" class="right">Skill</th>
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
