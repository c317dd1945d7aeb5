import createClient from "openapi-fetch";
import { reach, rejected, unreachable } from "./rejection";
import type { paths } from "./schema";
import { SIGNED_OUT, httpAddress } from "./session";
import type { CreateBody, History, InferBody, Inferred, Model, ModelPage, ObserveBody, Outcome, PredictBody, Prediction, Snapshot, Spec, SpecCost, Stats } from "./types";

/** The page names the address, so that the console also works below a path of a proxy. */
const base = httpAddress();
const api = createClient<paths>({ baseUrl: base });

const callOf = (request: Request): string => `${request.method} ${request.url.slice(base.length)}`;

api.use({
  async onResponse({ request, response }) {
    if (response.ok) return;
    if (response.status === 401) dispatchEvent(new Event(SIGNED_OUT));
    throw await rejected(callOf(request), response);
  },
  onError: ({ request, error }) => (request.signal.aborted ? undefined : unreachable(callOf(request), error)),
});

/** dataOf is the answer of a call. A call without an answer has thrown. */
async function dataOf<T>(call: Promise<{ data?: T }>): Promise<T> {
  return (await call).data as T;
}

/** modelOf is the model of an answer, which has an id. */
async function modelOf(call: Promise<{ data?: { model?: unknown } }>): Promise<Model> {
  return (await dataOf(call)).model as Model;
}

const of = (model: string) => ({ path: { model } });

/** sent is a body as it was typed: the server says what is wrong with it. */
const sent = (body: unknown): never => body as never;

export interface Listing {
  contains: string;
  /** Tags that the models have, as key=value. */
  tags?: string[];
  orderBy: string;
  pageSize: number;
  pageToken: string;
  showDeleted: boolean;
}

export async function listModels({ tags = [], ...l }: Listing, signal?: AbortSignal): Promise<ModelPage> {
  const labels = Object.fromEntries(tags.map((t) => [t.slice(0, t.indexOf("=")), t.slice(t.indexOf("=") + 1)]));
  return await dataOf(api.GET("/v1/models", { params: { query: { ...l, labels, includeSummary: true } }, signal: signal ?? null })) as ModelPage;
}

export async function listAliases(signal?: AbortSignal) {
  return (await dataOf(api.GET("/v1/aliases", { signal: signal ?? null }))).aliases;
}

export async function setAlias(alias: string, model: string, expectedModel: string): Promise<void> {
  await api.PUT("/v1/aliases/{alias}", { params: { path: { alias } }, body: sent({ model, expectedModel }) });
}

export async function deleteAlias(alias: string): Promise<void> {
  await api.DELETE("/v1/aliases/{alias}", { params: { path: { alias } } });
}

/** updateModel changes the fields of the mask, unless the model has changed since its etag was read. */
export function updateModel(model: Record<string, unknown> & { id: string; etag: string }, updateMask: string): Promise<Model> {
  return modelOf(api.PATCH("/v1/models/{model}", { params: { ...of(model.id), query: { updateMask } }, body: sent(model) }));
}

export async function compareModels(model: string, signal?: AbortSignal) {
  return (await dataOf(api.GET("/v1/models/{model}/comparison", { params: of(model), signal: signal ?? null }))).comparisons;
}

/** importModel creates a model from the file of an export. */
export function importModel(id: string, file: Blob): Promise<Model> {
  const headers = { "Content-Type": "application/octet-stream" };
  return modelOf(api.POST("/v1/models:import", { params: { query: { id } }, body: sent(file), bodySerializer: (b: unknown) => b as Blob, headers }));
}

export function getModel(model: string, signal?: AbortSignal): Promise<Model> {
  return modelOf(api.GET("/v1/models/{model}", { params: of(model), signal: signal ?? null }));
}

export async function getStats(model: string, signal?: AbortSignal): Promise<Stats> {
  return (await dataOf(api.GET("/v1/models/{model}/stats", { params: of(model), signal: signal ?? null }))).stats as Stats;
}

/** getAsked asks for figures that take long to compute. */
export async function getAsked(model: string, query: { includeImportances?: boolean; includeRegretRkhs?: boolean; includeRecentRegret?: boolean }) {
  return (await dataOf(api.GET("/v1/models/{model}/stats", { params: { ...of(model), query } }))).stats as Stats;
}

export function getHistory(model: string, signal?: AbortSignal): Promise<History> {
  return dataOf(api.GET("/v1/models/{model}/history", { params: of(model), signal: signal ?? null }));
}

export function createModel(body: CreateBody): Promise<Model> {
  return modelOf(api.POST("/v1/models", { body: sent(body) }));
}

export async function listLearners(signal?: AbortSignal) {
  return (await dataOf(api.GET("/v1/learners", { signal: signal ?? null }))).learners;
}

export async function validateSpec(spec: Spec, signal?: AbortSignal): Promise<SpecCost> {
  return await dataOf(api.POST("/v1/specs:validate", { body: sent({ spec }), signal: signal ?? null })) as SpecCost;
}

export async function inferSpec(body: InferBody): Promise<Inferred> {
  return await dataOf(api.POST("/v1/specs:infer", { body: sent(body) })) as Inferred;
}

export async function predict(model: string, body: PredictBody): Promise<Prediction> {
  return (await dataOf(api.POST("/v1/models/{model}:predict", { params: of(model), body: sent(body) }))).prediction as Prediction;
}

export async function observe(model: string, body: ObserveBody): Promise<Outcome> {
  return (await dataOf(api.POST("/v1/models/{model}:observe", { params: of(model), body: sent(body) }))).outcome as Outcome;
}

export async function observeBatch(model: string, observations: Record<string, unknown>[]): Promise<void> {
  await api.POST("/v1/models/{model}:observeBatch", { params: of(model), body: sent({ observations }) });
}

export async function listSnapshots(model: string, signal?: AbortSignal) {
  return (await dataOf(api.GET("/v1/models/{model}/snapshots", { params: of(model), signal: signal ?? null }))).snapshots;
}

export async function snapshotModel(model: string): Promise<Snapshot> {
  return (await dataOf(api.POST("/v1/models/{model}/snapshots", { params: of(model), body: sent({}) }))).snapshot as Snapshot;
}

export function restoreModel(model: string, sequence: number, validateOnly: boolean) {
  return dataOf(api.POST("/v1/models/{model}:restore", { params: of(model), body: sent({ sequence, validateOnly }) }));
}

export function exportModel(model: string): Promise<Blob> {
  return dataOf(api.GET("/v1/models/{model}:export", { params: of(model), parseAs: "blob" }));
}

/** deleteModel returns the model if undelete can bring it back. */
export function deleteModel(model: string, purge: boolean): Promise<Model | undefined> {
  return modelOf(api.DELETE("/v1/models/{model}", { params: { ...of(model), query: { purge } } }));
}

export function undeleteModel(model: string): Promise<Model> {
  return modelOf(api.POST("/v1/models/{model}:undelete", { params: of(model), body: sent({}) }));
}

export function getCluster(signal?: AbortSignal) {
  return dataOf(api.GET("/v1/cluster", { signal: signal ?? null }));
}

export async function moveOwner(server: string): Promise<void> {
  await api.POST("/v1/cluster:moveOwner", { body: sent({ server }) });
}

/** drainServer moves ownership away from a server until the server is stopped. */
export async function drainServer(server: string): Promise<void> {
  await api.POST("/v1/servers/{server}:drain", { params: { path: { server } }, body: sent({}) });
}

/** rebalance makes one step, which is empty if none was left. */
export function rebalance() {
  return dataOf(api.POST("/v1/cluster:rebalance", { body: sent({}) }));
}

export async function metrics(signal?: AbortSignal): Promise<string> {
  const call = "GET /metrics";
  const answer = await reach(call, "metrics", { signal: signal ?? null });
  if (!answer.ok) throw await rejected(call, answer);
  return answer.text();
}

interface OpenApi { components: { schemas: Record<string, { properties?: Record<string, { description?: string }> }> } }

/** description is what the server says of its API, asked for once. */
let description: Promise<OpenApi> | undefined;

async function describe(): Promise<OpenApi> {
  const call = "GET /openapi.json";
  const answer = await reach(call, "openapi.json", {});
  if (!answer.ok) throw await rejected(call, answer);
  return await answer.json() as OpenApi;
}

/** explain answers what the API's description says of a field, such as ModelStats.regret. */
export async function explain(field: string): Promise<string> {
  const asked = description ??= describe();
  asked.catch(() => { description = undefined; });
  const [schema = "", name = ""] = field.split(".");
  return ((await asked).components.schemas[schema]?.properties?.[name]?.description ?? "").replace(/\s+/g, " ");
}

export function eventsAddress(model: string, includeInputs: boolean): string {
  return `v1/models/${encodeURIComponent(model)}/events${includeInputs ? "?includeInputs=true" : ""}`;
}
