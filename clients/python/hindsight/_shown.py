"""What a notebook shows of answers: tables, DataFrames and plots."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


def _text(value: Any) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, (tuple, list)):
        return ", ".join(_text(v) for v in value)
    return html.escape(f"{value:.6g}" if isinstance(value, float) else str(value))


def _table(caption: str, rows: Iterable[Sequence[Any]], head: Sequence[str] = ()) -> str:
    """A table in HTML, without the rows that have names alone."""
    lines = ["".join(f"<th>{_text(cell)}</th>" for cell in head)] if head else []
    for name, *cells in rows:
        if texts := [_text(cell) for cell in cells]:
            if any(texts):
                lines.append(f"<th>{_text(name)}</th>" + "".join(f"<td>{text}</td>" for text in texts))
    return f"<table><caption>{html.escape(caption)}</caption>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _words(name: str) -> str:
    return name.replace("_", " ").strip()


class ShownPrediction:
    """A prediction in a notebook."""

    def _repr_html_(self) -> str:
        p: Any = self
        rows = [(_words(name), getattr(p, name)) for name in ("value", "values", "class_", "probability", "standard_error", "leverage")]
        rows += [(f"interval {i.coverage:g}", [i.lower, i.upper]) for i in p.intervals if i.lower is not None]
        rows += [(f"interval {i.coverage:g} of output {n}", ends) for i in p.intervals for n, ends in enumerate(zip(i.lowers, i.uppers))]
        rows += [(f"probability of {name}", share) for name, share in sorted(p.scores.items(), key=lambda s: float(-s[1]))]
        return _table("Prediction", [*rows, ("prediction id", p.prediction_id), ("after observations", p.state_sequence)])


class ShownStats:
    """Statistics in a notebook."""

    def _repr_html_(self) -> str:
        s: Any = self
        rows = [
            ("observations", s.observations), ("regret (prequential)", s.regret), ("certificate", s.certificate),
            ("guarantee", s.regret_bound), ("pending labels", s.pending_labels), ("bytes of state", s.state_bytes),
        ]
        if s.label_gate is not None:
            rows.append(("labels set aside", s.label_gate.set_aside))
        spans = (s.classes or s).performance, (s.classes or s).recent
        figures = [getattr(span, kind) if span else None for span in spans for kind in ("prequential", "served")]
        known = next((f for f in figures if f is not None), None)
        names = [field.name for field in dataclasses.fields(known)] if known is not None else []
        performance = [(_words(name), *(getattr(f, name, None) for f in figures)) for name in names]
        head = ("", "all, prequential", "all, served", "recent, prequential", "recent, served")
        return _table(f"{s.model}: {s.learner}", rows) + (_table("Performance", performance, head) if performance else "")


class ShownHistory:
    """A history as a DataFrame and as a plot."""

    def _rows(self) -> list[dict[str, Any]]:
        """A row for each point: prequential figures of the observations since the previous one."""
        h: Any = self
        rows = []
        for p in h.points:
            row = {"sequence": p.sequence, "time": p.time}
            for performance in (p.performance, p.classes):
                if performance is not None and performance.prequential is not None:
                    row |= {name: v for name, v in vars(performance.prequential).items() if v is not None}
            row |= {"regret": p.regret, "regret_bound": p.regret_bound, "dictionary": p.dictionary}
            rows.append(row | {f"inside_{n}": share for n, share in enumerate(p.realised)})
        return rows

    def to_frame(self) -> pandas.DataFrame:
        """The points as a DataFrame by sequence, without the figures that the model has not.

        Losses and skill are prequential, of the observations since the previous point. regret is of
        all observations. inside_N is the share of labels inside the N-th interval of the spec.
        """
        import pandas

        columns = None if (rows := self._rows()) else ["sequence", "time"]
        return pandas.DataFrame(rows, columns=columns).set_index("sequence").dropna(axis="columns", how="all")

    def plot(self, *figures: str) -> Any:
        """Plots figures, columns of to_frame, over the observations, by default skill and regret.

        Marks detected changes of the loss, and draws the guarantee of the regret. Returns the axes. It needs
        matplotlib.
        """
        try:
            from matplotlib import pyplot
        except ImportError as e:
            raise ImportError("plot needs matplotlib: pip install matplotlib, or apt-get install python3-matplotlib") from e
        h: Any = self
        rows = self._rows()
        known = {name for row in rows for name, value in row.items() if value is not None} - {"sequence", "time"}
        if unknown := [name for name in figures if name not in known]:
            raise ValueError(f"the history has no {unknown[0]!r}, want some of {', '.join(sorted(known)) or 'a longer history'}")
        shown = figures or [name for name in ("skill", "regret") if name in known] or sorted(known)[:1]
        if not shown:
            raise ValueError("the history is empty: the model has learned nothing")
        figure, axes = pyplot.subplots(len(shown), 1, sharex=True, squeeze=False, figsize=(8, 2.5 * len(shown)), layout="constrained")
        for name, ax in zip(shown, axes[:, 0]):
            for column, style in ((name, "-"), ("regret_bound", "--") if name == "regret" else ("", "")):
                if column in known:
                    points = [(row["sequence"], row[column]) for row in rows if row.get(column) is not None]
                    ax.plot(*zip(*points), style, label=_words(column).replace("regret bound", "guarantee"))
            for drift in h.drifts:
                ax.axvline(drift.sequence, color="0.7", linewidth=1)
            ax.set_ylabel(f"{_words(name)} (prequential)" if name in ("skill", "mean_loss", "regret") else _words(name))
            if len(ax.get_lines()) > 1 + len(h.drifts):
                ax.legend()
        axes[-1, 0].set_xlabel("observations")
        return axes[:, 0]
