import { reach, rejected } from "./rejection";

/** Principal is who is signed in. */
export interface Principal {
  name: string;
  role: string;
  models?: string[];
}

/** Access is how programs reach the server, whether it needs a token, and who is signed in. */
export interface Access {
  tokens?: boolean;
  signedIn?: Principal;
  grpcHost?: string;
  grpcPort?: number;
  /** Both ports of the server have TLS. */
  tls?: boolean;
}

/** May is what the reader may do: calls of the role admin, of the role write, and those over all models. */
export interface May {
  admin: boolean;
  write: boolean;
  all: boolean;
}

export function mayOf(access: Access | undefined): May {
  if (!access) return { admin: false, write: false, all: false };
  const { tokens, signedIn } = access;
  const role = tokens ? signedIn?.role : "admin";
  return { admin: role === "admin", write: role === "admin" || role === "write", all: !tokens || (signedIn !== undefined && !signedIn.models?.length) };
}

/** grpcAddress is where programs reach the server by gRPC. */
export function grpcAddress({ grpcHost, grpcPort }: Access): string {
  const host = grpcHost ?? location.hostname.replace(/^\[|\]$/g, "");
  return `${host.includes(":") ? `[${host}]` : host}:${grpcPort ?? 50051}`;
}

/** SIGNED_OUT is the event on the window when the server rejects an unknown caller. */
export const SIGNED_OUT = "hindsight-signed-out";

/** httpAddress is the address of this page, also below a path of a proxy, without the last slash. */
export function httpAddress(): string {
  return new URL(".", location.href).href.replace(/\/$/, "");
}

async function post(path: string, body: unknown): Promise<Response> {
  const call = `POST /${path}`;
  const answer = await reach(call, path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  if (!answer.ok) throw await rejected(call, answer);
  return answer;
}

export async function getAccess(signal?: AbortSignal): Promise<Access> {
  const call = "GET /server.json";
  const answer = await reach(call, "server.json", { signal: signal ?? null });
  if (!answer.ok) throw await rejected(call, answer);
  return await answer.json() as Access;
}

/** signIn sends the token once. The browser keeps a cookie, which no script can read. */
export async function signIn(token: string): Promise<void> {
  await post("login", { token });
}

export async function signOut(): Promise<void> {
  await post("logout", {});
}
