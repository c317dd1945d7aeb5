import type { LearnerField } from "../api/types";

export type Kind = "number" | "numbers" | "boolean" | "kernel" | "kernels" | "choice" | "texts";

/** kindOf says how the form asks for a field of a learner, undefined where only JSON can write the field. */
export function kindOf(f: LearnerField): Kind | undefined {
  switch (f.type) {
    case "bool": return "boolean";
    case "enum": return "choice";
    case "string": return "texts";
    case "Kernel": return f.repeated ? "kernels" : "kernel";
    case "double": case "int32": case "int64": return f.repeated ? "numbers" : "number";
    default: return undefined;
  }
}

/** camel writes a name of the proto files as JSON does. */
export function camel(name: string): string {
  return name.replace(/_[a-z]/g, (c) => c.slice(1).toUpperCase());
}

/** spoken writes a value of an enum: LOSS_SQUARED_HINGE is squared hinge. */
export function spoken(value: string): string {
  return value.slice(value.indexOf("_") + 1).toLowerCase().replaceAll("_", " ");
}
