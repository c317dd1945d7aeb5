import type { InputSpec, Spec } from "../../api/types";
import { count, plural } from "../../format";
import type { Table } from "./table";

/** Kind is what a column is for the model. */
export type Kind = "numeric" | "boolean" | "categorical" | "time" | "label" | "class" | "none";

export interface Column {
  name: string;
  kind: Kind;
  /** Why it is of this kind. */
  why: string;
}

// As hindsight infer: few different integers, each of them often enough, are categories.
const FEW_INTEGERS = 31;
const CELLS_EACH = 30;
/** Above this share of different texts a column names its rows. */
const OF_THEIR_OWN = 0.5;
const LONGEST_TEXT = 256;

const GAPS = ["", "na", "n/a", "nan", "null", "none", "?"];
const PAIRS = [["true", "false"], ["yes", "no"], ["t", "f"], ["y", "n"], ["on", "off"], ["1", "0"]];
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const TIME = /^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/;

const isGap = (cell: string): boolean => GAPS.includes(cell.toLowerCase());

function numberOf(cell: string, table: Table): number | undefined {
  const plain = table.decimalComma ? cell.replace(",", ".") : cell;
  return NUMBER.test(plain) && Math.abs(Number(plain)) <= 1e100 ? Number(plain) : undefined;
}

/** timeOf is a time in RFC 3339. A time without a zone is one of UTC. */
function timeOf(cell: string): string | undefined {
  if (!TIME.test(cell)) return undefined;
  const at = new Date(cell.length === 10 || /(Z|[+-]\d\d:\d\d)$/.test(cell) ? cell.replace(" ", "T") : `${cell.replace(" ", "T")}Z`);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

/** infer says what the columns are. The label is the column y, label or target, else the last one. */
export function infer(table: Table): Column[] {
  const named = table.columns.findIndex((c) => ["y", "label", "target"].includes(c.toLowerCase()));
  const target = named >= 0 ? named : table.columns.length - 1;
  return table.columns.map((name, at) => {
    const cells = table.rows.map((r) => r[at] ?? "").filter((c) => !isGap(c));
    const different = new Set(cells);
    const numbers = cells.every((c) => numberOf(c, table) !== undefined);
    const column = (kind: Kind, why: string): Column => {
      const gaps = table.rows.length - cells.length;
      return { name, kind, why: gaps > 0 ? `${why}; ${plural(gaps, "cell is", "cells are")} empty` : why };
    };
    if (cells.length === 0) return column("none", "every cell is empty");
    if (at === target) return numbers ? column("label", `numbers, ${count(different.size)} different`) : column("class", plural(different.size, "class", "classes"));
    if (PAIRS.some((p) => cells.every((c) => p.includes(c.toLowerCase())))) return column("boolean", [...different].join(" and "));
    if (cells.every((c) => timeOf(c) !== undefined)) return column("time", `such as ${cells[0] ?? ""}`);
    const codes = cells.some((c) => /^0\d+$/.test(c));
    if (numbers && !codes) {
      const few = different.size > 1 && different.size <= FEW_INTEGERS && CELLS_EACH * different.size <= cells.length && cells.every((c) => /^[+-]?\d+$/.test(c));
      return few ? column("categorical", `${different.size} different integers`) : column("numeric", `such as ${cells[0] ?? ""}`);
    }
    if (cells.some((c) => new TextEncoder().encode(c).length > LONGEST_TEXT)) return column("none", `texts of more than ${LONGEST_TEXT} bytes`);
    if (different.size > OF_THEIR_OWN * table.rows.length && different.size > FEW_INTEGERS) return column("none", "most cells are texts of their own: it names the row");
    return column("categorical", plural(different.size, "different text"));
  });
}

/** specOf is the spec of a model that learns the columns. */
export function specOf(table: Table, columns: Column[]): Spec {
  const inputs = columns.filter((c) => !["label", "class", "none"].includes(c.kind)).map((c): InputSpec => ({ name: c.name, [c.kind]: {} }));
  const target = columns.findIndex((c) => c.kind === "class");
  if (target < 0) return { inputs };
  const classes = new Set(table.rows.map((r) => r[target] ?? "").filter((c) => !isGap(c)));
  return { inputs, classes: { maxClasses: Math.max(2, classes.size) } };
}

/**
 * ids returns the id of each row, taken in their order: a hash of the file down to the row. So a model learns a row once,
 * also from a second upload of the file, or of the file with further rows.
 */
function ids(table: Table): (row: string[], n: number) => string {
  let a = 0, b = 0;
  const add = (cells: string[]): void => {
    for (const c of new TextEncoder().encode(JSON.stringify(cells))) {
      a = Math.imul(a ^ c, 0x9e3779b1);
      b = Math.imul(((b << 5) | (b >>> 27)) ^ c, 0x85ebca6b);
    }
  };
  add(table.columns);
  return (row, n) => {
    add(row);
    return `csv-${(a >>> 0).toString(36)}-${(b >>> 0).toString(36)}-${n}`;
  };
}

/** observationsOf are the rows as the API takes them. A row without a label is left out. */
export function observationsOf(table: Table, columns: Column[]): Record<string, unknown>[] {
  const target = columns.findIndex((c) => c.kind === "label" || c.kind === "class");
  const idOf = ids(table);
  return table.rows.flatMap((row, n) => {
    const observationId = idOf(row, n);
    const label = row[target] ?? "";
    if (isGap(label)) return [];
    const inputs = Object.fromEntries(columns.flatMap((c, at) => (["label", "class", "none"].includes(c.kind) ? [] : [[c.name, valueOf(row[at] ?? "", c.kind, table)]])));
    return [{ inputs, observationId, ...(columns[target]?.kind === "class" ? { class: label } : { label: numberOf(label, table) ?? label }) }];
  });
}

function valueOf(cell: string, kind: Kind, table: Table): unknown {
  if (isGap(cell)) return null;
  switch (kind) {
    case "numeric": return numberOf(cell, table) ?? cell;
    case "boolean": return PAIRS.some(([yes]) => yes === cell.toLowerCase());
    case "time": return timeOf(cell) ?? cell;
    default: return cell;
  }
}
