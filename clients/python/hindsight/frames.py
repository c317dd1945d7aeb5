"""DataFrames of pandas in and out.

A model with named inputs takes the columns by their names, every other one takes all
columns in their order as features. In a column, what pandas takes for missing is a
missing value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from hindsight import messages
from hindsight._calls import new_id
from hindsight._values import Label, is_missing, number

if TYPE_CHECKING:
    import pandas

    from hindsight import aio
    from hindsight.client import Model


def predict(model: Model, frame: pandas.DataFrame, *, remember: bool = False, batch: int = 1024) -> pandas.DataFrame:
    """Predicts the rows of a DataFrame.

    The answer has the index of frame, and what applies to the model of the columns value,
    class, probability, standard_error, leverage, lower_0.9 and upper_0.9 for each level,
    value_0, value_1 and so on for several outputs, score_NAME for each class. With
    remember it has prediction_id, for labels to come.
    """
    predictions: list[messages.Prediction] = []
    for _, rows in batches(rows_of(frame, named(model.get())), batch):
        predictions += model.predict_batch(rows, remember=remember)
    return predicted(frame, predictions)


def learn(
    model: Model,
    frame: pandas.DataFrame,
    label: Union[str, Sequence[str]],
    *,
    weight: Optional[str] = None,
    id: Optional[str] = None,
    run: Optional[str] = None,
    batch: int = 256,
) -> pandas.DataFrame:
    """Learns the rows of a DataFrame in their order, a batch at a time.

    label is the column of the label, or the columns of a model with several outputs. The
    columns weight and id are no inputs either. Without a column of ids, the row at
    position n has the id RUN-n. With the same run, learning that was interrupted goes on:
    what was learned already is answered, and not learned again. run is new by default.

    The answer has the index of frame and the columns sequence, prediction, loss, duplicate
    and set_aside; class in place of prediction for a classifier, prediction_0, prediction_1
    and so on for several outputs. The predictions are prequential.
    """
    observations = Observations(frame, label, weight, id, run, named(model.get()))
    outcomes: list[messages.Outcome] = []
    for n, rows in batches(observations.rows, batch):
        outcomes += model.observe_batch(rows, **observations.rest(n, len(rows)))
    return learned(frame, outcomes)


async def predict_async(
    model: aio.Model, frame: pandas.DataFrame, *, remember: bool = False, batch: int = 1024
) -> pandas.DataFrame:
    """See predict."""
    predictions: list[messages.Prediction] = []
    for _, rows in batches(rows_of(frame, named(await model.get())), batch):
        predictions += await model.predict_batch(rows, remember=remember)
    return predicted(frame, predictions)


async def learn_async(
    model: aio.Model,
    frame: pandas.DataFrame,
    label: Union[str, Sequence[str]],
    *,
    weight: Optional[str] = None,
    id: Optional[str] = None,
    run: Optional[str] = None,
    batch: int = 256,
) -> pandas.DataFrame:
    """See learn."""
    observations = Observations(frame, label, weight, id, run, named(await model.get()))
    outcomes: list[messages.Outcome] = []
    for n, rows in batches(observations.rows, batch):
        outcomes += await model.observe_batch(rows, **observations.rest(n, len(rows)))
    return learned(frame, outcomes)


class Observations:
    """The rows of a DataFrame as observations."""

    def __init__(
        self, frame: pandas.DataFrame, label: Union[str, Sequence[str]], weight: Optional[str], id: Optional[str],
        run: Optional[str], by_name: bool,
    ) -> None:
        columns = [label] if isinstance(label, str) else list(label)
        others = [c for c in (weight, id) if c is not None]
        if absent := [c for c in columns + others if c not in frame.columns]:
            raise ValueError(f"the frame has no column {absent[0]!r}")
        missing = frame[columns].isna().any(axis=1)
        if missing.any():
            raise ValueError(f"{int(missing.sum())} rows have no label, the first is {missing.idxmax()!r}: leave them out")
        self.rows = rows_of(frame.drop(columns=columns + others), by_name)
        self._labels: list[Label] = frame[label].tolist() if isinstance(label, str) else numbers_of(frame[columns])
        self._weights = None if weight is None else frame[weight].tolist()
        run = run or new_id()
        self._ids = [f"{run}-{n}" for n in range(len(frame))] if id is None else [str(v) for v in frame[id].tolist()]

    def rest(self, begin: int, count: int) -> dict[str, Any]:
        """The labels, weights and ids of some rows, as observe_batch takes them."""
        part = slice(begin, begin + count)
        weights = None if self._weights is None else self._weights[part]
        return {"labels": self._labels[part], "weights": weights, "ids": self._ids[part]}


def named(info: messages.ModelInfo) -> bool:
    """Tells whether the inputs of a model have names."""
    return info.spec is not None and bool(info.spec.get("inputs"))


def rows_of(frame: pandas.DataFrame, by_name: bool) -> list[Any]:
    """The rows as inputs of a model."""
    if not by_name:
        return numbers_of(frame)
    columns = [[None if is_missing(v) else v for v in frame[c].tolist()] for c in frame.columns]
    names = [str(c) for c in frame.columns]
    return [dict(zip(names, values)) for values in zip(*columns)]


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
