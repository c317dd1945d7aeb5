import { reach, refused } from "./refusal";
import type {
  Alias, Cluster, Comparison, CreateBody, History, InputImportance, Learner, Model, ModelPage, ObserveBody, Outcome, PredictBody, Prediction, Snapshot, Spec,
  SpecCost, Stats,
} from "./types";
import { parse } from "./exact";
import { SIGNED_OUT } from "./session";

/** The addresses are relative, so that the console also works below a path of a proxy. */
async function answer(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const call = `${method} /${path}`;
  const request: RequestInit = { method, signal: signal ?? null };
  if (body !== undefined) {
    const file = body instanceof Blob;
    request.body = file ? body : JSON.stringify(body);
    request.headers = { "Content-Type": file ? "application/octet-stream" : "application/json" };
  }
  const response = await reach(call, path, request);
  if (!response.ok) {
    if (response.status === 401) dispatchEvent(new Event(SIGNED_OUT));
    throw await refused(call, response);
  }
  return response;
}

async function json<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return parse(await (await answer(method, path, body, signal)).text()) as T;
}

const at = (model: string): string => `v1/models/${encodeURIComponent(model)}`;

export interface Listing {
  contains: string;
  /** Tags that the models have, as key=value. */
  tags?: string[];
  orderBy: string;
  pageSize: number;
  pageToken: string;
  showDeleted: boolean;
}

export async function listModels(l: Listing, signal?: AbortSignal): Promise<ModelPage> {
  const query = new URLSearchParams({ pageSize: String(l.pageSize), includeSummary: "true" });
  if (l.contains) query.set("contains", l.contains);
  for (const tag of l.tags ?? []) query.set(`labels[${tag.split("=")[0]}]`, tag.slice(tag.indexOf("=") + 1));
  if (l.orderBy) query.set("orderBy", l.orderBy);
  if (l.pageToken) query.set("pageToken", l.pageToken);
  if (l.showDeleted) query.set("showDeleted", "true");
  return json("GET", `v1/models?${query}`, undefined, signal);
}

export async function listAliases(signal?: AbortSignal): Promise<Alias[]> {
  return (await json<{ aliases?: Alias[] }>("GET", "v1/aliases", undefined, signal)).aliases ?? [];
}

export async function setAlias(alias: string, model: string, expectedModel: string): Promise<Alias> {
  return (await json<{ alias: Alias }>("PUT", `v1/aliases/${encodeURIComponent(alias)}`, { model, expectedModel })).alias;
}

export async function deleteAlias(alias: string): Promise<void> {
  await json("DELETE", `v1/aliases/${encodeURIComponent(alias)}`);
}

/** updateModel changes the fields of the mask, unless the model has changed since its etag was read. */
export async function updateModel(model: Partial<Model> & { id: string; etag: string }, updateMask: string): Promise<Model> {
  return (await json<{ model: Model }>("PATCH", `${at(model.id)}?${new URLSearchParams({ updateMask })}`, model)).model;
}

export async function compareModels(model: string, signal?: AbortSignal): Promise<Comparison[]> {
  return (await json<{ comparisons?: Comparison[] }>("GET", `${at(model)}/comparison`, undefined, signal)).comparisons ?? [];
}

/** importModel creates a model from the file of an export. */
export async function importModel(id: string, file: Blob): Promise<Model> {
  return (await json<{ model: Model }>("POST", `v1/models:import?${new URLSearchParams({ id })}`, file)).model;
}

export async function getModel(model: string, signal?: AbortSignal): Promise<Model> {
  return (await json<{ model: Model }>("GET", at(model), undefined, signal)).model;
}

export async function getStats(model: string, signal?: AbortSignal): Promise<Stats> {
  return (await json<{ stats: Stats }>("GET", `${at(model)}/stats`, undefined, signal)).stats;
}

export async function getImportances(model: string): Promise<InputImportance[]> {
  return (await json<{ stats: Stats }>("GET", `${at(model)}/stats?includeImportances=true`)).stats.importances ?? [];
}

export async function getHistory(model: string, signal?: AbortSignal): Promise<History> {
  return json("GET", `${at(model)}/history`, undefined, signal);
}

export async function createModel(body: CreateBody): Promise<Model> {
  return (await json<{ model: Model }>("POST", "v1/models", body)).model;
}

export async function listLearners(signal?: AbortSignal): Promise<Learner[]> {
  return (await json<{ learners?: Learner[] }>("GET", "v1/learners", undefined, signal)).learners ?? [];
}

export async function validateSpec(spec: Spec, signal?: AbortSignal): Promise<SpecCost> {
  return json("POST", "v1/specs:validate", { spec }, signal);
}

export async function predict(model: string, body: PredictBody): Promise<Prediction> {
  return (await json<{ prediction: Prediction }>("POST", `${at(model)}:predict`, body)).prediction;
}

export async function observe(model: string, body: ObserveBody): Promise<Outcome> {
  return (await json<{ outcome: Outcome }>("POST", `${at(model)}:observe`, body)).outcome;
}

export async function observeBatch(model: string, observations: Record<string, unknown>[]): Promise<void> {
  await json("POST", `${at(model)}:observeBatch`, { observations });
}

export async function listSnapshots(model: string, signal?: AbortSignal): Promise<Snapshot[]> {
  const list = await json<{ snapshots?: Snapshot[] }>("GET", `${at(model)}/snapshots`, undefined, signal);
  return list.snapshots ?? [];
}

export async function snapshotModel(model: string): Promise<Snapshot> {
  return (await json<{ snapshot: Snapshot }>("POST", `${at(model)}/snapshots`, {})).snapshot;
}

export async function restoreModel(
  model: string, sequence: number, validateOnly: boolean,
): Promise<{ model?: Model; undone?: number }> {
  return json("POST", `${at(model)}:restore`, { sequence, validateOnly });
}

export async function exportModel(model: string): Promise<Blob> {
  return (await answer("GET", `${at(model)}:export`)).blob();
}

/** deleteModel returns the model if undelete can bring it back. */
export async function deleteModel(model: string, purge: boolean): Promise<Model | undefined> {
  return (await json<{ model?: Model }>("DELETE", at(model) + (purge ? "?purge=true" : ""))).model;
}

export async function undeleteModel(model: string): Promise<Model> {
  return (await json<{ model: Model }>("POST", `${at(model)}:undelete`, {})).model;
}

export async function getCluster(signal?: AbortSignal): Promise<Cluster> {
  return json("GET", "v1/cluster", undefined, signal);
}

export async function moveOwner(server: string): Promise<void> {
  await json("POST", "v1/cluster:moveOwner", { server });
}

/** drainServer moves ownership away from a server until the server is stopped. */
export async function drainServer(server: string): Promise<void> {
  await json("POST", `v1/servers/${encodeURIComponent(server)}:drain`, {});
}

/** rebalance makes one step, which is empty if none was left. */
export async function rebalance(): Promise<{ step?: string; left?: number }> {
  return json("POST", "v1/cluster:rebalance", {});
}

export async function metrics(signal?: AbortSignal): Promise<string> {
  return (await answer("GET", "metrics", undefined, signal)).text();
}

export function eventsAddress(model: string): string {
  return `${at(model)}/events`;
}
