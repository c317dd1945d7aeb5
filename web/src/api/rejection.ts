/** Violation is the error of one field of a request. */
export interface Violation {
  field: string;
  description: string;
}

/** Rejection is the error of a call: the server rejected the call, or no server answered. */
export class Rejection extends Error {
  constructor(
    /** The call, such as "POST /v1/models". */
    readonly call: string,
    message: string,
    /** The code of google.rpc.Status, such as NOT_FOUND; empty without an answer. */
    readonly status: string,
    /** The reason of ErrorInfo, such as MODEL_NOT_FOUND. */
    readonly reason: string,
    readonly violations: readonly Violation[],
    /** After how many seconds the same call may succeed, if the server says so. */
    readonly retryAfter?: number,
  ) {
    super(message);
    this.name = "Rejection";
  }
}

interface Detail {
  reason?: string;
  fieldViolations?: { field?: string; description?: string }[];
}

interface Status {
  message?: string;
  status?: string;
  details?: Detail[];
}

/** reach makes a call. A server that does not answer is a Rejection without a status. */
export async function reach(call: string, path: string, request: RequestInit): Promise<Response> {
  try {
    return await fetch(path, request);
  } catch (cause) {
    throw request.signal?.aborted ? cause : unreachable(call, cause);
  }
}

/** unreachable is the error of a call without an answer. A Rejection stays. */
export function unreachable(call: string, cause: unknown): Rejection {
  return cause instanceof Rejection ? cause : new Rejection(call, "The server did not answer. Is it running?", "", "", []);
}

/** rejected reads the google.rpc.Status of an answer that is an error. */
export async function rejected(call: string, answer: Response): Promise<Rejection> {
  const text = await answer.text();
  let status: Status;
  try {
    status = (JSON.parse(text) as { error?: Status }).error ?? {};
  } catch {
    // Something between the server and the browser answered.
    status = { message: text.trim() };
  }
  const details = status.details ?? [];
  const after = answer.headers.get("Retry-After");
  return new Rejection(
    call,
    status.message || `HTTP ${answer.status} ${answer.statusText}`,
    status.status ?? "",
    details.find((d) => d.reason)?.reason ?? "",
    details.flatMap((d) => d.fieldViolations ?? []).map((v) => ({ field: v.field ?? "", description: v.description ?? "" })),
    after === null ? undefined : Number(after) || 0,
  );
}
