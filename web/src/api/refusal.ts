/** Violation is the error of one field of a request. */
export interface Violation {
  field: string;
  description: string;
}

/** Refusal is the error of a call: the server refused the call, or no server answered. */
export class Refusal extends Error {
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
    this.name = "Refusal";
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

/** reach makes a call. A server that does not answer is a Refusal without a status. */
export async function reach(call: string, path: string, request: RequestInit): Promise<Response> {
  try {
    return await fetch(path, request);
  } catch (cause) {
    throw request.signal?.aborted ? cause : unreachable(call, cause);
  }
}

/** unreachable is the error of a call without an answer. A Refusal stays. */
export function unreachable(call: string, cause: unknown): Refusal {
  return cause instanceof Refusal ? cause : new Refusal(call, "The server did not answer. Is it running?", "", "", []);
}

/** refused reads the google.rpc.Status of an answer that is an error. */
export async function refused(call: string, answer: Response): Promise<Refusal> {
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
  return new Refusal(
    call,
    status.message || `HTTP ${answer.status} ${answer.statusText}`,
    status.status ?? "",
    details.find((d) => d.reason)?.reason ?? "",
    details.flatMap((d) => d.fieldViolations ?? []).map((v) => ({ field: v.field ?? "", description: v.description ?? "" })),
    after === null ? undefined : Number(after) || 0,
  );
}
