import { useEffect, useState } from "preact/hooks";

/** Place is the page that the address names behind #. The server has one page. */
export type Place =
  | { page: "models"; query: URLSearchParams }
  | { page: "create" }
  | { page: "csv" }
  | { page: "servers" }
  | { page: "model"; id: string; tab: Tab };

/** TABS are the parts of a model's page. The first one is shown where the address names none. */
export const TABS = [["good", "How good"], ["uses", "What it uses"], ["try", "Try"], ["data", "Labels and inputs"], ["operate", "Operate"]] as const;

export type Tab = (typeof TABS)[number][0];

export const modelHref = (id: string, tab: Tab = "good"): string => `#/models/${encodeURIComponent(id)}${tab === "good" ? "" : `/${tab}`}`;
export const createHref = "#/create";
export const csvHref = "#/csv";
export const serversHref = "#/servers";

export function modelsHref(query?: URLSearchParams): string {
  const text = query?.toString();
  return text ? `#/?${text}` : "#/";
}

function place(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#/, "").split("?");
  const [, model, tab] = /^\/models\/([^/]+)(?:\/([a-z]+))?$/.exec(path) ?? [];
  if (model) return { page: "model", id: decoded(model), tab: TABS.find(([t]) => t === tab)?.[0] ?? "good" };
  if (path === "/create") return { page: "create" };
  if (path === "/csv") return { page: "csv" };
  if (path === "/servers") return { page: "servers" };
  return { page: "models", query: new URLSearchParams(query) };
}

/** decoded decodes a part of an address. A broken part stays as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function usePlace(): Place {
  const [now, setNow] = useState(place);
  useEffect(() => {
    const change = (): void => setNow(place());
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return now;
}

export function go(href: string): void {
  location.hash = href;
}

/** replace changes the address without an entry in the history of the browser. */
export function replace(href: string): void {
  history.replaceState(null, "", href);
  dispatchEvent(new HashChangeEvent("hashchange"));
}
