import { useEffect, useState } from "preact/hooks";
import { createModel } from "../../api/client";
import { count, plural } from "../../format";
import { go, modelHref } from "../../router";
import { useNotice } from "../../ui/notice";
import { Busy, Failure, Field, Panel, Scroll } from "../../ui/parts";
import { dropped } from "./drop";
import { infer, observationsOf, specOf, type Column, type Kind } from "./infer";
import { replay } from "./replay";
import { readTable, type Table } from "./table";

const KINDS: readonly (readonly [Kind, string])[] = [
  ["numeric", "number"], ["boolean", "true or false"], ["categorical", "category"], ["time", "time"],
  ["label", "label, a number"], ["class", "label, a class"], ["none", "left out"],
];

const isTarget = (c: Column): boolean => c.kind === "label" || c.kind === "class";

/** CsvPage makes a model of a CSV file: infer, review, create, replay, watch. */
export function CsvPage() {
  const [table, setTable] = useState<Table>();
  const [columns, setColumns] = useState<Column[]>([]);
  const [id, setId] = useState("");
  const [error, setError] = useState<unknown>();
  const notice = useNotice();
  const file = dropped.use();

  useEffect(() => {
    if (!file) return;
    file.text().then((text) => {
      const read = readTable(file.name, text);
      setTable(read);
      setColumns(infer(read));
      setId(file.name.toLowerCase().replace(/\.[a-z]+$/, "").replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+/, "").slice(0, 63));
      setError(undefined);
    }).catch((e: unknown) => {
      setTable(undefined);
      setError(e);
    });
  }, [file]);

  // A model has one label: the column that was the label becomes an input again.
  const choose = (at: number, kind: Kind): void => {
    const next = columns.map((c, n) => (n === at ? { ...c, kind } : c));
    const target = next[at];
    setColumns(target && isTarget(target) ? next.map((c, n) => (n !== at && isTarget(c) ? { ...c, kind: c.kind === "label" ? "numeric" : "categorical" } : c)) : next);
  };
  const why = !id ? "The model needs an id." : !columns.some(isTarget) ? "No column is the label." : columns.some((c) => !isTarget(c) && c.kind !== "none") ? undefined : "No column is an input.";
  const create = async (of: Table): Promise<void> => {
    try {
      const observations = observationsOf(of, columns);
      const model = await createModel({ id, spec: specOf(of, columns) });
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
            <Panel title={`Columns of ${table.name}`} aside={<span class="note">{plural(table.rows.length, "row")}</span>}>
              <Scroll label="Columns">
                <table>
                  <thead><tr><th scope="col">Column</th><th scope="col">Is</th><th scope="col">Because</th></tr></thead>
                  <tbody>
                    {columns.map((c, n) => (
                      <tr key={c.name}>
                        <th scope="row">{c.name}</th>
                        <td>
                          <select aria-label={`What ${c.name} is`} value={c.kind} onChange={(e) => choose(n, e.currentTarget.value as Kind)}>
                            {KINDS.map(([kind, text]) => <option key={kind} value={kind}>{text}</option>)}
                          </select>
                        </td>
                        <td class="wrap">{c.why}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Scroll>
            </Panel>
            <Panel title="Model">
              <Field label="Id" hint="The name that requests use. The learner is auto.">
                {(a) => <input {...a} autocomplete="off" spellcheck={false} value={id} onInput={(e) => { setId(e.currentTarget.value); setError(undefined); }} />}
              </Field>
              <details><summary>Spec</summary><pre tabIndex={0} class="spec" aria-label="Spec as JSON">{JSON.stringify(specOf(table, columns), null, 2)}</pre></details>
              <Failure error={error} />
              <div class="actions">
                <span class="why" id="why-not" role="status">{why}</span>
                <Busy submit kind="primary" disabled={why !== undefined} describedBy="why-not" run={() => create(table)}>Create, and learn {count(table.rows.length)} rows</Busy>
              </div>
            </Panel>
          </>
        )}
      </form>
    </>
  );
}
