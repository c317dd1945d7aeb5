"""A spec for the columns of a DataFrame: the server infers it from the texts of the cells."""

from __future__ import annotations

import csv
import datetime
import io
import numbers
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from hindsight import _calls, frames
from hindsight._values import moment, scalar, spec_dict
from hindsight.v1 import model_pb2

if TYPE_CHECKING:
    import pandas

#: How many cells are sent at most, of rows that are evenly spaced, how many letters of each, and of the name of a column.
_CELLS, _LETTERS, _NAME = 200_000, 400, 40
#: The categories of a column that have a feature each where keys are not wanted.
_MAX_FEATURES = 64
#: How texts begin that are times.
_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d|$)")


def infer(
    frame: pandas.DataFrame, label: Union[str, Sequence[str], None], classes: Optional[bool], keys: bool
) -> _calls.Call[dict[str, Any]]:
    """The call of Client.infer."""
    frames.reject_twins(frame)
    columns = [] if label is None else [label] if isinstance(label, str) else list(label)
    if absent := [c for c in columns if c not in frame.columns]:
        raise ValueError(f"the frame has no column {absent[0]!r}")
    if columns and not len(frame[columns[0]].dropna()):
        raise ValueError(f"column {label!r} has no label, want one or more")
    return columns_of(frame.drop(columns=columns), [frame[c] for c in columns], classes, keys)


def columns_of(
    features: pandas.DataFrame, labels: Sequence[pandas.Series], classes: Optional[bool], keys: bool
) -> _calls.Call[dict[str, Any]]:
    """The call that infers a spec of features whose rows have labels."""
    frames.reject_twins(features)
    count, width = len(features), len(features.columns) + max(1, len(labels))
    limit = max(100, _CELLS // width)
    rows = range(count) if count <= limit else [n * (count - 1) // (limit - 1) for n in range(limit)]
    request = model_pb2.InferSpecRequest(target=",".join(f"label {n}" for n in range(max(1, len(labels)))))
    vectors: dict[int, Any] = {}
    table: list[list[str]] = []
    for n, name in enumerate(features.columns):
        values = [scalar(v, str(name)) for v in features[name].iloc[rows].tolist()]
        if vector := _vector(name, values):
            vectors[n] = {"name": frames.name_of(name), "vector": {"length": vector}}
            continue
        # With the number in front no name looks like a number. What a name says is in its last word.
        header = f"{n} {str(name).encode()[-_NAME:].decode(errors='ignore')}"
        if _is_text(name, values, features[name].dtype):
            request.texts.append(header)
            texts = [v for v in values if isinstance(v, str)]
            if texts and all(map(_DATE.match, texts)):
                convert = f"frame[{name!r}] = pandas.to_datetime(frame[{name!r}])"
                warnings.warn(f"column {name!r} holds times as texts, which are no times: {convert} makes them times", stacklevel=2)
        table.append([header, *map(_cell, values)])
    for n, series in enumerate(labels or [None]):
        known = [0] * len(rows) if series is None else [scalar(v, "label") for v in series.iloc[rows].tolist()]
        if n == 0 and len(labels) == 1:
            request.classes = classes if classes is not None else any(not _is_number(v) for v in known if v is not None)
        table.append([f"label {n}", *map(_cell, known)])
    out = io.StringIO()
    csv.writer(out).writerows(zip(*table))
    request.csv = out.getvalue()

    def read(answer: Any) -> dict[str, Any]:
        spec: dict[str, Any] = spec_dict(answer.spec)
        inputs = dict(vectors)
        for column in answer.columns[: len(answer.columns) - max(1, len(labels))]:
            if column.notice:
                name = features.columns[int(column.name.split()[0])]
                kind = model_pb2.InferredColumn.Kind.Name(column.kind)[5:].lower()
                warnings.warn(f"column {name!r} is {'left out' if kind == 'left_out' else 'a ' + kind}: {column.reason}", stacklevel=2)
        for declared in spec.get("inputs", ()):
            n = int(declared["name"].split()[0])
            if not keys and "key" in declared.get("categorical", {}):
                declared["categorical"] = {"max_categories": _MAX_FEATURES}
            inputs[n] = declared | {"name": frames.name_of(features.columns[n])}
        if not inputs:
            raise ValueError("the frame has no column that can be an input")
        spec["inputs"] = [inputs[n] for n in sorted(inputs)]
        if "classes" in spec:  # Of all rows, not of those that were sent.
            spec["classes"] = {"max_classes": max(2, labels[0].nunique())}
        return spec

    return _calls.infer(request, read)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) or type(value).__name__ == "Decimal"


def _vector(name: Any, values: list[Any]) -> int:
    """The length of lists of numbers, 0 for other values."""
    known = [v for v in values if v is not None]
    if not known or not all(isinstance(v, Iterable) and not isinstance(v, (str, bytes, Mapping, set, frozenset)) for v in known):
        return 0
    lengths = {len(v) for v in known}
    if len(lengths) > 1:
        raise ValueError(f"column {name!r}: got lists of {min(lengths)} to {max(lengths)} numbers, want one length")
    return lengths.pop()


def _is_text(name: Any, values: list[Any], dtype: Any) -> bool:
    """Reports whether values are texts or categories, whatever their texts look like."""
    known = [v for v in values if v is not None]
    for v in known:
        if not (isinstance(v, (str, bool, datetime.date)) or _is_number(v)):
            raise TypeError(f"column {name!r}: got {dtype} such as {v!r}, want numbers, booleans, texts, times or lists of numbers")
    times = [v for v in known if isinstance(v, datetime.date)]
    if len({getattr(v, "tzinfo", None) is None for v in times}) > 1:
        raise ValueError(f"column {name!r}: got times with and without an offset, want one kind")
    if times and len(times) == len(known):
        return False
    return type(dtype).__name__ == "CategoricalDtype" or any(isinstance(v, (str, datetime.date)) for v in known)


def _cell(value: Any) -> str:
    """A value as a cell of a CSV file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.date):
        return moment(value)
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return str(value)[:_LETTERS]
