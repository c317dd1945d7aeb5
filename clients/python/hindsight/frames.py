"""DataFrames of pandas in and out.

A model with named inputs takes the columns by their names, and leaves out other columns; every other model takes
all columns in their order as features. What pandas takes for missing is a missing value.
"""

from __future__ import annotations

import numbers
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from hindsight import messages
from hindsight._calls import new_id
from hindsight._values import Label, is_missing, number

if TYPE_CHECKING:
    import pandas


class Observations:
    """The rows of a DataFrame as observations."""

    def __init__(
        self, frame: pandas.DataFrame, label: Union[str, Sequence[str]], weight: Optional[str], id: Optional[str],
        run: Optional[str], info: messages.ModelInfo,
    ) -> None:
        reject_twins(frame)
        columns = [label] if isinstance(label, str) else list(label)
        others = [c for c in (weight, id) if c is not None]
        if absent := [c for c in columns + others if c not in frame.columns]:
            raise ValueError(f"the frame has no column {absent[0]!r}")
        missing = frame[columns].isna().any(axis=1)
        if missing.any():
            warnings.warn(f"{int(missing.sum())} rows have no label and are left out, the first is {missing.idxmax()!r}", stacklevel=3)
        places = [n for n, unknown in enumerate(missing) if not unknown]
        self.frame = frame = frame[~missing.to_numpy()]
        self.rows = rows_of(frame.drop(columns=columns + others), info)
        self._labels: list[Label] = frame[label].tolist() if isinstance(label, str) else numbers_of(frame[columns])
        if "classes" in (info.spec or {}):
            self._labels = [class_of(v) for v in self._labels]
        self._weights = None if weight is None else frame[weight].tolist()
        run = run or new_id()
        self._ids = [f"{run}-{n}" for n in places] if id is None else [str(v) for v in frame[id].tolist()]

    def rest(self, begin: int, count: int) -> dict[str, Any]:
        """The labels, weights and ids of some rows, as observe_batch takes them."""
        part = slice(begin, begin + count)
        weights = None if self._weights is None else self._weights[part]
        return {"labels": self._labels[part], "weights": weights, "ids": self._ids[part]}


def rows_of(frame: pandas.DataFrame, info: messages.ModelInfo) -> list[Any]:
    """The rows as inputs of a model. Columns that a model with named inputs has not are left out."""
    declared = (info.spec or {}).get("inputs", ())
    inputs = [i["name"] for i in declared]
    if not inputs:
        return numbers_of(frame)
    reject_twins(frame)
    columns = {name_of(c): frame[c] for c in frame.columns}
    if absent := [name for name in inputs if name not in columns]:
        raise ValueError(f"the frame has no column {absent[0]!r}, an input of the model: add it, with None where it is missing")
    values = [[None if is_missing(v) else v for v in columns[name].tolist()] for name in inputs]
    for n, i in enumerate(declared):
        if "categorical" in i:
            values[n] = [_exact(v) for v in values[n]]
    return [dict(zip(inputs, row)) for row in zip(*values)]


def name_of(column: Any) -> str:
    """The name of the input for a column, as of a file: of at most 64 bytes, without line breaks and control characters."""
    name = "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else " " for c in str(column)).strip()
    return name.encode()[:64].decode(errors="ignore").strip()


def reject_twins(frame: pandas.DataFrame) -> None:
    """Rejects a DataFrame with two columns of one name, and one with names of several levels."""
    if frame.columns.nlevels > 1:
        join = "frame.columns = ['_'.join(map(str, c)) for c in frame.columns]"
        raise ValueError(f"the columns of the frame have names of {frame.columns.nlevels} levels, want one: {join}")
    names = [name_of(c) for c in frame.columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"the frame has {names.count(twice[0])} columns called {twice[0]!r}, want a name for each")


def _exact(category: Any) -> Any:
    """A category, which keeps all digits of an integer that a float64 would round. An integer and its text are one category."""
    return str(category) if isinstance(category, numbers.Integral) and abs(int(category)) >= 1 << 53 else category


def class_of(label: Any) -> str:
    """A label as a class: numbers and booleans as texts, 1.0 as 1."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def numbers_of(frame: pandas.DataFrame) -> list[Any]:
    """The rows of a DataFrame of numbers."""
    try:
        rows: list[Any] = frame.to_numpy(float).tolist()
        return rows
    except (TypeError, ValueError):
        for name in frame.columns:
            for value in frame[name].tolist():
                if not is_missing(value):
                    number(value, f"column {name!r}")
        raise


def batches(rows: list[Any], size: int) -> Iterator[tuple[int, list[Any]]]:
    """The rows in pieces, each with the position of its first row."""
    for n in range(0, len(rows), size):
        yield n, rows[n : n + size]


def predicted(frame: pandas.DataFrame, predictions: list[messages.Prediction]) -> pandas.DataFrame:
    """The DataFrame of predictions."""
    import pandas

    out = []
    for p in predictions:
        row: dict[str, Any] = {
            "prediction_id": p.prediction_id or None, "value": p.value, "class": p.class_ or None,
            "probability": p.probability, "standard_error": p.standard_error, "leverage": p.leverage,
        }
        row |= {f"value_{n}": v for n, v in enumerate(p.values)}
        row |= {f"score_{name}": v for name, v in p.scores.items()}
        for i in p.intervals:
            row |= {f"lower_{i.coverage:g}": i.lower, f"upper_{i.coverage:g}": i.upper} if i.lower is not None else {}
            row |= {f"lower_{i.coverage:g}_{n}": v for n, v in enumerate(i.lowers)}
            row |= {f"upper_{i.coverage:g}_{n}": v for n, v in enumerate(i.uppers)}
        out.append(row)
    return pandas.DataFrame(out, index=frame.index).dropna(axis="columns", how="all")


def learned(frame: pandas.DataFrame, outcomes: list[messages.Outcome]) -> pandas.DataFrame:
    """The DataFrame of outcomes."""
    import pandas

    out = []
    for o in outcomes:
        row: dict[str, Any] = {"sequence": o.sequence, "prediction": o.prediction, "class": o.class_ or None}
        row |= {f"prediction_{n}": v for n, v in enumerate(o.predictions)}
        out.append(row | {"loss": o.loss, "duplicate": o.duplicate, "set_aside": o.set_aside})
    return pandas.DataFrame(out, index=frame.index).dropna(axis="columns", how="all")
