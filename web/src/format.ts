/** number is a number of the server, which writes one of 64 bits as text. An absent number is 0. */
export function number(v: number | string | undefined): number {
  return Number(v ?? 0);
}

/** full writes a number with all its digits. */
export function full(v: number): string {
  return String(v);
}

/** figure writes a number with six digits, so that numbers below each other are as wide. A small whole number has all its digits and no others. */
export function figure(v: number | undefined): string {
  if (v === undefined) return "–";
  if (!Number.isFinite(v)) return String(v);
  if (Number.isInteger(v) && Math.abs(v) < 1e6) return minus(String(v));
  const size = Math.abs(v);
  if (size >= 1e6 || size < 1e-4) {
    const [digits, exponent] = v.toExponential(5).split("e");
    return `${minus(digits ?? "")}e${exponent?.replace("+", "")}`;
  }
  return minus(v.toPrecision(6));
}

/** short writes a number with three digits, for axes and chips. */
export function short(v: number | undefined): string {
  if (v === undefined) return "–";
  const rounded = Number(v.toPrecision(3));
  const size = Math.abs(rounded);
  const plain = size === 0 || (size >= 1e-3 && size < 1e5);
  return minus(plain ? String(rounded) : rounded.toExponential().replace("+", ""));
}

/** minus writes the minus sign that is as wide as a digit. */
function minus(text: string): string {
  return text.replace(/^-/, "−");
}

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** count writes a whole number with commas between its thousands. */
export function count(v: number): string {
  return WHOLE.format(v);
}

/** plural writes a count and its noun. */
export function plural(v: number, one: string, more = `${one}s`): string {
  return `${count(v)} ${v === 1 ? one : more}`;
}

/** compact writes a count in few characters, for axes. */
export function compact(v: number): string {
  if (Math.abs(v) >= 1e9) return `${Number((v / 1e9).toPrecision(3))}G`;
  if (Math.abs(v) >= 1e6) return `${Number((v / 1e6).toPrecision(3))}M`;
  if (Math.abs(v) >= 1e4) return `${Number((v / 1e3).toPrecision(3))}k`;
  return String(v);
}

/** percent writes a share with one place. */
export function percent(share: number | undefined): string {
  return share === undefined ? "–" : `${(100 * share).toFixed(1)} %`;
}

/** level writes the level of an interval. */
export function level(coverage: number): string {
  return `${Number((100 * coverage).toPrecision(6))} %`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(v: number): string {
  let unit = 0;
  while (v >= 1024 && unit < UNITS.length - 1) {
    v /= 1024;
    unit++;
  }
  return `${unit === 0 ? v : Number(v.toPrecision(3))} ${UNITS[unit]}`;
}

/** seconds writes a duration in its unit. */
export function seconds(v: number): string {
  if (v < 1e-3) return `${Number((v * 1e6).toPrecision(3))} µs`;
  if (v < 1) return `${Number((v * 1e3).toPrecision(3))} ms`;
  return `${Number(v.toPrecision(3))} s`;
}

/** rate writes observations a second. */
export function rate(v: number): string {
  return v === 0 ? "0 /s" : `${v >= 100 ? count(v) : Number(v.toPrecision(2))} /s`;
}

/** ago writes how long ago a time is; of a time more than a day ago, the date. */
export function ago(time: string): string {
  const passed = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  if (passed < 60) return `${Math.floor(passed)} s ago`;
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  return passed < 86_400 ? `${Math.floor(passed / 3600)} h ago` : moment(time).slice(0, 10);
}

/** utc writes the seconds since 1970 of a time input. */
export function utc(v: number): string {
  return new Date(1000 * v).toISOString().slice(0, 16).replace("T", " ");
}

/** days writes seconds as days. */
export function days(v: number): string {
  return `${short(v / 86_400)} days`;
}

/** moment writes a time in the reader's zone. */
export function moment(time: string | undefined): string {
  if (!time) return "–";
  const at = new Date(time);
  const pad = (v: number): string => String(v).padStart(2, "0");
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ` +
    `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}
