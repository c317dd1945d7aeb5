import type { CreateBody, Learner, Spec, Typed } from "../api/types";
import { camel, kindOf, type Kind } from "./learners";

/** InputDraft is a row of the form's named inputs. */
export interface InputDraft {
  name: string;
  kind: "numeric" | "boolean" | "categorical" | "time" | "vector" | "text";
  length: string;
}

/** Draft is what stands in the form: texts, as they are typed. */
export interface Draft {
  id: string;
  displayName: string;
  labels: string;
  follows: string;
  learner: string;
  by: "dimension" | "inputs";
  dimension: string;
  inputs: InputDraft[];
  outputs: string;
  classes: boolean;
  maxClasses: string;
  coverage: string;
  smallest: string;
  largest: string;
  whole: boolean;
  scaling: string;
  seed: string;
  /** The options of the learner, by name. */
  options: Record<string, string>;
}

export const EMPTY: Draft = {
  id: "", displayName: "", labels: "", follows: "", learner: "auto", by: "dimension", dimension: "2",
  inputs: [{ name: "", kind: "numeric", length: "" }], outputs: "", classes: false, maxClasses: "",
  coverage: "", smallest: "", largest: "", whole: false, scaling: "", seed: "", options: {},
};

/** typed reads a number; a text that is none goes to the server, which says so. */
export function typed(text: string): Typed {
  const v = Number(text);
  return Number.isFinite(v) ? v : text;
}

/** list reads numbers between spaces or commas. */
export function list(text: string): Typed[] {
  return text.split(/[\s,;]+/).filter(Boolean).map(typed);
}

function option(kind: Kind, text: string): unknown {
  switch (kind) {
    case "number": return typed(text);
    case "numbers": return list(text);
    case "boolean": return text === "true";
    case "kernel": return kernelOf(text);
    case "texts": return text.split(/[\s,;]+/);
    case "kernels": return list(text).map((sigma) => ({ kind: "KIND_GAUSSIAN", sigma }));
    default: return text;
  }
}

/** kernelOf reads "KIND sigma", the text that the kernel's two fields make. */
function kernelOf(text: string): object {
  const [kind = "", sigma = ""] = text.split(" ");
  return { ...(kind ? { kind } : {}), ...(sigma ? { sigma: typed(sigma) } : {}) };
}

/** specOf is the spec that the form describes. What is left empty is left to the server. */
export function specOf(d: Draft, learners: Learner[]): Spec {
  const spec: Record<string, unknown> = {};
  if (d.by === "dimension") {
    if (d.dimension.trim()) spec["dimension"] = typed(d.dimension);
  } else {
    spec["inputs"] = d.inputs.map((i) => ({
      name: i.name,
      [i.kind]: i.kind === "vector" && i.length.trim() ? { length: typed(i.length) } : {},
    }));
  }
  if (d.outputs.trim()) spec["outputs"] = typed(d.outputs);
  if (d.seed.trim()) spec["seed"] = d.seed.trim();
  if (d.classes) spec["classes"] = d.maxClasses.trim() ? { maxClasses: typed(d.maxClasses) } : {};
  if (d.coverage.trim()) spec["coverage"] = list(d.coverage);
  const label = {
    ...(d.smallest.trim() ? { min: typed(d.smallest) } : {}), ...(d.largest.trim() ? { max: typed(d.largest) } : {}),
    ...(d.whole ? { integer: true } : {}),
  };
  if (!d.classes && Object.keys(label).length > 0) spec["label"] = label;
  if (d.scaling) spec["scaling"] = { [d.scaling]: d.scaling === "warmup" ? { observations: 100 } : {} };
  const options: Record<string, unknown> = {};
  for (const field of learners.find((l) => l.name === d.learner)?.fields ?? []) {
    const kind = kindOf(field), text = (d.options[field.name] ?? "").trim();
    if (kind && text) options[camel(field.name)] = option(kind, text);
  }
  spec[camel(d.learner)] = options;
  return spec as Spec;
}

export function bodyOf(d: Draft, spec: Spec): CreateBody {
  const labels = pairsOf(d.labels);
  return {
    id: d.id.trim(), spec,
    ...(d.displayName.trim() ? { displayName: d.displayName.trim() } : {}),
    ...(Object.keys(labels).length > 0 ? { labels } : {}),
    ...(d.follows.trim() ? { follows: d.follows.trim() } : {}),
  };
}

/**
 * pairsText writes labels or annotations as pairsOf reads them: key=value, one a line. A
 * text that would be read as another one is quoted as in JSON.
 */
export function pairsText(pairs: Record<string, string>): string {
  const quoted = (text: string, not: RegExp): string => (not.test(text) ? JSON.stringify(text) : text);
  return Object.entries(pairs).map(([k, v]) => `${quoted(k, KEY_QUOTED)}=${quoted(v, VALUE_QUOTED)}`).join("\n");
}

const KEY_QUOTED = /^$|=|^"|^\s|\s$|[\r\n]/;
const VALUE_QUOTED = /^"|^\s|\s$|[\r\n]/;
const PAIR = /^("(?:[^"\\]|\\.)*"|[^=]*)(?:=(.*))?$/;

/** pairsOf reads key=value, one a line. */
export function pairsOf(text: string): Record<string, string> {
  return Object.fromEntries(text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const [, key = line, value = ""] = PAIR.exec(line) ?? [];
    return [unquoted(key.trim()), unquoted(value.trim())];
  }));
}

function unquoted(text: string): string {
  if (!text.startsWith('"')) return text;
  try {
    const v: unknown = JSON.parse(text);
    return typeof v === "string" ? v : text;
  } catch {
    return text;
  }
}
