"""Values of Python as values of the API, and back."""

from __future__ import annotations

import dataclasses
import datetime
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Union

from google.protobuf import duration_pb2, json_format, struct_pb2, timestamp_pb2

from hindsight.v1 import prediction_pb2, spec_pb2


class Array(Protocol):
    """An array or a scalar of numpy, or a Series of pandas."""

    def tolist(self) -> Any:
        """The content as numbers of Python."""


#: The input of a model: its features in their order, as a list, a tuple or an array of
#: numpy; or its named inputs, as a mapping.
Input = Union[Sequence[float], Mapping[str, Any], Array]
#: What happened: a number, a class, or the numbers of a model with several outputs.
Label = Union[float, str, Sequence[float], Array]
#: A spec: as in the documentation, as a mapping or as JSON, or the message of the API.
Spec = Union[Mapping[str, Any], str, spec_pb2.ModelSpec]
#: A time span in seconds, or as a timedelta.
Span = Union[float, datetime.timedelta]


def features(x: Union[Sequence[float], Array]) -> list[float]:
    """The features of an input that has no names."""
    if isinstance(x, (str, bytes)):
        raise TypeError(f"an input is a list of numbers or a mapping of names to values, not {type(x).__name__}")
    reject_frame(x, "predict_frame and learn_frame take")
    given: Any = x.tolist() if hasattr(x, "tolist") else x
    try:
        return [number(v, f"features[{n}]") for n, v in enumerate(given)]
    except TypeError as e:
        raise TypeError(f"an input is a list of numbers or a mapping of names to values: {e}") from None


def number(value: Any, field: str) -> float:
    """A value as a number. The error names the field."""
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{field}: got an integer that is too large, want a number of at most 1e100") from None
    except (TypeError, ValueError) as e:
        raise type(e)(f"{field}: got {value!r}, want a number") from None


def reject_frame(x: Any, instead: str) -> None:
    """Rejects a DataFrame, which iterates over the names of its columns."""
    if hasattr(x, "columns") and hasattr(x, "iterrows"):
        raise TypeError(f"got a DataFrame, want rows: {instead} a DataFrame")


def inputs(x: Mapping[str, Any]) -> struct_pb2.Struct:
    """Named inputs as a Struct."""
    out = struct_pb2.Struct()
    for name, value in x.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of an input is a text, not {name!r}")
        _set(out.fields[name], value, name)
    return out


def _set(out: struct_pb2.Value, value: Any, name: str) -> None:
    value = scalar(value, name)
    if value is None:
        out.null_value = struct_pb2.NULL_VALUE
    elif isinstance(value, bool):
        out.bool_value = value
    elif isinstance(value, str):
        out.string_value = value
    elif isinstance(value, numbers.Real) or type(value).__name__ == "Decimal":
        out.number_value = number(value, f"input {name!r}")
    elif isinstance(value, datetime.date):
        out.string_value = moment(value)
    elif isinstance(value, Iterable) and not isinstance(value, (Mapping, bytes, set, frozenset)):
        out.list_value.SetInParent()
        for element in value:
            _set(out.list_value.values.add(), element, name)
    else:
        raise TypeError(f"input {name!r}: no value of the API is like {value!r} ({type(value).__name__})")


def scalar(value: Any, name: str) -> Any:
    """A value of numpy or pandas as one of Python: None for what pandas takes for missing, a text for an interval or a period."""
    kind = type(value).__name__
    if kind == "timedelta64":
        value = value / type(value)(1, "s")
    if kind == "datetime64":  # In nanoseconds it would be a number.
        return value.astype("datetime64[us]").item()
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if is_missing(value):
        return None
    if isinstance(value, datetime.timedelta):  # As a CSV file's durations, in seconds.
        return value.total_seconds()
    return str(value) if kind in ("Interval", "Period") else value


def text_id(value: Any) -> str:
    """An id, which is a text."""
    if not isinstance(value, str):
        raise TypeError(f"an id is a text, not {value!r} ({type(value).__name__})")
    return value


def moment(value: datetime.date) -> str:
    """A time in RFC 3339. A time without an offset keeps its clock, at offset 0."""
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.timezone.utc)
    return value.isoformat()


def set_label(request: prediction_pb2.ObserveRequest, label: Label) -> None:
    """Writes a label into a request."""
    value: Any = label.tolist() if hasattr(label, "tolist") else label
    if value is None or isinstance(value, bytes):
        raise TypeError(f"a label is a number, a class as a text, or a list of numbers, not {value!r}")
    if isinstance(value, str):
        setattr(request, "class", value)
    elif isinstance(value, Iterable):
        request.labels.SetInParent()
        request.labels.values.extend(number(v, f"labels[{n}]") for n, v in enumerate(value))
    else:
        request.label = number(value, "label")


def duration(span: Span) -> duration_pb2.Duration:
    """A time span as a Duration."""
    out = duration_pb2.Duration()
    out.FromTimedelta(span if isinstance(span, datetime.timedelta) else datetime.timedelta(seconds=span))
    return out


def timestamp(moment: datetime.datetime) -> timestamp_pb2.Timestamp:
    """A time as a Timestamp. A time without an offset is rejected, because its zone is not known."""
    if moment.tzinfo is None:
        raise ValueError(f"time {moment.isoformat()} has no offset from UTC, want a datetime with a tzinfo")
    out = timestamp_pb2.Timestamp()
    out.FromDatetime(moment)
    return out


def spec(given: Spec) -> spec_pb2.ModelSpec:
    """A spec as the API's message. A field that does not exist is a ValueError."""
    if isinstance(given, spec_pb2.ModelSpec):
        return given
    out = spec_pb2.ModelSpec()
    try:
        if isinstance(given, str):
            json_format.Parse(given, out)
        else:
            json_format.ParseDict(given, out)
    except json_format.ParseError as e:
        raise ValueError(f"spec: {e}") from None
    return out


def spec_dict(message: Any) -> dict[str, Any]:
    """A spec as a mapping, with the names of the API, its numbers as numbers."""
    out: dict[str, Any] = {}
    for field, value in message.ListFields():
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            out[field.name] = [_spec_value(field, v) for v in value]
        else:
            out[field.name] = _spec_value(field, value)
    return out


def _spec_value(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    return spec_dict(value) if field.message_type is not None else value


def enum_name(enum: Any, number: int) -> str:
    """The name of a value of an enum, or its number if this version has no name for it."""
    try:
        return str(enum.Name(number))
    except ValueError:
        return str(number)


def described(value: Any, kinds: Mapping[str, str]) -> str:
    """The repr of a dataclass that names the predictions of its figures: prequential or served."""
    fields = []
    for field in dataclasses.fields(value):
        text = f"{field.name}={getattr(value, field.name)!r}"
        fields.append(f"{text} ({kinds[field.name]})" if field.name in kinds else text)
    return f"{type(value).__name__}({', '.join(fields)})"


def is_missing(value: Any) -> bool:
    """Reports whether pandas takes a scalar for a missing value: None, NaN, NaT, NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if type(value).__name__ == "Decimal":
        return bool(value.is_nan())
    return isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral) and math.isnan(value)
