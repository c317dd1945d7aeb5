import type { InputSpec, Model } from "../../api/types";
import { dimensionOf, inputsOf, kindOf } from "./input";

/** Addresses are the addresses of the server, as programs name them. */
export interface Addresses {
  grpc: string;
  http: string;
  /** The gRPC port has TLS. */
  tls: boolean;
  /** The server needs a token. The programs read it from the environment. */
  token: boolean;
}

const TOKEN = "HINDSIGHT_TOKEN";

export const LANGUAGES = [["curl", "curl"], ["grpcurl", "grpcurl"], ["python", "Python"], ["go", "Go"]] as const;
export type Language = (typeof LANGUAGES)[number][0];

/** Programs compute an input of more numbers than this. */
const MANY = 16;

/** snippet is a program that predicts with the model and observes a label. */
export function snippet(language: Language, model: Model, at: Addresses): string {
  switch (language) {
    case "curl": return curl(model, at);
    case "grpcurl": return grpcurl(model, at);
    case "python": return python(model, at);
    default: return goProgram(model, at);
  }
}

function example(input: InputSpec, model: Model): unknown {
  const learned = model.inputs?.find((l) => l.name === input.name);
  switch (kindOf(input)) {
    case "boolean": return true;
    case "categorical": return learned?.categories?.[0]?.name ?? "text";
    case "time": return "2026-03-01T08:30:00Z";
    case "text": return "several words";
    case "vector": return Array.from({ length: input.vector?.length ?? 1 }, () => 0.5);
    default: return learned?.mean === undefined ? 0.5 : Number(learned.mean.toPrecision(3));
  }
}

function exampleInput(model: Model): { features: number[] } | { inputs: Record<string, unknown> } {
  const inputs = inputsOf(model);
  if (inputs.length === 0) return { features: Array.from({ length: dimensionOf(model) }, () => 0.5) };
  return { inputs: Object.fromEntries(inputs.map((i) => [i.name, example(i, model)])) };
}

function exampleLabel(model: Model): { class: string } | { labels: { values: number[] } } | { label: number } {
  if (model.spec?.classes) return { class: model.classes?.[0] ?? "yes" };
  const outputs = model.spec?.outputs ?? 1;
  return outputs > 1 ? { labels: { values: Array.from({ length: outputs }, () => 1) } } : { label: 1 };
}

/** quoted is a text between the single quotes of a shell. */
function quoted(value: unknown): string {
  return `'${JSON.stringify(value).replaceAll("'", "'\\''")}'`;
}

function curl(model: Model, at: Addresses): string {
  const url = `${at.http}/v1/models/${model.id}`;
  const call = at.token ? `curl -H "Authorization: Bearer $${TOKEN}"` : "curl";
  return `${call} --json ${quoted({ ...exampleInput(model), predictionId: "first" })} \\
  ${url}:predict

${call} --json ${quoted({ predictionId: "first", ...exampleLabel(model) })} \\
  ${url}:observe
`;
}

function grpcurl(model: Model, at: Addresses): string {
  const call = (body: object, method: string): string =>
    `grpcurl ${at.tls ? "" : "-plaintext "}${at.token ? `-H "authorization: Bearer $${TOKEN}" ` : ""}-d ${quoted({ model: model.id, ...body })} \\\n  ${at.grpc} hindsight.v1.PredictionService/${method}\n`;
  return `${call({ ...exampleInput(model), predictionId: "first" }, "Predict")}
${call({ predictionId: "first", ...exampleLabel(model) }, "Observe")}`;
}

/** pythonValue writes a value of JSON as Python does. */
function pythonValue(v: unknown): string {
  if (v === true) return "True";
  if (v === false) return "False";
  if (v === null) return "None";
  if (Array.isArray(v)) {
    const same = v.length > MANY && v.every((e) => e === v[0]);
    return same ? `[${pythonValue(v[0])}] * ${v.length}` : `[${v.map(pythonValue).join(", ")}]`;
  }
  if (typeof v === "object") return `{${Object.entries(v).map(([k, e]) => `${JSON.stringify(k)}: ${pythonValue(e)}`).join(", ")}}`;
  return JSON.stringify(v);
}

function python(model: Model, at: Addresses): string {
  const input = exampleInput(model);
  const label = exampleLabel(model);
  const known = "class" in label ? label.class : "labels" in label ? label.labels.values : label.label;
  const how = [JSON.stringify(at.grpc), ...(at.tls ? ["tls=True"] : []), ...(at.token ? [`token=os.environ["${TOKEN}"]`] : [])];
  return `${at.token ? "import os\n\n" : ""}import hindsight

with hindsight.connect(${how.join(", ")}) as client:
    model = client.model(${JSON.stringify(model.id)})
    prediction = model.predict(${pythonValue("features" in input ? input.features : input.inputs)})
    print(prediction)
    # When it is known what really happened:
    outcome = model.observe(prediction, ${pythonValue(known)})
    print(outcome)
`;
}

function goValue(v: unknown): string {
  if (Array.isArray(v)) return `[]any{${v.map(goValue).join(", ")}}`;
  return JSON.stringify(v);
}

function goProgram(model: Model, at: Addresses): string {
  const input = exampleInput(model);
  const label = exampleLabel(model);
  const record = "inputs" in input
    ? `	record, err := structpb.NewStruct(map[string]any{
${Object.entries(input.inputs).map(([k, v]) => `		${JSON.stringify(k)}: ${goValue(v)},`).join("\n")}
	})
	if err != nil {
		log.Fatal(err)
	}
`
    : "";
  const given = "inputs" in input
    ? "Inputs: record"
    : `Features: ${input.features.length > MANY ? `make([]float64, ${input.features.length})` : `[]float64{${input.features.join(", ")}}`}`;
  const target = "class" in label
    ? `client.Class(${JSON.stringify(label.class)})`
    : "labels" in label ? `client.Labels(${label.labels.values.join(", ")})` : `client.Label(${label.label})`;
  const how = [
    JSON.stringify(at.grpc), ...(at.tls ? ["client.WithTLS(client.TLS{})"] : []),
    ...(at.token ? [`client.WithToken(client.TokenText(os.Getenv("${TOKEN}")))`] : []),
  ];
  return `package main

import (
	"context"
	"fmt"
	"log"${at.token ? '\n\t"os"' : ""}
${record ? '\n\t"google.golang.org/protobuf/types/known/structpb"\n' : ""}
	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

func main() {
	ctx := context.Background()
	c, err := client.Dial(${how.join(", ")})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	model := c.Model(${JSON.stringify(model.id)})

${record}	prediction, err := model.Predict(ctx, &hindsightv1.PredictRequest{${given}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(prediction)

	// When it is known what really happened:
	outcome, err := model.Observe(ctx, &hindsightv1.ObserveRequest{PredictionId: prediction.GetPredictionId(), Target: ${target}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(outcome)
}
`;
}
