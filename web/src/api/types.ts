// What the server answers, as JSON: api/proto/hindsight/v1. Texts, lists and maps that are
// empty are absent, as are optional fields that are not set.

export interface Model {
  id: string;
  spec?: Spec;
  createTime?: string;
  sequence?: number;
  learner?: string;
  inputs?: LearnedInput[];
  classes?: string[];
  displayName?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  labelTtl?: string;
  maxPendingLabels?: number;
  etag?: string;
  deleteTime?: string;
  purgeTime?: string;
  follows?: string;
  aliases?: string[];
  summary?: Summary;
}

export interface Spec {
  dimension?: number;
  outputs?: number;
  seed?: number | string;
  coverage?: number[];
  inputs?: InputSpec[];
  classes?: { maxClasses?: number };
  [field: string]: unknown;
}

export interface InputSpec {
  name: string;
  numeric?: object;
  boolean?: object;
  categorical?: object;
  time?: object;
  vector?: { length?: number };
}

export interface LearnedInput {
  name?: string;
  categories?: { name?: string; observations?: number }[];
  mean?: number;
  deviation?: number;
}

export interface Summary {
  state?: string;
  recent?: Performance;
  recentClasses?: ClassPerformance;
  regret?: number;
  observationRate?: number;
  /** When the newest observation was learned. */
  observeTime?: string;
}

export interface Performance {
  observations?: number;
  prequential?: Figures;
  served?: Figures;
}

export interface Figures {
  meanLoss?: number;
  runningMeanLoss?: number;
  lastLabelLoss?: number;
  skill?: number;
  /** In the unit of the label; absent for other losses than the squared one. */
  rmse?: number;
  mae?: number;
}

export interface ClassPerformance {
  observations?: number;
  prequential?: ClassFigures;
  served?: ClassFigures;
}

export interface ClassFigures {
  errorRate?: number;
  logLoss?: number;
  brierScore?: number;
  majorityErrorRate?: number;
  lastClassErrorRate?: number;
  skill?: number;
}

export interface Stats {
  model?: string;
  learner?: string;
  observations?: number;
  lossSum?: number;
  meanLoss?: number;
  hindsightLoss?: number;
  regret?: number;
  regretUnpenalized?: number;
  regretBound?: number;
  certificate?: number;
  certificateOk?: boolean;
  certified?: boolean;
  logDeterminant?: number;
  labelBound?: number;
  features?: number;
  effectiveDimension?: number;
  parametricShare?: number;
  dictionary?: number;
  servedObservations?: number;
  servedLossSum?: number;
  pendingLabels?: number;
  stateBytes?: number;
  stateDigest?: string;
  durability?: string;
  snapshotSequence?: number;
  performance?: Performance;
  recent?: Performance;
  discounted?: Performance;
  servedRegret?: number;
  intervals?: IntervalStats[];
  drift?: Drift;
  experts?: Expert[];
  inputs?: InputStats[];
  classes?: ClassStats;
  weights?: FeatureWeight[];
  labelGate?: LabelGate;
  families?: FamilyPart[];
  importances?: InputImportance[];
}

/** FamilyPart is the part of a family of experts, with a number for each output. */
export interface FamilyPart {
  family?: string;
  weights?: number[];
  contributions?: number[];
}

/** InputImportance is how much an input matters to the trees. */
export interface InputImportance {
  input?: string;
  gain?: number;
  permutation?: number;
}

/** LabelGate is what the label gate of a model did. */
export interface LabelGate {
  setAside?: number;
  share?: number;
  lastSetAside?: number;
  setAsideLoss?: number;
  regretBeside?: number;
  starts?: number;
  lastStart?: number;
}

export interface IntervalStats {
  coverage?: number;
  output?: number;
  observations?: number;
  realised?: number;
  recent?: number;
  least?: number;
  meanWidth?: number;
  meanScore?: number;
  discounted?: number;
}

export interface Drift {
  detected?: number;
  lastChangeSequence?: number;
  lossBefore?: number;
  lossAfter?: number;
  rises?: number;
}

export interface Expert {
  name?: string;
  lossSum?: number;
  weight?: number;
  awake?: boolean;
}

export interface InputStats {
  name?: string;
  seen?: number;
  missing?: number;
  categories?: number;
  outside?: number;
  outsideShare?: number;
  low?: number;
  high?: number;
  mean?: number;
  deviation?: number;
  shift?: number;
}

export interface ClassStats {
  performance?: ClassPerformance;
  recent?: ClassPerformance;
  reliability?: ReliabilityBin[];
  classes?: ClassCounts[];
}

export interface ReliabilityBin {
  low?: number;
  high?: number;
  members?: number;
  predicted?: number;
  found?: number;
}

export interface ClassCounts {
  class?: string;
  observed?: number;
  errors?: number;
  predicted?: number;
  expected?: number;
}

export interface FeatureWeight {
  feature?: string;
  weight?: number;
  effect?: number;
  output?: number;
}

export interface History {
  points?: HistoryPoint[];
  experts?: string[];
  drifts?: DriftMark[];
}

export interface HistoryPoint {
  sequence?: number;
  time?: string;
  performance?: Performance;
  classes?: ClassPerformance;
  regret?: number;
  regretBound?: number;
  dictionary?: number;
  expertWeights?: number[];
  realised?: number[];
}

export interface DriftMark {
  sequence?: number;
  time?: string;
  rise?: boolean;
}

export interface Outcome {
  sequence?: number;
  prediction?: number;
  loss?: number;
  servedPrediction?: number;
  servedLoss?: number;
  regret?: number;
  duplicate?: boolean;
  setAside?: boolean;
  predictions?: number[];
  servedPredictions?: number[];
  recentLoss?: number;
  recentSkill?: number;
  class?: string;
  servedClass?: string;
}

export interface OutcomeEvent {
  outcome?: Outcome;
  labels?: number[];
  class?: string;
  time?: string;
  omitted?: number;
  /** Of the served prediction. */
  intervals?: Interval[];
}

export interface Prediction {
  predictionId?: string;
  value?: number;
  values?: number[];
  class?: string;
  scores?: Record<string, number>;
  standardError?: number;
  leverage?: number;
  stateSequence?: number;
  standardErrors?: number[];
  intervals?: Interval[];
  probability?: number;
  parametricValue?: number;
  explanation?: FamilyPart[];
}

export interface Interval {
  coverage?: number;
  lower?: number;
  upper?: number;
  lowers?: number[];
  uppers?: number[];
}

export interface Snapshot {
  sequence?: number;
  createTime?: string;
  bytes?: number;
  stateDigest?: string;
}

export interface ModelPage {
  models?: Model[];
  nextPageToken?: string;
  totalSize?: number;
}

export interface Alias {
  alias?: string;
  model?: string;
}

/** Comparison is a model beside the one that it follows, on the same observations. */
export interface Comparison {
  model?: string;
  learner?: string;
  observations?: number;
  behind?: number;
  performance?: Performance;
  followed?: Performance;
  classes?: ClassPerformance;
  followedClasses?: ClassPerformance;
}

/** Learner describes a learner of a spec, in the words of the proto files. */
export interface Learner {
  name: string;
  description: string;
  fields?: LearnerField[];
}

export interface LearnerField {
  name: string;
  type: string;
  repeated?: boolean;
  /** The values of an enum, or the kinds of a kernel. */
  values?: string[];
  description: string;
}

export interface SpecCost {
  spec?: Spec;
  features?: number;
  stateBytes?: number;
  predictFlops?: number;
  observeFlops?: number;
}

/** Cluster is the servers of a cluster as the answering server knows them. Without a cluster, server is empty. */
export interface Cluster {
  server?: string;
  owner?: string;
  servers?: Server[];
  /** The groups with models, of a cluster with several. */
  groups?: Group[];
}

/** Group is a group of models; owner and servers are addresses. */
export interface Group {
  group: number;
  owner?: string;
  servers?: string[];
}

export interface Server {
  server: string;
  address?: string;
  state?: string;
  reachable?: boolean;
  /** applied, behind, age and version are absent if the server does not answer. */
  applied?: number;
  behind?: number;
  /** Seconds, such as "0.012s". */
  age?: string;
  version?: string;
  draining?: boolean;
}

/** Typed is a number, or what was typed in its place: the server says what is wrong with it. */
export type Typed = number | string;

/** What a form of the console sends. */
export interface PredictBody {
  features?: Typed[];
  inputs?: Record<string, unknown>;
  remember?: boolean;
  explain?: boolean;
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
