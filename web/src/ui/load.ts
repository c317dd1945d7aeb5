import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Rejection } from "../api/rejection";

/** RETRY is after how many milliseconds a call without an answer is made again. */
export const RETRY = 2000;

/** Loaded is the answer of a call, or its error. The last answer stays until the next one arrives. */
export interface Loaded<T> {
  value: T | undefined;
  error: unknown;
  loading: boolean;
  again: () => void;
  /** set replaces the answer by a newer value. */
  set: (change: (old: T | undefined) => T | undefined) => void;
}

/**
 * useLoad calls load when one of the inputs changes, and every so many milliseconds while the page is visible. If no
 * server answers, or a proxy answers in its place, useLoad calls load again until the server is back.
 */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, inputs: unknown[], every?: number): Loaded<T> {
  const [value, setValue] = useState<T>();
  const [error, setError] = useState<unknown>();
  const [loading, setLoading] = useState(true);
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;

  useEffect(() => {
    const control = new AbortController();
    setLoading(true);
    latest.current(control.signal).then(
      (v) => {
        if (control.signal.aborted) return;
        setValue(() => v);
        setError(undefined);
        setLoading(false);
      },
      (e: unknown) => {
        if (control.signal.aborted) return;
        setError(e);
        setLoading(false);
      },
    );
    return () => control.abort();
  }, [...inputs, round]);

  const wait = error instanceof Rejection && error.status === "" ? RETRY : every;
  useEffect(() => {
    if (!wait || loading) return undefined;
    const ask = (): void => {
      if (document.visibilityState === "visible") setRound((r) => r + 1);
    };
    const timer = setTimeout(ask, wait);
    // A call that was due while the page was hidden is made when the page is visible again.
    document.addEventListener("visibilitychange", ask);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", ask);
    };
  }, [wait, loading, round, ...inputs]);

  return {
    value, error, loading,
    again: useCallback(() => setRound((r) => r + 1), []),
    set: useCallback((change) => setValue((old) => change(old)), []),
  };
}
