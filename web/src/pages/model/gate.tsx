import type { LabelGate, OutcomeEvent } from "../../api/types";
import { count, figure, number, plural, short } from "../../format";
import { Num } from "../../ui/parts";
import { Word } from "../../ui/word";

/** ALARMING_SHARE is the share of labels set aside above which the page warns, as the command line does. */
const ALARMING_SHARE = 0.01;

/** GateWarning warns that too many labels were set aside. */
export function GateWarning({ gate }: { gate: LabelGate | undefined }) {
  if (number(gate?.share) <= ALARMING_SHARE) return null;
  return (
    <p class="failure">
      {plural(number(gate?.setAside), "label")} of this model, more than one in a hundred, cannot be right and were set aside: look where the labels come from.
    </p>
  );
}

/** GateFigures shows what the label gate did. */
export function GateFigures({ gate }: { gate: LabelGate }) {
  const aside = number(gate.setAside);
  const starts = number(gate.starts);
  return (
    <>
      <dl class="list">
        <div><dt><Word of="LabelGateStats.setAside">Labels set aside</Word></dt><dd><Num name="labelGate.setAside" value={aside} write={count} /></dd></div>
        <div><dt><Word of="LabelGateStats.share">Share of the observations</Word></dt><dd><Num name="labelGate.share" value={number(gate.share)} write={(v) => `${short(100 * v)} %`} /></dd></div>
        {aside > 0 && <div><dt>The last one at</dt><dd><Num name="labelGate.lastSetAside" value={number(gate.lastSetAside)} write={count} /></dd></div>}
        {aside > 0 && <div><dt><Word of="LabelGateStats.setAsideLoss">Loss on those not learned</Word></dt><dd><Num name="labelGate.setAsideLoss" value={number(gate.setAsideLoss)} /></dd></div>}
        {aside > 0 && gate.regretBeside !== undefined && (
          <div><dt><Word of="LabelGateStats.regretBeside">Regret on those not learned</Word></dt><dd><Num name="labelGate.regretBeside" value={gate.regretBeside} /></dd></div>
        )}
        <div><dt><Word of="LabelGateStats.starts">New starts</Word></dt><dd><Num name="labelGate.starts" value={starts} write={count} /></dd></div>
        {starts > 0 && <div><dt>The last one at</dt><dd><Num name="labelGate.lastStart" value={number(gate.lastStart)} write={count} /></dd></div>}
      </dl>
      <p class="note">
        A label that towers over all others is set aside: its loss counts, and the model does not learn it. Regret, guarantee
        and certificate are of what was learned. When the labels change for good, the model starts again.
      </p>
    </>
  );
}

/** SetAsideText names the newest of some outcomes whose label was set aside. */
export function SetAsideText({ outcomes }: { outcomes: OutcomeEvent[] }) {
  const aside = outcomes.filter((e) => e.outcome?.setAside);
  const newest = aside[aside.length - 1];
  if (!newest) return null;
  return (
    <p class="note">
      {plural(aside.length, "label")} of these {aside.length === 1 ? "was" : "were"} set aside and {aside.length === 1 ? "is" : "are"} not drawn, the newest
      at observation {count(number(newest.outcome?.sequence))}: {(newest.labels ?? []).map(figure).join(", ")}.
    </p>
  );
}
