import { observeBatch } from "../../api/client";
import { Rejection } from "../../api/rejection";
import { count, plural } from "../../format";
import { RETRY } from "../../ui/load";
import type { Notice } from "../../ui/notice";

const BATCH = 100;
/** How often the progress is said at most. */
const SAY = 1000;

/** replay sends observations in their order, says how far it is, and goes on while the reader is on other pages. */
export async function replay(model: string, observations: Record<string, unknown>[], notice: (n: Notice | undefined) => void): Promise<void> {
  const total = observations.length;
  let stopped = false;
  let said = 0;
  for (let at = 0; at < total && !stopped;) {
    if (Date.now() - said > SAY) {
      said = Date.now();
      notice({ text: `${model} learns: ${count(at)} of ${plural(total, "row")}.`, action: { text: "Stop", run: () => { stopped = true; } } });
    }
    try {
      await observeBatch(model, observations.slice(at, at + BATCH));
      at += BATCH;
    } catch (e) {
      // The batch is sent again if no server answered, or if the server says when: its ids are the same.
      if (!(e instanceof Rejection) || (e.status !== "" && e.retryAfter === undefined)) {
        notice({ text: `${model} learned ${count(at)} of ${plural(total, "row")}, then: ${e instanceof Error ? e.message : String(e)}` });
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, Math.max(RETRY, 1000 * (e.retryAfter ?? 0))));
    }
  }
  notice({ text: stopped ? `${model} learns no more rows of the file.` : `${model} has learned ${plural(total, "row")}.` });
}
