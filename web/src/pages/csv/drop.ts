import { useEffect, useState } from "preact/hooks";
import { csvHref, go } from "../../router";

let held: File | undefined;
const changed = new EventTarget();

/** dropped is the file that the reader dropped on a page, or chose. */
export const dropped = {
  set(file: File | undefined): void {
    held = file;
    changed.dispatchEvent(new Event("change"));
  },
  use(): File | undefined {
    const [file, setFile] = useState(held);
    useEffect(() => {
      const take = (): void => setFile(held);
      take();
      changed.addEventListener("change", take);
      return () => changed.removeEventListener("change", take);
    }, []);
    return file;
  },
};

/** useDrop opens the page of a CSV file when one is dropped anywhere. */
export function useDrop(allowed: boolean): void {
  useEffect(() => {
    if (!allowed) return undefined;
    const over = (e: DragEvent): void => { if (e.dataTransfer?.types.includes("Files")) e.preventDefault(); };
    const drop = (e: DragEvent): void => {
      const file = e.dataTransfer?.files[0];
      // A field for files takes what is dropped on it.
      if (!file || e.target instanceof HTMLInputElement) return;
      e.preventDefault();
      dropped.set(file);
      go(csvHref);
    };
    document.addEventListener("dragover", over);
    document.addEventListener("drop", drop);
    return () => {
      document.removeEventListener("dragover", over);
      document.removeEventListener("drop", drop);
    };
  }, [allowed]);
}
