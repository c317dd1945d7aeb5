import { toChildArray, type ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Rejection } from "../api/rejection";
import { figure, full } from "../format";
import { verdict } from "../verdict";

/** Num shows a number of the server with six digits. Its title has all digits. */
export function Num({ value, write = figure, name }: {
  value: number | undefined; write?: (v: number) => string; name?: string;
}) {
  if (value === undefined) return <span class="none">–</span>;
  return <span class="num" title={full(value)} data-name={name}>{write(value)}</span>;
}

/** Light is the traffic light of a skill: a sign, a word and a colour. */
export function Light({ skill, brief = false }: { skill: number | undefined; brief?: boolean }) {
  const v = verdict(skill);
  return (
    <span class={`light light-${v.kind}`}>
      <span aria-hidden="true">{v.sign}</span> {brief ? <span class="unseen">{v.text}</span> : v.text}
    </span>
  );
}

/** Failure shows the error of a call. */
export function Failure({ error }: { error: unknown }) {
  if (error === undefined || error === null) return null;
  const rejection = error instanceof Rejection ? error : undefined;
  // A single violation is often the message itself.
  const violations = (rejection?.violations ?? []).filter((v) => rejection?.message !== `${v.field}: ${v.description}`);
  return (
    <div class="failure" role="alert">
      <p><strong>{error instanceof Error ? error.message : String(error)}</strong></p>
      {violations.length > 0 && (
        <ul>{violations.map((v) => <li key={v.field + v.description}><code>{v.field}</code> {v.description}</li>)}</ul>
      )}
      {rejection && (
        <p class="failure-call">{[rejection.call, rejection.status, rejection.reason].filter(Boolean).join(" · ")}</p>
      )}
    </div>
  );
}

/** Copy puts a text on the clipboard. */
export function Copy({ text, what }: { text: string; what: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button type="button" class="small" onClick={() => void copy(text).then(setDone)}>
      {done ? "Copied" : "Copy"}<span class="unseen"> {what}</span>
      <span class="unseen" role="status">{done ? "copied" : ""}</span>
    </button>
  );
}

/** copy reports success. Without https a page has only the old way to the clipboard. */
async function copy(text: string): Promise<boolean> {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // The reader did not allow it. The old way needs no permission.
    }
  }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** Panel is a titled part of a page. */
export function Panel({ title, aside, children, id }: {
  title: string; aside?: ComponentChildren; children: ComponentChildren; id?: string;
}) {
  const heading = useId();
  return (
    <section class="panel" aria-labelledby={heading} id={id} tabIndex={id ? -1 : undefined}>
      <header><h2 id={heading}>{title}</h2>{aside && <div class="aside">{aside}</div>}</header>
      {children}
    </section>
  );
}

/** Dialog is open while it is mounted. Escape and the button close it. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    // showModal keeps the focus inside; close gives it back to where it was.
    const d = element.current;
    d?.showModal();
    return () => d?.close();
  }, []);
  return (
    <dialog ref={element} aria-labelledby={heading} onCancel={(e) => { e.preventDefault(); close(); }}>
      <header>
        <h2 id={heading}>{title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={close}>✕</button>
      </header>
      {children}
    </dialog>
  );
}

/** Choice is a row of buttons, one of which is pressed. */
export function Choice<T extends string>({ label, value, options, choose }: {
  label: string; value: T; options: readonly (readonly [T, string])[]; choose: (v: T) => void;
}) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([v, text]) => (
        <button type="button" key={v} aria-pressed={v === value} onClick={() => choose(v)}>{text}</button>
      ))}
    </div>
  );
}

/** Field is an input with its name, a hint and the error of its value. */
export function Field({ label, hint, wrong, children }: {
  label: string; hint?: ComponentChildren; wrong?: string | undefined;
  children: (a: { id: string; "aria-describedby"?: string; "aria-invalid"?: boolean }) => ComponentChildren;
}) {
  const id = useId();
  const below = `${id}-below`;
  const described = hint || wrong ? { "aria-describedby": below } : {};
  return (
    <div class={wrong ? "field wrong" : "field"}>
      <label for={id}>{label}</label>
      {children({ id, ...described, ...(wrong ? { "aria-invalid": true } : {}) })}
      {(hint || wrong) && <div class="below" id={below}>{wrong ? <span class="wrong-text">{wrong}</span> : hint}</div>}
    </div>
  );
}

/** Busy is a button that ignores clicks while its action runs. It keeps the focus. */
export function Busy({ run, kind, children, disabled, submit, describedBy }: {
  run: () => Promise<void>; kind?: string; children: ComponentChildren; disabled?: boolean; submit?: boolean; describedBy?: string;
}) {
  const [busy, setBusy] = useState(false);
  const click = (): void => {
    if (busy) return;
    setBusy(true);
    void run().finally(() => setBusy(false));
  };
  return (
    <button type={submit ? "submit" : "button"} class={kind ?? ""} disabled={disabled} aria-busy={busy} aria-describedby={describedBy} onClick={click}>
      {children}
    </button>
  );
}

/** Scroll is a part that scrolls sideways on narrow screens, by keys too. */
export function Scroll({ label, children }: { label: string; children: ComponentChildren }) {
  return <div class="scroll" tabIndex={0} role="group" aria-label={label}>{children}</div>;
}

/** FEW is how many rows of a long table are shown until the reader asks for all. */
const FEW = 20;

/** useFew answers the first rows of a list, and the button that shows all. */
export function useFew<T>(all: T[], what: string): [T[], ComponentChildren] {
  const [open, setOpen] = useState(false);
  if (all.length <= FEW) return [all, null];
  const text = open ? `Show the first ${FEW}` : `Show all ${all.length}`;
  return [open ? all : all.slice(0, FEW), <button type="button" class="small more" aria-expanded={open} onClick={() => setOpen(!open)}>{text} {what}</button>];
}

/** Pair puts its children into two columns in turn, the last of an odd number below both. Each keeps its column, whatever its height. */
export function Pair({ children }: { children: ComponentChildren }) {
  const all = toChildArray(children), even = all.length - all.length % 2;
  const half = (odd: number): ComponentChildren => all.slice(0, even).filter((_, i) => i % 2 === odd);
  return (
    <>
      {even > 0 && <div class="pair"><div class="stack">{half(0)}</div><div class="stack">{half(1)}</div></div>}
      {all.slice(even)}
    </>
  );
}
