"""A spec for the columns of a DataFrame, by the rules of "hindsight infer"."""

from __future__ import annotations

import datetime
import math
import numbers
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from hindsight import frames

if TYPE_CHECKING:
    import pandas

# The same as in internal/infer, where the constants and the formulas of _evidence are explained: how many
# categories have a feature each, what a text may have of bytes, which integers are names of things, and how many
# different integers with how many cells each are categories.
_OWN_FEATURES, _TEXT, _PASSAGE, _SEVERAL = 64, 256, 1 << 14, 4
_EVIDENT, _ORDERED, _ORDERLESS, _LEAST_VALUES, _MOST_WEIGHT = 5, 0.4, 0.5, 8, 20
_STRAIGHT, _FEW_INTEGERS, _CELLS_EACH = 0.5, 31, 30
_NAMES = {
    "account", "client", "code", "customer", "device", "id", "ids", "item", "postcode", "product", "shop", "sku", "store", "uid", "user",
    "zip", "zipcode",
}


def infer(
    frame: pandas.DataFrame, label: Union[str, Sequence[str], None] = None, *, classes: Optional[bool] = None, keys: bool = True
) -> dict[str, Any]:
    """Infers a spec from a DataFrame, with the columns as named inputs. It has no learner: auto, or add one.

    label is the column of the label, or the columns of several, and no input. Numbers are real
    labels; texts, booleans and categories are classes. classes=True makes classes of numbers.

    Numbers are numeric inputs. Booleans, and numbers that are 0 or 1, are boolean inputs. Texts and
    categories are categorical inputs, and so are integers that name things, such as users: if the labels
    of neighboring integers are no more alike than others, or if the name of the column says so. A few
    integers, such as hours, are categories if the labels follow them in no line. Of more than 64
    categories each is a key, whose effect auto learns; keys=False, for other learners, gives the first 64
    a feature each. Times are time inputs. Lists of numbers of one length are vectors. Texts of which most do
    not repeat another are text inputs if most have four words or more. A column without a value, and one of
    other texts of which most do not repeat another, is left out with a warning. Every input
    takes missing values.
    """
    frames.refuse_twins(frame)
    columns = [] if label is None else [label] if isinstance(label, str) else list(label)
    if absent := [c for c in columns if c not in frame.columns]:
        raise ValueError(f"the frame has no column {absent[0]!r}")
    spec = inputs_of(frame.drop(columns=columns), frame[columns[0]] if columns else None, keys)
    if len(columns) > 1:
        spec["outputs"] = len(columns)
    elif columns:
        labels = frame[columns[0]].dropna()
        if not len(labels):
            raise ValueError(f"column {label!r} has no label, want one or more")
        if classes or (classes is None and not _is_number(labels)):
            spec["classes"] = {"max_classes": max(2, labels.nunique())}
    return spec


def inputs_of(features: pandas.DataFrame, labels: Optional[pandas.Series], keys: bool) -> dict[str, Any]:
    """A spec with the inputs for the columns. The labels are those of the rows, if they are known."""
    frames.refuse_twins(features)
    spec: dict[str, Any] = {"inputs": []}
    features = features.reset_index(drop=True)
    labels = None if labels is None else labels.reset_index(drop=True)
    for column in features.columns:
        values = features[column].dropna()
        kind = _kind(column, values, labels)
        if isinstance(kind, str):
            warnings.warn(f"column {column!r} is left out: {kind}", stacklevel=2)
            continue
        if not keys and "key" in kind.get("categorical", {}):
            kind = {"categorical": {"max_categories": _OWN_FEATURES}}
        spec["inputs"].append({"name": str(column), **kind})
    if not spec["inputs"]:
        raise ValueError("the frame has no column that can be an input")
    return spec


def _is_number(values: pandas.Series) -> bool:
    """Tells whether all values are numbers, booleans apart."""
    from pandas.api import types

    if types.is_object_dtype(values):
        return all(isinstance(v, numbers.Real) and not isinstance(v, bool) or type(v).__name__ == "Decimal" for v in values)
    return bool(types.is_numeric_dtype(values)) and not types.is_bool_dtype(values) and not types.is_complex_dtype(values)


def _category(column: Any, values: pandas.Series, labels: Optional[pandas.Series]) -> bool:
    """Tells whether numbers are categories."""
    count = int(values.nunique())
    if (values % 1 != 0).any() or count < 2 or 2 * count > len(values):
        return False
    line, ratio = _evidence(values, labels)
    if ratio is not None and ratio >= _ORDERLESS and 4 * count <= len(values):
        return True
    if _names_things(str(column)) and (ratio is None or ratio >= _ORDERED):
        return True
    return line is not None and line < _STRAIGHT and count <= _FEW_INTEGERS and _CELLS_EACH * count <= len(values)


def _names_things(column: str) -> bool:
    """Tells whether the last word of a column's name says that it names things: user, storeId, zip_code."""
    words = re.findall(r"[^\W\d_]+", column)
    word = words[-1] if words else ""
    if word.upper() != word:
        word = re.findall(r"^[^A-Z]+|[A-Z][^A-Z]*", word)[-1]
    return word.lower() in _NAMES


def _evidence(values: pandas.Series, labels: Optional[pandas.Series]) -> tuple[Optional[float], Optional[float]]:
    """What labels say of integers: the share of a line, and how unlike neighbors are beside others."""
    import numpy
    import pandas

    labels = None if labels is None else labels.loc[values.index].dropna()
    if labels is None or not len(labels):
        return None, None
    first = labels.iloc[0]
    y = labels.astype(float) - float(first) if _is_number(labels) else (labels == first).astype(float)
    groups = pandas.DataFrame({"v": values.loc[labels.index].astype(float), "y": y, "s": y * y}).groupby("v", sort=True)
    n, total, squares = (a.to_numpy(float) for a in (groups["y"].count(), groups["y"].sum(), groups["s"].sum()))
    v, rows, d = groups["y"].count().index.to_numpy(float), n.sum(), len(n)
    if d < 3 or rows <= d:
        return None, None
    means = total / n
    about, center = means - total.sum() / rows, v - (n * v).sum() / rows
    between = (n * about**2).sum()
    variance = numpy.maximum(0, squares - total**2 / n).sum() / (rows - d)
    if not between / (d - 1) > (1 + _EVIDENT * math.sqrt(2 / (d - 1) + 2 / (rows - d))) * variance:
        return None, None
    line = float((n * center * about).sum() ** 2 / (n * center**2).sum() / between)

    def apart(g: int) -> float:
        a, b = n[:-g], n[g:]
        weights = numpy.minimum(a * b / (a + b), _MOST_WEIGHT)
        return float((weights * ((means[:-g] - means[g:]) ** 2 - variance * (1 / a + 1 / b))).sum() / weights.sum())

    if d < _LEAST_VALUES:
        return line, None
    distant = (apart(d // 3) + apart(d // 2) + apart(2 * d // 3)) / 3
    return line, apart(1) / distant if distant > 0 else None


def _is_boolean(values: pandas.Series) -> bool:
    from pandas.api import types

    if types.is_bool_dtype(values) or all(type(v).__name__ in ("bool", "bool_") for v in values):
        return True
    return _is_number(values) and set(values.unique()) == {0, 1}


def _kind(column: Any, values: pandas.Series, labels: Optional[pandas.Series]) -> Union[dict[str, Any], str]:
    """The kind of an input with these values, none of them missing; or why it is no input."""
    from pandas.api import types

    if not len(values):
        return "it has no value"
    if isinstance(values.dtype, types.CategoricalDtype) and types.is_datetime64_any_dtype(values.cat.categories):
        values = values.astype(values.cat.categories.dtype)
    if _is_boolean(values):
        return {"boolean": {}}
    if _is_number(values):
        return _declared(int(values.nunique())) if _category(column, values, labels) else {"numeric": {}}
    if types.is_datetime64_any_dtype(values) or all(isinstance(v, datetime.date) for v in values):
        return {"time": _time(column, values)}
    if all(types.is_list_like(v) and not isinstance(v, (Mapping, set, frozenset)) for v in values):
        return _vector(column, values)
    if not isinstance(values.dtype, types.CategoricalDtype) and not all(
        isinstance(v, (str, bool, numbers.Real)) or type(v).__name__ in ("Interval", "Period") for v in values
    ):
        raise TypeError(f"column {column!r}: got {values.dtype} such as {values.iloc[0]!r}, want numbers, booleans, texts, times or lists of numbers")
    texts = values.astype(str)
    count = int(texts.nunique())
    if _sentences(texts, count):
        return {"text": {}}
    if (longest := int(texts.str.encode("utf-8").str.len().max())) > _TEXT:
        return f"texts of up to {longest} bytes; a category has at most {_TEXT}"
    if count > _OWN_FEATURES and 2 * count > len(texts):
        return "most of its texts do not repeat another; pandas.to_datetime makes times of texts"
    return _declared(count)


def _sentences(texts: pandas.Series, count: int) -> bool:
    """Whether most texts have several words, and are too many or too long for categories."""
    longest = int(texts.str.encode("utf-8").str.len().max())
    many = longest > _TEXT or (count > _OWN_FEATURES and 2 * count > len(texts))
    return many and longest <= _PASSAGE and 2 * int((texts.str.split().str.len() >= _SEVERAL).sum()) >= len(texts)


def _declared(count: int) -> dict[str, Any]:
    """A categorical input of so many categories: many are keys."""
    return {"categorical": {"max_categories": count} if count <= _OWN_FEATURES else {"key": True}}


def _time(column: Any, values: pandas.Series) -> dict[str, Any]:
    """The cycles that the times have seen, and a trend where cycles repeat or are absent."""
    moments = [v if isinstance(v, datetime.datetime) else datetime.datetime(v.year, v.month, v.day) for v in values]  # pandas ends in 2262.
    if len({m.tzinfo is None for m in moments}) > 1:
        raise ValueError(f"column {column!r}: got times with and without an offset, want one kind")
    days = (max(moments) - min(moments)) / datetime.timedelta(days=1)
    seen = {"HOUR_OF_DAY": len({m.time() for m in moments}) > 1, "DAY_OF_WEEK": days >= 14, "DAY_OF_YEAR": days >= 365}
    cycles = [f"CYCLE_{name}" for name, long in seen.items() if long]
    return {"cycles": cycles} | ({"trend": True} if days >= 365 or not cycles else {})


def _vector(column: Any, values: pandas.Series) -> dict[str, Any]:
    lengths = {len(v) for v in values}
    if len(lengths) > 1:
        raise ValueError(f"column {column!r}: got lists of {min(lengths)} to {max(lengths)} numbers, want one length")
    return {"vector": {"length": lengths.pop()}}
