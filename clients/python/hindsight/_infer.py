"""A spec for the columns of a DataFrame, by the rules of "hindsight infer"."""

from __future__ import annotations

import datetime
import numbers
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

if TYPE_CHECKING:
    import pandas

# The same as in cmd/internal/infer: how many categories have a feature each, what a text may have of bytes, how
# many different integers with how many cells each are categories, and of how many in all columns together.
_OWN_FEATURES, _TEXT = 64, 256
_FEW_INTEGERS, _CELLS_EACH, _INTEGER_FEATURES = 31, 30, 128


def infer(
    frame: pandas.DataFrame, label: Union[str, Sequence[str], None] = None, *, classes: Optional[bool] = None
) -> dict[str, Any]:
    """Infers a spec from a DataFrame, with the columns as named inputs. It has no learner: auto, or add one.

    label is the column of the label, or the columns of several, and no input. Numbers are real
    labels; texts, booleans and categories are classes. classes=True makes classes of numbers.

    Numbers are numeric inputs. Booleans, and numbers that are 0 or 1, are boolean inputs. Texts,
    categories, and a few different integers that occur often, such as hours, are categorical inputs.
    Times are time inputs. Lists of numbers of one length are vectors. A column without a value,
    and one of texts nearly all of which differ, is left out with a warning. A column without a
    missing value refuses missing values.
    """
    columns = [] if label is None else [label] if isinstance(label, str) else list(label)
    if absent := [c for c in columns if c not in frame.columns]:
        raise ValueError(f"the frame has no column {absent[0]!r}")
    features = frame.drop(columns=columns)
    few = {c: n for c in features.columns if (n := _few_integers(features[c]))}
    categorize = sum(few.values()) <= _INTEGER_FEATURES
    spec: dict[str, Any] = {"inputs": []}
    for column in features.columns:
        values = features[column].dropna()
        kind = _kind(column, values, few.get(column, 0) if categorize else 0)
        if isinstance(kind, str):
            warnings.warn(f"column {column!r} is left out: {kind}", stacklevel=2)
            continue
        refuse = {"missing": "MISSING_REFUSE"} if len(values) == len(features) else {}
        spec["inputs"].append({"name": str(column), **kind, **refuse})
    if not spec["inputs"]:
        raise ValueError("the frame has no column that can be an input")
    if len(columns) > 1:
        spec["outputs"] = len(columns)
    elif columns:
        labels = frame[columns[0]].dropna()
        if not len(labels):
            raise ValueError(f"column {label!r} has no label, want one or more")
        if classes or (classes is None and not _is_number(labels)):
            spec["classes"] = {"max_classes": max(2, labels.nunique())}
    return spec


def _is_number(values: pandas.Series) -> bool:
    """Tells whether all values are numbers, booleans apart."""
    from pandas.api import types

    if types.is_object_dtype(values):
        return all(isinstance(v, numbers.Real) and not isinstance(v, bool) or type(v).__name__ == "Decimal" for v in values)
    return bool(types.is_numeric_dtype(values)) and not types.is_bool_dtype(values)


def _few_integers(values: pandas.Series) -> int:
    """The number of different integers of a column that are categories, 0 if they are none."""
    values = values.dropna()
    if not len(values) or not _is_number(values) or (values % 1 != 0).any():
        return 0
    count = int(values.nunique())
    few = 1 < count <= _FEW_INTEGERS and _CELLS_EACH * count <= len(values) and not _is_boolean(values)
    return count if few else 0


def _is_boolean(values: pandas.Series) -> bool:
    from pandas.api import types

    if types.is_bool_dtype(values) or all(isinstance(v, bool) for v in values):
        return True
    return _is_number(values) and set(values.unique()) == {0, 1}


def _kind(column: Any, values: pandas.Series, few: int) -> Union[dict[str, Any], str]:
    """The kind of an input with these values, none of them missing; or why it is no input. few integers are categories."""
    from pandas.api import types

    if not len(values):
        return "it has no value"
    if _is_boolean(values):
        return {"boolean": {}}
    if _is_number(values):
        return {"categorical": {"max_categories": few}} if few else {"numeric": {}}
    if types.is_datetime64_any_dtype(values) or all(isinstance(v, datetime.date) for v in values):
        return {"time": _time(values)}
    if all(types.is_list_like(v) for v in values):
        return _vector(column, values)
    if not isinstance(values.dtype, types.CategoricalDtype) and not all(isinstance(v, (str, bool, numbers.Real)) for v in values):
        raise TypeError(f"column {column!r}: got {values.dtype} such as {values.iloc[0]!r}, want numbers, booleans, texts, times or lists of numbers")
    texts = values.astype(str)
    if (longest := int(texts.str.encode("utf-8").str.len().max())) > _TEXT:
        return f"texts of up to {longest} bytes; a category has at most {_TEXT}"
    count = int(texts.nunique())
    if count > _OWN_FEATURES and 4 * count > 3 * len(texts):
        return "nearly all of its texts differ; pandas.to_datetime makes times of texts"
    return {"categorical": {"max_categories": min(count, _OWN_FEATURES)}}


def _time(values: pandas.Series) -> dict[str, Any]:
    """The cycles that the times have seen, and a trend where cycles repeat or are absent."""
    import pandas

    times = pandas.to_datetime(values)
    days = (times.max() - times.min()) / pandas.Timedelta(days=1)
    seen = {"HOUR_OF_DAY": times.dt.time.nunique() > 1, "DAY_OF_WEEK": days >= 14, "DAY_OF_YEAR": days >= 365}
    cycles = [f"CYCLE_{name}" for name, long in seen.items() if long]
    return {"cycles": cycles} | ({"trend": True} if days >= 365 or not cycles else {})


def _vector(column: Any, values: pandas.Series) -> dict[str, Any]:
    lengths = {len(v) for v in values}
    if len(lengths) > 1:
        raise ValueError(f"column {column!r}: got lists of {min(lengths)} to {max(lengths)} numbers, want one length")
    return {"vector": {"length": lengths.pop()}}
