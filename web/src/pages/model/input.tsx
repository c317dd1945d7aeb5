import type { InputSpec, LearnedInput, Model, Typed } from "../../api/types";
import { Field } from "../../ui/parts";
import { list, typed } from "../draft";

/** Given is the input of a form, as texts. */
export interface Given {
  features: string;
  inputs: Record<string, string>;
}

export const NOTHING: Given = { features: "", inputs: {} };

export function dimensionOf(model: Model): number {
  return model.spec?.dimension ?? 1;
}

export function inputsOf(model: Model): InputSpec[] {
  return model.spec?.inputs ?? [];
}

type Kind = "numeric" | "boolean" | "categorical" | "time" | "vector";

export function kindOf(input: InputSpec): Kind {
  if (input.boolean) return "boolean";
  if (input.categorical) return "categorical";
  if (input.time) return "time";
  if (input.vector) return "vector";
  return "numeric";
}

/** bodyOfInput is the input of a request. An empty value is a missing value. */
export function bodyOfInput(model: Model, given: Given): { features?: Typed[]; inputs?: Record<string, unknown> } {
  const inputs = inputsOf(model);
  if (inputs.length === 0) return { features: list(given.features) };
  return { inputs: Object.fromEntries(inputs.map((i) => [i.name, valueOf(i, given.inputs[i.name] ?? "")])) };
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
  numeric: "number", boolean: "true or false", categorical: "text", time: "RFC 3339, such as 2026-03-01T08:30:00Z", vector: "numbers",
};

/** InputFields ask for the input of a model: its numbers, or its named values. */
export function InputFields({ model, given, set }: { model: Model; given: Given; set: (g: Given) => void }) {
  const inputs = inputsOf(model);
  if (inputs.length === 0) {
    const dimension = dimensionOf(model);
    const values = list(given.features);
    const broken = values.some((v) => typeof v === "string");
    return (
      <Field
        label="Features" wrong={broken ? "Numbers only, between spaces or commas." : undefined}
        hint={`${values.length} of ${dimension} numbers, between spaces or commas.`}
      >
        {(a) => <textarea {...a} rows={2} spellcheck={false} value={given.features} onInput={(e) => set({ ...given, features: e.currentTarget.value })} />}
      </Field>
    );
  }
  const put = (name: string, text: string): void => set({ ...given, inputs: { ...given.inputs, [name]: text } });
  return (
    <div class="fields">
      {inputs.map((i) => (
        <Named key={i.name} input={i} learned={model.inputs?.find((l) => l.name === i.name)} value={given.inputs[i.name] ?? ""} set={(text) => put(i.name, text)} />
      ))}
    </div>
  );
}

function Named({ input, learned, value, set }: {
  input: InputSpec; learned: LearnedInput | undefined; value: string; set: (text: string) => void;
}) {
  const kind = kindOf(input);
  const length = input.vector?.length;
  return (
    <Field label={input.name} hint={kind === "vector" && length ? `${length} numbers` : KIND_HINTS[kind]}>
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
