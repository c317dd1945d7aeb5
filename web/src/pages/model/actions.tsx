import { useState } from "preact/hooks";
import { deleteModel, exportModel, listSnapshots, restoreModel, snapshotModel, undeleteModel } from "../../api/client";
import type { Model, Snapshot } from "../../api/types";
import { bytes, count, moment, number, plural } from "../../format";
import { go, modelHref, modelsHref } from "../../router";
import { useMay } from "../../ui/may";
import { useLoad } from "../../ui/load";
import { useNotice } from "../../ui/notice";
import { Busy, Dialog, Failure, Field, Num, Panel, Scroll } from "../../ui/parts";

/** Snapshots lists the snapshots of a model and restores them. */
export function Snapshots({ model, sequence, newest, changed }: {
  model: Model; sequence: number; newest: number; changed: () => void;
}) {
  const { admin } = useMay();
  // The server writes snapshots by itself: newest is the sequence of the last one.
  const list = useLoad((signal) => listSnapshots(model.id, signal), [model.id, newest]);
  const [error, setError] = useState<unknown>();
  const [restoring, setRestoring] = useState<{ to: number }>();
  const notice = useNotice();
  const take = async (): Promise<void> => {
    try {
      const s = await snapshotModel(model.id);
      setError(undefined);
      notice({ text: `A snapshot was written at observation ${count(number(s.sequence))}.` });
      list.again();
    } catch (e) {
      setError(e);
    }
  };
  const snapshots = list.value ?? [];
  return (
    <Panel title="Snapshots" id="snapshots" aside={admin &&
      <>
        <Busy kind="small" run={take}>Snapshot now</Busy>
        <button type="button" class="small" onClick={() => setRestoring({ to: number(snapshots[0]?.sequence) })}>Restore…</button>
      </>}
    >
      <Failure error={error ?? list.error} />
      {list.value && snapshots.length === 0 && <p class="note">None yet. The server writes one when the log grows long{admin && "; “Snapshot now” writes one at once"}.</p>}
      {snapshots.length > 0 && (
        <Scroll label="Snapshots">
          <table>
            <thead><tr><th scope="col">At</th><th scope="col">Written</th><th scope="col" class="right">Size</th><th scope="col">Digest</th>{admin && <th><span class="unseen">Restore</span></th>}</tr></thead>
            <tbody>{snapshots.map((s) => <SnapshotRow key={number(s.sequence)} s={s} restore={admin ? () => setRestoring({ to: number(s.sequence) }) : undefined} />)}</tbody>
          </table>
        </Scroll>
      )}
      {restoring && (
        <Restore
          model={model} from={sequence} to={restoring.to} close={() => setRestoring(undefined)}
          done={() => { setRestoring(undefined); list.again(); changed(); }}
        />
      )}
    </Panel>
  );
}

function SnapshotRow({ s, restore }: { s: Snapshot; restore: (() => void) | undefined }) {
  const at = count(number(s.sequence));
  return (
    <tr>
      <th scope="row"><Num value={number(s.sequence)} write={count} /></th>
      <td>{moment(s.createTime)}</td>
      <td class="right"><Num value={number(s.bytes)} write={bytes} /></td>
      <td><code title={s.stateDigest}>{(s.stateDigest ?? "").slice(0, 12)}</code></td>
      {restore && <td class="right"><button type="button" class="small" aria-label={`Restore to ${at}`} onClick={restore}>Restore…</button></td>}
    </tr>
  );
}

/** Restore says what a restore would undo, and asks. */
function Restore({ model, from, to, close, done }: { model: Model; from: number; to: number; close: () => void; done: () => void }) {
  const [text, setText] = useState(String(to));
  const [tried, setTried] = useState<{ to: number; undone: number }>();
  const [error, setError] = useState<unknown>();
  const notice = useNotice();
  const valid = /^\d+$/.test(text.trim());
  const wanted = Number(text);
  const call = async (dry: boolean): Promise<void> => {
    try {
      const answer = await restoreModel(model.id, wanted, dry);
      setError(undefined);
      if (dry) {
        setTried({ to: wanted, undone: number(answer.undone) });
        return;
      }
      notice({ text: `${model.id} is back at observation ${count(wanted)}.` });
      done();
    } catch (e) {
      setTried(undefined);
      setError(e);
    }
  };
  return (
    <Dialog title={`Restore ${model.id}`} close={close}>
      <form onSubmit={(e) => e.preventDefault()} noValidate>
        <p>The model has learned {plural(from, "observation")}. What it learned after the one below is undone, its log and ids included.</p>
        <Field label="Back to observation" wrong={valid ? undefined : "A whole number from 0."} hint="Of a snapshot, or any that the log still reaches. 0 undoes all.">
          {(a) => <input {...a} inputMode="numeric" autofocus value={text} onInput={(e) => { setText(e.currentTarget.value); setTried(undefined); }} />}
        </Field>
        <div role="status">
          {tried && <p class="dry"><strong data-name="undone">{plural(tried.undone, "observation")}</strong> would be undone.</p>}
        </div>
        <Failure error={error} />
        <div class="actions">
          <button type="button" onClick={close}>Cancel</button>
          <Busy submit disabled={!valid} run={() => call(true)}>Dry run</Busy>
          <Busy kind="danger" disabled={tried?.to !== wanted} run={() => call(false)}>Restore</Busy>
        </div>
      </form>
    </Dialog>
  );
}

/** Transfer are the buttons to export and to delete. */
export function Transfer({ model }: { model: Model }) {
  const [error, setError] = useState<unknown>();
  const [deleting, setDeleting] = useState(false);
  const notice = useNotice();
  const save = async (): Promise<void> => {
    try {
      const blob = await exportModel(model.id);
      setError(undefined);
      download(blob, `${model.id}.hindsight`);
      notice({ text: `${model.id} was exported: ${bytes(blob.size)}.` });
    } catch (e) {
      setError(e);
    }
  };
  return (
    <>
      <div class="actions">
        <Busy run={save}>Export</Busy>
        <button type="button" class="danger" onClick={() => setDeleting(true)}>Delete…</button>
      </div>
      <Failure error={error} />
      {deleting && <Delete model={model} close={() => setDeleting(false)} />}
    </>
  );
}

function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The browser has taken the bytes when the next task runs.
  setTimeout(() => URL.revokeObjectURL(link.href), 0);
}

function Delete({ model, close }: { model: Model; close: () => void }) {
  const [typed, setTyped] = useState("");
  const [purge, setPurge] = useState(false);
  const [error, setError] = useState<unknown>();
  const notice = useNotice();
  const back = async (): Promise<void> => {
    try {
      await undeleteModel(model.id);
      notice({ text: `${model.id} is back.` });
      go(modelHref(model.id));
    } catch (e) {
      notice({ text: e instanceof Error ? e.message : String(e) });
    }
  };
  const remove = async (): Promise<void> => {
    try {
      const deleted = await deleteModel(model.id, purge);
      notice({
        text: `${model.id} was deleted.`,
        ...(deleted?.purgeTime ? { action: { text: "Bring it back", run: () => void back() } } : {}),
      });
      go(modelsHref());
    } catch (e) {
      setError(e);
    }
  };
  return (
    <Dialog title={`Delete ${model.id}`} close={close}>
      <form onSubmit={(e) => e.preventDefault()} noValidate>
        <p>The model, its log and its snapshots are removed. The server may keep deleted models for a time; then it can be brought back. Export it first to keep it for good.</p>
        <Field label={`Type ${model.id} to confirm`}>
          {(a) => <input {...a} autofocus autocomplete="off" spellcheck={false} value={typed} onInput={(e) => setTyped(e.currentTarget.value)} />}
        </Field>
        <label class="check"><input type="checkbox" checked={purge} onChange={(e) => setPurge(e.currentTarget.checked)} />At once, so that it cannot be brought back</label>
        <Failure error={error} />
        <div class="actions">
          <button type="button" onClick={close}>Cancel</button>
          <Busy submit kind="danger" disabled={typed !== model.id} run={remove}>Delete</Busy>
        </div>
      </form>
    </Dialog>
  );
}
