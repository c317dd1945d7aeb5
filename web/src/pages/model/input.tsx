import type { InputSpec, LearnedInput, Model, Typed } from "../../api/types";
import { Choice, Field } from "../../ui/parts";
import { list, typed } from "../draft";

/** Given is the input of a form, as texts. */
export interface Given {
  features: string;
  inputs: Record<string, string>;
  /** The inputs as an object of JSON, in place of the fields. */
  json?: string | undefined;
}

export const NOTHING: Given = { features: "", inputs: {} };

/** A model with more named inputs has one field for JSON in place of a field each. */
const WIDE = 24;

export function dimensionOf(model: Model): number {
  return model.spec?.dimension ?? 1;
}

export function inputsOf(model: Model): InputSpec[] {
  return (model.spec?.inputs ?? []) as InputSpec[];
}

export type Kind = "numeric" | "boolean" | "categorical" | "time" | "vector" | "text";

export function kindOf(input: InputSpec): Kind {
  if (input.boolean) return "boolean";
  if (input.categorical) return "categorical";
  if (input.time) return "time";
  if (input.vector) return "vector";
  if (input.text) return "text";
  return "numeric";
}

/** bodyOfInput is the input of a request. An empty value is a missing value. */
export function bodyOfInput(model: Model, given: Given): { features?: Typed[]; inputs?: Record<string, unknown> } {
  const inputs = inputsOf(model);
  if (inputs.length === 0) return { features: featuresOf(given.features) };
  if (given.json !== undefined || isWide(inputs)) return { inputs: { ...Object.fromEntries(inputs.map((i) => [i.name, null])), ...recordOf(given.json ?? "") } };
  return { inputs: Object.fromEntries(inputs.map((i) => [i.name, valueOf(i, given.inputs[i.name] ?? "")])) };
}

const isWide = (inputs: InputSpec[]): boolean => inputs.length > WIDE;

/** featuresOf reads numbers between spaces or commas, in brackets of JSON or without. */
function featuresOf(text: string): Typed[] {
  return list(text.replace(/^\s*\[|\]\s*$/g, ""));
}

/** recordOf reads an object of JSON: the inputs, or a request that has them. */
function recordOf(text: string): Record<string, unknown> {
  const read = JSON.parse(text.trim() || "{}") as Record<string, unknown> | null;
  if (typeof read !== "object" || read === null || Array.isArray(read)) throw new Error(`inputs: not an object of JSON: ${text.slice(0, 40)}; expected {"name": value, …}.`);
  const inner = read["inputs"];
  return typeof inner === "object" && inner !== null && !Array.isArray(inner) ? inner as Record<string, unknown> : read;
}

/** faultOf says what is wrong with the JSON of inputs, and how many of them it has. */
function faultOf(text: string, inputs: InputSpec[]): { wrong?: string; given: number } {
  try {
    const record = recordOf(text);
    const unknown = Object.keys(record).find((name) => !inputs.some((i) => i.name === name));
    return { given: Object.keys(record).length, ...(unknown === undefined ? {} : { wrong: `${JSON.stringify(unknown)} is no input of the model.` }) };
  } catch (e) {
    return { given: 0, wrong: e instanceof Error ? e.message : String(e) };
  }
}

function valueOf(input: InputSpec, text: string): unknown {
  if (text.trim() === "") return null;
  switch (kindOf(input)) {
    case "numeric": return typed(text);
    case "boolean": return text === "true";
    case "vector": return list(text);
    default: return text;
  }
}

const KIND_HINTS: Record<Kind, string> = {
  numeric: "number", boolean: "true or false", categorical: "text", time: "RFC 3339, such as 2026-03-01T08:30:00Z", vector: "numbers", text: "words",
};

const hintOf = (i: InputSpec): string => KIND_HINTS[kindOf(i)] + (i.numeric?.unit ? `, in ${i.numeric.unit}` : "");

/** InputFields ask for the input of a model: its numbers, or its named values. */
export function InputFields({ model, given, set }: { model: Model; given: Given; set: (g: Given) => void }) {
  const inputs = inputsOf(model);
  if (inputs.length === 0) {
    const dimension = dimensionOf(model);
    const values = featuresOf(given.features);
    const broken = values.some((v) => typeof v === "string");
    return (
      <Field
        label="Features" wrong={broken ? "Numbers only, between spaces or commas." : undefined}
        hint={`${values.length} of ${dimension} numbers, between spaces or commas, or an array of JSON.`}
      >
        {(a) => <textarea {...a} rows={2} spellcheck={false} value={given.features} onInput={(e) => set({ ...given, features: e.currentTarget.value })} />}
      </Field>
    );
  }
  const put = (name: string, text: string): void => set({ ...given, inputs: { ...given.inputs, [name]: text } });
  // Hundreds of fields would hide the rest of the page.
  const byJson = given.json !== undefined || isWide(inputs);
  const text = given.json ?? "";
  const { wrong, given: written } = byJson ? faultOf(text, inputs) : { wrong: undefined, given: 0 };
  return (
    <>
      {!isWide(inputs) && (
        <Choice
          label="How the inputs are given" value={byJson ? "json" : "fields"} options={[["fields", "By fields"], ["json", "As JSON"]]}
          choose={(how) => set({ ...given, json: how === "json" ? "" : undefined })}
        />
      )}
      {byJson ? (
        <>
          <Field label="Inputs" wrong={wrong} hint={`${written} of ${inputs.length} inputs. Those left out are missing values.`}>
            {(a) => (
              <textarea
                {...a} rows={6} spellcheck={false} placeholder={`{"${inputs[0]?.name ?? ""}": …}`} value={text}
                onInput={(e) => set({ ...given, json: e.currentTarget.value })}
              />
            )}
          </Field>
          <details>
            <summary>The {inputs.length} inputs</summary>
            <div class="scroll" tabIndex={0} role="group" aria-label="Inputs of the model">
              <table class="tall"><tbody>{inputs.map((i) => <tr key={i.name}><th scope="row">{i.name}</th><td>{hintOf(i)}</td></tr>)}</tbody></table>
            </div>
          </details>
        </>
      ) : (
        <div class="fields">
          {inputs.map((i) => (
            <Named key={i.name} input={i} learned={model.inputs?.find((l) => l.name === i.name)} value={given.inputs[i.name] ?? ""} set={(text) => put(i.name, text)} />
          ))}
        </div>
      )}
    </>
  );
}

function Named({ input, learned, value, set }: {
  input: InputSpec; learned: LearnedInput | undefined; value: string; set: (text: string) => void;
}) {
  const kind = kindOf(input);
  const length = input.vector?.length;
  return (
    <Field label={input.name} hint={kind === "vector" && length ? `${length} numbers` : hintOf(input)}>
      {(a) => {
        if (kind === "boolean") {
          return (
            <select {...a} value={value} onChange={(e) => set(e.currentTarget.value)}>
              <option value="">missing</option><option value="true">true</option><option value="false">false</option>
            </select>
          );
        }
        const known = learned?.categories ?? [];
        return (
          <>
            <input {...a} list={known.length > 0 ? `${a.id}-known` : undefined} placeholder="missing" spellcheck={false} value={value} onInput={(e) => set(e.currentTarget.value)} />
            {known.length > 0 && <datalist id={`${a.id}-known`}>{known.map((c) => <option key={c.name} value={c.name} />)}</datalist>}
          </>
        );
      }}
    </Field>
  );
}
