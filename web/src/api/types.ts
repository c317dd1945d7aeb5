// What the server answers has the types of the OpenAPI document; "npm run types" generates schema.ts.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Alias = Schemas["Alias"];
export type ClassPerformance = Schemas["ClassPerformance"];
export type ClassRanking = Schemas["ClassRanking"];
export type ClassStats = Schemas["ClassStats"];
export type Cluster = Schemas["GetClusterResponse"];
export type Comparison = Schemas["Comparison"];
export type Drift = Schemas["Drift"];
export type Expert = Schemas["Expert"];
export type FamilyPart = Schemas["FamilyPart"];
export type FeatureWeight = Schemas["FeatureWeight"];
export type Group = Schemas["Group"];
export type History = Schemas["GetModelHistoryResponse"];
export type HistoryPoint = Schemas["HistoryPoint"];
export type Inferred = Omit<Schemas["InferSpecResponse"], "columns" | "spec"> & { columns: InferredColumn[]; spec: Spec & { inputs?: InputSpec[] } };
export type InferredColumn = Schemas["InferredColumn"] & { name: string };
export type InputImportance = Schemas["InputImportance"];
export type InputSpec = Schemas["Input"] & { name: string };
export type InputStats = Schemas["InputStats"];
export type Interval = Schemas["Interval"];
export type IntervalStats = Schemas["IntervalStats"];
export type KeyEffect = Schemas["KeyEffect"];
export type LabelGate = Schemas["LabelGateStats"];
export type LearnedInput = Schemas["LearnedInput"];
export type Learner = Schemas["Learner"];
export type LearnerField = Schemas["LearnerField"];
export type Model = Schemas["Model"] & { id: string };
export type ModelPage = Omit<Schemas["ListModelsResponse"], "models"> & { models: Model[] };
export type Outcome = Schemas["Outcome"];
export type OutcomeEvent = Schemas["OutcomeEvent"];
export type Performance = Schemas["Performance"];
export type Prediction = Schemas["Prediction"];
export type ReliabilityBin = Schemas["ReliabilityBin"];
export type Server = Schemas["Server"];
export type Snapshot = Schemas["Snapshot"];
export type SpecCost = Schemas["ValidateSpecResponse"];
export type Stats = Schemas["ModelStats"];

/** Typed is a number, or what was typed in its place: the server says what is wrong with it. */
export type Typed = number | string;

/** Spec is a spec as it was typed. */
export type Spec = Record<string, unknown>;

/** What a form of the console sends. */
export interface PredictBody {
  features?: Typed[];
  inputs?: Record<string, unknown>;
  remember?: boolean;
  explain?: boolean;
}

export interface InferBody {
  csv: string;
  target?: string;
  classes?: boolean;
  values?: boolean;
  spec?: Spec;
}

export interface ObserveBody {
  predictionId?: string;
  features?: Typed[];
  inputs?: Record<string, unknown>;
  label?: Typed;
  labels?: { values: Typed[] };
  class?: string;
  weight?: Typed;
  observationId?: string;
}

export interface CreateBody {
  id: string;
  spec: Spec;
  displayName?: string;
  labels?: Record<string, string>;
  follows?: string;
}
