import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { explain } from "../api/client";

/** MARGIN is how far an explanation stays from the edges of the window. */
const MARGIN = 8;

/** Word is a word of the page with its explanation: what the API's description says of a field, such as ModelStats.regret. */
export function Word({ of, children }: { of: string; children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const [text, setText] = useState<string>();
  const word = useRef<HTMLButtonElement>(null), tip = useRef<HTMLSpanElement>(null);
  const id = useId();
  useEffect(() => {
    // Without an answer the next look asks again.
    if (open && text === undefined) explain(of).then(setText, () => undefined);
  }, [open, of]);
  useLayoutEffect(() => {
    const at = word.current?.getBoundingClientRect(), box = tip.current;
    if (!at || !box) return;
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(MARGIN, Math.min(at.left, document.documentElement.clientWidth - width - MARGIN))}px`;
    box.style.top = `${at.bottom + height + MARGIN > innerHeight && at.top > height ? at.top - height : at.bottom}px`;
  }, [open, text]);
  const shown = open && text;
  return (
    <span class="word" onMouseEnter={() => setOpen(true)} onMouseLeave={() => setOpen(false)}>
      <button
        type="button" ref={word} data-word={of} aria-describedby={shown ? id : undefined}
        onFocus={() => setOpen(true)} onBlur={() => setOpen(false)} onKeyDown={(e) => { if (e.key === "Escape") setOpen(false); }}
      >{children}</button>
      {shown && <span role="tooltip" id={id} ref={tip}>{text}</span>}
    </span>
  );
}

/** Th is the head of a column, with the explanation of its word. */
export function Th({ of, children, left = false, span }: { of: string; children: ComponentChildren; left?: boolean; span?: number }) {
  return <th scope="col" class={left ? undefined : "right"} colSpan={span}><Word of={of}>{children}</Word></th>;
}
