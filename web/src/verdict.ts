/** Verdict is the traffic light of a model: its skill beside the trivial predictors. */
export interface Verdict {
  kind: "better" | "same" | "worse" | "none";
  text: string;
  sign: string;
}

/** SAME_SKILL: a skill of at most this size is as good as trivial, as on the command line. */
const SAME_SKILL = 0.01;

export function verdict(skill: number | undefined): Verdict {
  if (skill === undefined || Number.isNaN(skill)) return { kind: "none", text: "not known yet", sign: "○" };
  if (skill > SAME_SKILL) return { kind: "better", text: "better than trivial", sign: "▲" };
  if (skill < -SAME_SKILL) return { kind: "worse", text: "worse than trivial", sign: "▼" };
  return { kind: "same", text: "as good as trivial", sign: "■" };
}
