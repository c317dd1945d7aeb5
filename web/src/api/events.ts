import { eventsAddress } from "./client";
import type { HistoryPoint, OutcomeEvent, Stats } from "./types";

/** Link is the state of the stream of events: live, or lost and tried again. */
export type Link = "connecting" | "live" | "lost";

export interface Listener {
  outcome(event: OutcomeEvent): void;
  stats(stats: Stats): void;
  history(point: HistoryPoint): void;
  /** link is called with "live" also after a loss or a pause: the events in between are missing. */
  link(link: Link): void;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;

/**
 * watch listens to the events of a model, with the inputs of outcomes or without, until the returned function is called. A hidden page
 * does not listen: without TLS a browser has six connections to a server, and the streams of
 * six hidden pages would block all other pages.
 */
export function watch(model: string, inputs: boolean, listener: Listener): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let wait = FIRST_WAIT;

  const close = (): void => {
    clearTimeout(timer);
    source?.close();
    source = undefined;
  };
  const open = (): void => {
    close();
    source = new EventSource(eventsAddress(model, inputs));
    source.onopen = () => {
      wait = FIRST_WAIT;
      listener.link("live");
    };
    source.onerror = () => {
      // The browser would try again at once, for ever. A server that starts needs time.
      close();
      listener.link("lost");
      timer = setTimeout(open, wait);
      wait = Math.min(2 * wait, LONGEST_WAIT);
    };
    on(source, "outcome", (e: OutcomeEvent) => listener.outcome(e));
    on(source, "stats", (s: Stats) => listener.stats(s));
    on(source, "history", (p: HistoryPoint) => listener.history(p));
  };
  const seen = (): void => {
    if (document.visibilityState === "hidden") {
      close();
    } else {
      listener.link("connecting");
      open();
    }
  };
  seen();
  document.addEventListener("visibilitychange", seen);
  return () => {
    document.removeEventListener("visibilitychange", seen);
    close();
  };
}

function on<T>(source: EventSource, kind: string, take: (value: T) => void): void {
  source.addEventListener(kind, (event: MessageEvent<string>) => take(JSON.parse(event.data) as T));
}
