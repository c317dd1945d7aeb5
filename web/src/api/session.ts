import { parse } from "./exact";
import { refused } from "./refusal";

/** Principal is who is signed in. */
export interface Principal {
  name: string;
  role: string;
  models?: string[];
}

/** Access is whether the server needs a token, and who is signed in. */
export interface Access {
  tokens?: boolean;
  signedIn?: Principal;
}

/** SIGNED_OUT is the event on the window when the server does not know who calls. */
export const SIGNED_OUT = "hindsight-signed-out";

async function post(path: string, body: unknown): Promise<Response> {
  const answer = await fetch(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  if (!answer.ok) throw await refused(`POST /${path}`, answer);
  return answer;
}

export async function getAccess(signal?: AbortSignal): Promise<Access> {
  const answer = await fetch("server.json", { signal: signal ?? null });
  if (!answer.ok) throw await refused("GET /server.json", answer);
  return parse(await answer.text()) as Access;
}

/** signIn sends the token once; the browser keeps the cookie that it gets, which no script can read. */
export async function signIn(token: string): Promise<void> {
  await post("login", { token });
}

export async function signOut(): Promise<void> {
  await post("logout", {});
}
