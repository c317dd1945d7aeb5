import type { CreateBody, Spec } from "../api/types";
import { LEARNERS } from "./learners";

/** InputDraft is a row of the form's named inputs. */
export interface InputDraft {
  name: string;
  kind: "numeric" | "boolean" | "categorical" | "time" | "vector";
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
  scaling: string;
  seed: string;
  /** The options of the learner, by name. */
  options: Record<string, string>;
}

export const EMPTY: Draft = {
  id: "", displayName: "", labels: "", follows: "", learner: "auto", by: "dimension", dimension: "2",
  inputs: [{ name: "", kind: "numeric", length: "" }], outputs: "", classes: false, maxClasses: "",
  coverage: "", scaling: "", seed: "", options: {},
};

/** typed reads a number; a text that is none goes to the server, which says so. */
function typed(text: string): number | string {
  const v = Number(text);
  return Number.isFinite(v) ? v : text;
}

export function list(text: string): (number | string)[] {
  return text.split(/[\s,;]+/).filter(Boolean).map(typed);
}

function option(kind: string, text: string): unknown {
  switch (kind) {
    case "number": return typed(text);
    case "numbers": return list(text);
    case "boolean": return text === "true";
    case "kernel": return kernelOf(text);
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
export function specOf(d: Draft): Spec {
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
  if (d.scaling) spec["scaling"] = { [d.scaling]: d.scaling === "warmup" ? { observations: 100 } : {} };
  const learner = LEARNERS.find((l) => l.name === d.learner);
  const options: Record<string, unknown> = {};
  for (const o of learner?.options ?? []) {
    const text = (d.options[o.name] ?? "").trim();
    if (text) options[o.name] = option(o.kind, text);
  }
  spec[d.learner] = options;
  return spec as Spec;
}

export function bodyOf(d: Draft, spec: Spec): CreateBody {
  const labels = labelsOf(d.labels);
  return {
    id: d.id.trim(), spec,
    ...(d.displayName.trim() ? { displayName: d.displayName.trim() } : {}),
    ...(Object.keys(labels).length > 0 ? { labels } : {}),
    ...(d.follows.trim() ? { follows: d.follows.trim() } : {}),
  };
}

/** labelsText writes labels as labelsOf reads them. */
export function labelsText(labels: Record<string, string>): string {
  return Object.entries(labels).map(([k, v]) => `${k}=${v}`).join(", ");
}

/** labelsOf reads "key=value, key=value". */
export function labelsOf(text: string): Record<string, string> {
  return Object.fromEntries(text.split(/[\s,]+/).filter(Boolean).map((pair) => {
    const at = pair.indexOf("=");
    return at < 0 ? [pair, ""] : [pair.slice(0, at), pair.slice(at + 1)];
  }));
}
