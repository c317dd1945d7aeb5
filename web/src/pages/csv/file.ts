import { inferSpec } from "../../api/client";
import type { Inferred, InferredColumn, InputSpec, Spec } from "../../api/types";

/** Kind is what a column is for the model. */
export type Kind = "numeric" | "boolean" | "categorical" | "time" | "text" | "vector" | "label" | "class" | "none";

const KINDS: Record<string, Kind> = {
  KIND_NUMBER: "numeric", KIND_BOOLEAN: "boolean", KIND_CATEGORY: "categorical", KIND_TIME: "time", KIND_TEXT: "text", KIND_VECTOR: "vector", KIND_LABEL: "label", KIND_CLASS: "class",
};

/** kindOf is the kind of a column as the server infers it. */
export const kindOf = (c: InferredColumn): Kind => KINDS[c.kind ?? ""] ?? "none";

/** Choice is a kind that the reader has chosen for a column that is no label. */
export type Choice = Record<string, Kind>;

/** textOf is the text of a file: UTF-16 with a byte order mark, UTF-8, or else Windows-1252. */
export async function textOf(file: File): Promise<{ csv: string; notes: string[] }> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const encoding = bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : "utf-8";
  if (bytes.includes(0) && encoding === "utf-8") throw new Error(`${file.name} is no text, expected a CSV file.`);
  try {
    return { csv: new TextDecoder(encoding, { fatal: true }).decode(bytes), notes: [] };
  } catch {
    return { csv: new TextDecoder("windows-1252").decode(bytes), notes: ["The file is not UTF-8 and is read as Windows-1252: if letters are wrong, convert it to UTF-8."] };
  }
}

/** specOf is the inferred spec with what the reader has chosen. */
export function specOf(inferred: Inferred, choice: Choice): Spec {
  const inputs = inferred.columns.flatMap((c): InputSpec[] => {
    const kind = kindOf(c), chosen = choice[c.name] ?? kind;
    if (["label", "class", "none"].includes(chosen)) return [];
    const declared = inferred.spec.inputs?.find((i) => i.name === c.name);
    return [declared && chosen === kind ? declared : { name: c.name, [chosen]: {} } as InputSpec];
  });
  return { ...inferred.spec, inputs };
}

/**
 * ids returns the id of each row, taken in their order: a hash of the file down to the row. So a model learns a row once,
 * also from a second upload of the file, or of the file with further rows.
 */
function ids(columns: InferredColumn[]): (row: string, n: number) => string {
  let a = 0, b = 0;
  const add = (text: string): void => {
    for (const c of new TextEncoder().encode(text)) {
      a = Math.imul(a ^ c, 0x9e3779b1);
      b = Math.imul(((b << 5) | (b >>> 27)) ^ c, 0x85ebca6b);
    }
  };
  add(JSON.stringify(columns.map((c) => c.name)));
  return (row, n) => {
    add(row);
    return `csv-${(a >>> 0).toString(36)}-${(b >>> 0).toString(36)}-${n}`;
  };
}

/** observationsOf are the rows as the API takes them. A row without a label is left out. */
export async function observationsOf(csv: string, inferred: Inferred, spec: Spec): Promise<Record<string, unknown>[]> {
  const at = inferred.columns.findIndex((c) => ["label", "class"].includes(kindOf(c)));
  const target = inferred.columns[at]?.name ?? "";
  const { values = "" } = await inferSpec({ csv, target, classes: spec["classes"] !== undefined, values: true, spec });
  const names = new Set((spec["inputs"] as InputSpec[]).map((i) => i.name));
  const idOf = ids(inferred.columns);
  return values.split("\n").filter((line) => line !== "").flatMap((line, n) => {
    const row = JSON.parse(line) as unknown[];
    const observationId = idOf(line, n), label = row[at];
    if (label === null) return [];
    const inputs = Object.fromEntries(inferred.columns.flatMap((c, i) => (names.has(c.name) ? [[c.name, row[i]]] : [])));
    return [{ inputs, observationId, ...(spec["classes"] ? { class: label } : { label }) }];
  });
}
