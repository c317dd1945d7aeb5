import { useEffect, useState } from "preact/hooks";
import { createModel, inferSpec } from "../../api/client";
import type { Inferred } from "../../api/types";
import { count, plural } from "../../format";
import { go, modelHref } from "../../router";
import { useNotice } from "../../ui/notice";
import { Busy, Failure, Field, Panel, Scroll } from "../../ui/parts";
import { dropped } from "./drop";
import { kindOf, observationsOf, specOf, textOf, type Choice, type Kind } from "./file";
import { replay } from "./replay";

const KINDS: readonly (readonly [Kind, string])[] = [
  ["numeric", "number"], ["boolean", "true or false"], ["categorical", "category"], ["time", "time"], ["text", "text"], ["vector", "numbers"],
  ["label", "label, a number"], ["class", "label, a class"], ["none", "left out"],
];

/** Table is a file that the server has read. */
interface Table {
  name: string;
  csv: string;
  /** What the reading of the file itself says. */
  notes: string[];
  inferred: Inferred;
  /** The column of the label, empty without one. */
  target: string;
}

const isTarget = (kind: Kind): boolean => kind === "label" || kind === "class";
const targetOf = (inferred: Inferred): string => inferred.columns.find((c) => isTarget(kindOf(c)))?.name ?? "";

/** CsvPage makes a model of a CSV file: infer, review, create, replay, watch. */
export function CsvPage() {
  const [table, setTable] = useState<Table>();
  const [choice, setChoice] = useState<Choice>({});
  const [id, setId] = useState("");
  const [error, setError] = useState<unknown>();
  const notice = useNotice();
  const file = dropped.use();

  useEffect(() => {
    if (!file) return;
    const read = async (): Promise<void> => {
      const { csv, notes } = await textOf(file);
      const inferred = await inferSpec({ csv });
      setTable({ name: file.name, csv, notes, inferred, target: targetOf(inferred) });
      setChoice({});
      setId(file.name.toLowerCase().replace(/\.[a-z]+$/, "").replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+/, "").slice(0, 63));
      setError(undefined);
    };
    read().catch((e: unknown) => {
      setTable(undefined);
      setError(e);
    });
  }, [file]);

  // A model has one label: the column that was the label becomes an input again, as the server infers it.
  const choose = async (of: Table, name: string, kind: Kind): Promise<void> => {
    if (!isTarget(kind)) {
      setChoice((before) => ({ ...before, [name]: kind }));
      if (of.target === name) setTable({ ...of, target: "" });
      return;
    }
    try {
      const inferred = await inferSpec({ csv: of.csv, target: name, classes: kind === "class" });
      setChoice(({ [name]: _, ...rest }) => rest);
      setTable({ ...of, inferred, target: name });
      setError(undefined);
    } catch (e) {
      setError(e);
    }
  };
  const columns = (table?.inferred.columns ?? []).map((c) => ({ name: c.name, inferred: kindOf(c), kind: choice[c.name] ?? kindOf(c), why: c.reason }));
  const why = !id ? "The model needs an id." : !table?.target ? "No column is the label." : columns.some((c) => !isTarget(c.kind) && c.kind !== "none") ? undefined : "No column is an input.";
  const rows = Number(table?.inferred.rows ?? 0);
  const create = async (of: Table): Promise<void> => {
    try {
      const spec = specOf(of.inferred, choice);
      const observations = await observationsOf(of.csv, of.inferred, spec);
      const model = await createModel({ id, spec });
      dropped.set(undefined);
      void replay(model.id, observations, notice);
      go(modelHref(model.id));
    } catch (e) {
      setError(e);
    }
  };

  return (
    <>
      <div class="heading"><h1>A model of a CSV file</h1></div>
      <form class="parts-of" onSubmit={(e) => e.preventDefault()} noValidate>
        <Panel title="File">
          <Field label="CSV file" hint="Choose a file, or drop it anywhere on the page. Its first line names the columns. The rows are learned in their order.">
            {(a) => <input {...a} type="file" accept=".csv,.tsv,.txt,text/csv" onChange={(e) => dropped.set(e.currentTarget.files?.[0])} />}
          </Field>
          {!table && <Failure error={error} />}
        </Panel>
        {table && (
          <>
            <Panel title={`Columns of ${table.name}`} aside={<span class="note">{plural(rows, "row")}</span>}>
              <Scroll label="Columns">
                <table>
                  <thead><tr><th scope="col">Column</th><th scope="col">Is</th><th scope="col">Because</th></tr></thead>
                  <tbody>
                    {columns.map((c) => (
                      <tr key={c.name}>
                        <th scope="row">{c.name}</th>
                        <td>
                          <select aria-label={`What ${c.name} is`} value={c.kind} onChange={(e) => void choose(table, c.name, e.currentTarget.value as Kind)}>
                            {KINDS.filter(([kind]) => kind !== "vector" || c.inferred === kind).map(([kind, text]) => <option key={kind} value={kind}>{text}</option>)}
                          </select>
                        </td>
                        <td class="wrap">{c.why}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Scroll>
              {[...table.notes, ...(table.inferred.notes ?? [])].map((note) => <p class="note" key={note}>{note}</p>)}
            </Panel>
            <Panel title="Model">
              <Field label="Id" hint="The name that requests use. The learner is auto.">
                {(a) => <input {...a} autocomplete="off" spellcheck={false} value={id} onInput={(e) => { setId(e.currentTarget.value); setError(undefined); }} />}
              </Field>
              <details><summary>Spec</summary><pre tabIndex={0} class="spec" aria-label="Spec as JSON">{JSON.stringify(specOf(table.inferred, choice), null, 2)}</pre></details>
              <Failure error={error} />
              <div class="actions">
                <span class="why" id="why-not" role="status">{why}</span>
                <Busy submit kind="primary" disabled={why !== undefined} describedBy="why-not" run={() => create(table)}>Create, and learn {count(rows)} rows</Busy>
              </div>
            </Panel>
          </>
        )}
      </form>
    </>
  );
}
