import { useEffect, useState } from "preact/hooks";

/** Place is the page that the address names behind #. The server has one page. */
export type Place =
  | { page: "models"; query: URLSearchParams }
  | { page: "create" }
  | { page: "csv" }
  | { page: "servers" }
  | { page: "model"; id: string };

export const modelHref = (id: string): string => `#/models/${encodeURIComponent(id)}`;
export const createHref = "#/create";
export const csvHref = "#/csv";
export const serversHref = "#/servers";

export function modelsHref(query?: URLSearchParams): string {
  const text = query?.toString();
  return text ? `#/?${text}` : "#/";
}

function place(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#/, "").split("?");
  const model = /^\/models\/([^/]+)$/.exec(path)?.[1];
  if (model) return { page: "model", id: decoded(model) };
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
