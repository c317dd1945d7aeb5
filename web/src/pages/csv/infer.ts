import type { Spec } from "../../api/types";
import { count, plural } from "../../format";
import { areNames, evidenceOf, followNoLine, namesThings, ORDERED, ORDERLESS } from "./names";
import { numbersOf } from "./numbers";
import type { Table } from "./table";

/** Kind is what a column is for the model. */
export type Kind = "numeric" | "boolean" | "categorical" | "time" | "label" | "class" | "none";

export interface Column {
  name: string;
  kind: Kind;
  /** Why it is of this kind. */
  why: string;
  /** The categories are so many that each is a key. */
  key?: boolean;
}

/** Above this share of different texts a column names its rows. */
const OF_THEIR_OWN = 0.5;
const LONGEST_TEXT = 256;
/** As hindsight infer: more categories are keys. */
const OWN_FEATURES = 64;

// As of hindsight infer: none and nil may be texts.
const UNKNOWN = ["", "na", "n/a", "n.a.", "nan", "-nan", "nan(ind)", "-nan(ind)", "null", "?", "<na>", "nat", "\\n",
  "#n/a", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"];
const GAPS = ["none", "nil", "-", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"];
const PAIRS = [["true", "false"], ["yes", "no"], ["t", "f"], ["y", "n"], ["on", "off"], ["1", "0"]];
const TIME = /^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/;

/** isUnknown tells whether a text among texts is a missing value. */
const isUnknown = (cell: string): boolean => UNKNOWN.includes(cell.toLowerCase()) || /^-?1\.#/.test(cell);
/** isGap tells whether a text among numbers, booleans and times is a missing value. */
const isGap = (cell: string): boolean => isUnknown(cell) || GAPS.includes(cell.toLowerCase());
const isInteger = (cell: string): boolean => /^[+-]?\d+$/.test(cell);
const isCode = (cell: string): boolean => /^0\d+$/.test(cell);

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
  const labels = labelsOf(table, target);
  return table.columns.map((name, at) => columnOf(table, name, at, at === target, labels));
}

/** labelsOf are the labels, or whether a class is the first one, and undefined without a label. */
function labelsOf(table: Table, target: number): (number | undefined)[] {
  const read = numbersOf(table, target);
  const cells = table.rows.map((r) => r[target] ?? "");
  const first = cells.find((c) => !isUnknown(c)) ?? "";
  const origin = read.of(first) ?? 0;
  return cells.map((c) => {
    const number = read.of(c);
    if (isUnknown(c)) return undefined;
    return number === undefined ? Number(c === first) : number - origin;
  });
}

function columnOf(table: Table, name: string, at: number, target: boolean, labels: (number | undefined)[]): Column {
  const all = table.rows.map((r) => r[at] ?? "");
  const cells = all.filter((c) => !isGap(c));
  const texts = all.filter((c) => (target ? !isUnknown(c) : c !== ""));
  const read = numbersOf(table, at);
  const numbers = cells.filter((c) => read.of(c) !== undefined).length;
  const times = cells.filter((c) => timeOf(c) !== undefined).length;
  const different = new Set(cells);
  const column = (kind: Kind, why: string, values = cells): Column => {
    const gaps = all.length - values.length;
    const key = kind === "categorical" && new Set(values).size > OWN_FEATURES;
    const says = key ? `${why}; more than ${OWN_FEATURES}, so that each is a key, whose effect auto learns` : why;
    return { name, kind, why: gaps > 0 ? `${says}; ${plural(gaps, "cell is", "cells are")} empty` : says, ...(key ? { key } : {}) };
  };
  const place = (is: (cell: string) => boolean): string => {
    const row = all.findIndex((c) => !isGap(c) && is(c));
    return `${JSON.stringify((all[row] ?? "").slice(0, 40))} in row ${row + 1}`;
  };
  // odd adds the cell without which most cells would make the column one of times or numbers.
  const odd = (why: string): string => {
    const most = (n: number): boolean => 2 * n > cells.length && n < cells.length;
    const says = (n: number, kind: string, what: string): string => `${why}; ${count(n)} of ${count(cells.length)} cells are ${kind}, and ${what}`;
    const plain = cells.filter((c) => !isCode(c)).length, exact = cells.filter((c) => !read.huge(c)).length;
    if (most(times)) return says(times, "times", `${place((c) => timeOf(c) === undefined)} is none`);
    if (most(numbers)) return says(numbers, "numbers", `${place((c) => read.of(c) === undefined)} is none`);
    if (numbers === cells.length && most(plain)) return says(plain, "numbers", `${place(isCode)} is a code, because it begins with a 0`);
    if (numbers === cells.length && most(exact)) return says(exact, "numbers", `${place(read.huge)} is an id, because no number has all integers from 2^53 on`);
    return why;
  };
  if (cells.length === 0) return column("none", "every cell is empty");
  if (numbers < cells.length && cells.every((c) => read.of(c) !== undefined || read.ambiguous(c))) {
    return column("none", `${place(read.ambiguous)} is ambiguous: the column does not show whether the point is the decimal mark or separates thousands`);
  }
  if (target && numbers === cells.length) return column("label", `numbers, ${count(different.size)} different`);
  if (target) return column("class", odd(plural(new Set(texts).size, "class", "classes")), texts);
  if (PAIRS.some((p) => cells.every((c) => p.includes(c.toLowerCase())))) return column("boolean", [...different].join(" and "));
  if (times === cells.length) return column("time", `such as ${cells[0] ?? ""}`);
  if (numbers === cells.length && cells.every(isInteger) && cells.some(read.huge)) {
    return column("categorical", odd(`${plural(different.size, "different id")}, because no number has all integers from 2^53 on`));
  }
  if (numbers === cells.length && !cells.some(isCode)) {
    const repeat = cells.every(isInteger) && different.size > 1 && 2 * different.size <= cells.length;
    const e = repeat ? evidenceOf(all.map((c) => (isGap(c) ? undefined : read.of(c))), labels) : {};
    const integers = `${count(different.size)} different integers`;
    if (repeat && areNames(e, different.size, cells.length)) return column("categorical", `${integers} that name things: labels of neighboring integers are no more alike than others`);
    if (repeat && namesThings(name) && (e.ratio ?? ORDERLESS) >= ORDERED) return column("categorical", `${integers} that name things, as the name of the column says`);
    if (repeat && followNoLine(e, different.size, cells.length)) return column("categorical", `${integers}, each a category: the labels follow no line`);
    return column("numeric", `such as ${cells[0] ?? ""}`);
  }
  if (texts.some((c) => new TextEncoder().encode(c).length > LONGEST_TEXT)) return column("none", odd(`texts of more than ${LONGEST_TEXT} bytes`), texts);
  const kinds = new Set(texts).size;
  if (kinds > OF_THEIR_OWN * texts.length && kinds > OWN_FEATURES) return column("none", odd("most cells do not repeat another: it names the row"), texts);
  return column("categorical", odd(plural(kinds, "different text")), texts);
}

/** specOf is the spec of a model that learns the columns. */
export function specOf(table: Table, columns: Column[]): Spec {
  const inputs = columns.filter((c) => !["label", "class", "none"].includes(c.kind)).map((c) => ({ name: c.name, [c.kind]: c.kind === "categorical" && c.key ? { key: true } : {} }));
  const target = columns.findIndex((c) => c.kind === "class");
  if (target < 0) return { inputs };
  const classes = new Set(table.rows.map((r) => r[target] ?? "").filter((c) => !isUnknown(c)));
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

/**
 * observationsOf are the rows as the API takes them. A row without a label is left out. A cell that is not of the
 * kind of its column is an error.
 */
export function observationsOf(table: Table, columns: Column[]): Record<string, unknown>[] {
  const target = columns.findIndex((c) => c.kind === "label" || c.kind === "class");
  const idOf = ids(table);
  const values = columns.map((c, at) => valuesOf(table, c, at));
  return table.rows.flatMap((row, n) => {
    const observationId = idOf(row, n);
    const valueAt = (at: number): unknown => values[at]?.(row[at] ?? "", n);
    const label = valueAt(target);
    if (label === null) return [];
    const inputs = Object.fromEntries(columns.flatMap((c, at) => (at === target || c.kind === "none" ? [] : [[c.name, valueAt(at)]])));
    return [{ inputs, observationId, ...(columns[target]?.kind === "class" ? { class: label } : { label }) }];
  });
}

/** valuesOf makes the cells of a column, and the places of their rows, values: null of a missing one. */
function valuesOf(table: Table, column: Column, at: number): (cell: string, row: number) => unknown {
  const numbers = numbersOf(table, at);
  const isMissing = column.kind === "class" ? isUnknown : isGap;
  const integers = table.rows.every((r) => isGap(r[at] ?? "") || isInteger(r[at] ?? ""));
  return (cell, row) => {
    const need = <T,>(value: T | undefined, what: string): T => {
      if (value === undefined) throw new Error(`${table.name}: row ${row + 1}, column ${column.name}: ${JSON.stringify(cell)} is no ${what}${numbers.ambiguous(cell) ? ", because the column does not show what its point means" : ""}.`);
      return value;
    };
    if (cell === "" || (isMissing(cell) && (column.kind !== "categorical" || integers))) return null;
    switch (column.kind) {
      case "label": case "numeric": return need(numbers.of(cell), "number");
      case "boolean": return need(PAIRS.find((p) => p.includes(cell.toLowerCase())), "word for true or false")[0] === cell.toLowerCase();
      case "time": return need(timeOf(cell), "time");
      default: return cell;
    }
  };
}
