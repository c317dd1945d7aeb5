import { useState } from "preact/hooks";
import { importModel } from "../api/client";
import { count, number } from "../format";
import { go, modelHref } from "../router";
import { useNotice } from "../ui/notice";
import { Busy, Dialog, Failure, Field } from "../ui/parts";

/** Import creates a model from the file of an export. */
export function Import({ close }: { close: () => void }) {
  const [id, setId] = useState("");
  const [file, setFile] = useState<File>();
  const [error, setError] = useState<unknown>();
  const notice = useNotice();
  const run = async (): Promise<void> => {
    if (!file || !id.trim()) return;
    try {
      const model = await importModel(id.trim(), file);
      notice({ text: `Model ${model.id} was imported with ${count(number(model.sequence))} observations.` });
      go(modelHref(model.id));
    } catch (e) {
      setError(e);
    }
  };
  return (
    <Dialog title="Import a model" close={close}>
      <form onSubmit={(e) => e.preventDefault()} noValidate>
        <Field label="File of an export">
          {(a) => <input {...a} type="file" onChange={(e) => { setFile(e.currentTarget.files?.[0]); setError(undefined); }} />}
        </Field>
        <Field label="Id" hint="The name of the new model.">
          {(a) => <input {...a} autocomplete="off" spellcheck={false} value={id} onInput={(e) => { setId(e.currentTarget.value); setError(undefined); }} />}
        </Field>
        <Failure error={error} />
        <div class="actions">
          <button type="button" onClick={close}>Cancel</button>
          <Busy kind="primary" disabled={!file || !id.trim()} run={run}>Import</Busy>
        </div>
      </form>
    </Dialog>
  );
}
