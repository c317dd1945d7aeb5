import type uPlot from "uplot";

/** Mark is a vertical line at x. */
export interface Mark {
  x: number;
  rise: boolean;
}

/** Level is a horizontal line. */
export interface Level {
  at: number;
  label: string;
  /** The name of a custom property of the style sheet. */
  colour: string;
}

export function drawLevels(u: uPlot, levels: Level[], colour: (name: string) => string, dash: number[]): void {
  const { ctx, bbox } = u;
  const dot = devicePixelRatio;
  ctx.save();
  ctx.lineWidth = 1.5 * dot;
  ctx.setLineDash(dash.map((v) => v * dot));
  for (const l of levels) {
    const y = Math.round(u.valToPos(l.at, "y", true));
    if (y < bbox.top || y > bbox.top + bbox.height) continue;
    ctx.strokeStyle = colour(l.colour);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
  }
  ctx.restore();
}

/** drawMarks draws the detected changes: a line, and an arrow where the loss rose or fell. */
export function drawMarks(u: uPlot, marks: Mark[], rise: string, fall: string): void {
  const { ctx, bbox } = u;
  const dot = devicePixelRatio;
  ctx.save();
  for (const m of marks) {
    const x = Math.round(u.valToPos(m.x, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = m.rise ? rise : fall;
    ctx.lineWidth = dot;
    ctx.setLineDash([2 * dot, 3 * dot]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const tip = m.rise ? bbox.top : bbox.top + 7 * dot;
    const foot = m.rise ? bbox.top + 7 * dot : bbox.top;
    ctx.beginPath();
    ctx.moveTo(x, tip);
    ctx.lineTo(x - 4 * dot, foot);
    ctx.lineTo(x + 4 * dot, foot);
    ctx.fill();
  }
  ctx.restore();
}
