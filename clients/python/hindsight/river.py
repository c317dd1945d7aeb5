"""Models of river.

    from hindsight.river import Regressor
    from river import datasets, evaluate, metrics

    evaluate.progressive_val_score(datasets.TrumpApproval(), Regressor(), metrics.MAE())

The first observation creates a model. Without a client all models share one server of hindsight.local(). The
model is deleted with its object. A pickle and a copy of an object contain the model itself. With river
installed the classes extend river.base; without it they have the same methods.
"""

from __future__ import annotations

import copy
import datetime
import inspect
import numbers
import warnings
from collections.abc import Hashable, Mapping
from typing import Any, Optional, Union

from hindsight._hosted import Given, Hosted, spec_of
from hindsight._values import is_missing, scalar
from hindsight.frames import class_of

__all__ = ["Classifier", "Regressor"]

#: Inputs that first appear within so many observations become inputs of the model.
FIRST = 256


class _Alone:
    """What river.base has of an estimator, as far as hindsight needs it."""

    _supervised = True

    def _get_params(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def clone(self, new_params: Optional[Mapping[str, Any]] = None, include_attributes: bool = False) -> Any:
        """A model with the same parameters that has learned nothing; include_attributes: a copy."""
        if include_attributes:
            return copy.deepcopy(self)
        return type(self)(**copy.deepcopy({**self._get_params(), **(new_params or {})}))


try:
    from river import base as _base

    _Classifier: Any = _base.Classifier
    _Regressor: Any = _base.Regressor
except ImportError:
    _Classifier = _Regressor = _Alone


class _Model:
    """What both models share."""

    #: Fields of the spec besides the inputs.
    _outputs: dict[str, Any] = {}

    def __init__(
        self, learner: Union[str, Mapping[str, Any]] = "auto", *, spec: Optional[Mapping[str, Any]] = None, seed: int = 0,
        client: Given = None,
    ) -> None:
        self.learner = learner
        self.spec = spec
        self.seed = seed
        self.client = client
        self._hosted: Optional[Hosted] = None
        self._inputs: dict[str, dict[str, Any]] = {}
        #: The first observations, None after FIRST of them.
        self._first: Optional[list[tuple[dict[str, Any], Any, float]]] = []

    @property
    def model(self) -> Any:
        """The model of the server, for its stats and history; None before the first observation."""
        return self._hosted and self._hosted.model

    @property
    def _raw_memory_usage(self) -> int:
        return self._hosted.model.stats().state_bytes if self._hosted else 0

    def _learn(self, x: Mapping[Any, Any], label: Any, weight: float) -> None:
        """Learns one observation."""
        if weight == 0:  # The API has no weight 0.
            return
        record = {str(name): scalar(value, str(name)) for name, value in x.items()}
        new = {name: _kind(name, value) for name, value in record.items() if name not in self._inputs and value is not None}
        if self._first is not None and (new or self._hosted is None):
            self._widen(new, [*self._first, (record, label, weight)])
        else:
            if new:
                warnings.warn(f"new inputs are left out after {FIRST} observations: {', '.join(new)}", stacklevel=3)
            assert self._hosted is not None
            self._hosted.model.observe(self._known(record), label, weight=None if weight == 1 else weight)
        if self._first is not None:
            self._first.append((record, label, weight))
            if len(self._first) >= FIRST:
                self._first = None

    def _widen(self, new: dict[str, dict[str, Any]], first: list[tuple[dict[str, Any], Any, float]]) -> None:
        """Makes a model with further inputs, and learns the first observations again."""
        before, self._inputs = self._inputs, dict(sorted((self._inputs | new).items()))  # The order of a record means nothing.
        declared = [{"name": name, **kind} for name, kind in self._inputs.items()]
        spec = spec_of(self.learner, self.seed, self.spec, inputs=declared, **self._outputs)
        rows, labels, weights = zip(*first)
        try:
            if not declared:
                raise ValueError("the first observation has no input, want one or more")
            hosted = Hosted(self.client, spec, "river")
            hosted.learn([self._known(row) for row in rows], list(labels), list(weights))
        except BaseException:
            self._inputs = before
            raise
        self._hosted = hosted

    def _known(self, record: dict[str, Any]) -> dict[str, Any]:
        """The inputs of the model. An input that is absent is missing."""
        return {name: record.get(name) for name in self._inputs}

    def _predict(self, x: Mapping[Any, Any]) -> Any:
        """The prediction, None before the first observation."""
        record = self._known({str(name): value for name, value in x.items()})
        return self._hosted and self._hosted.model.predict(record, remember=False)


class Regressor(_Model, _Regressor):  # type: ignore[misc]
    """A regressor.

    learner is the name of a learner, or a mapping such as {"fourier_awv": {"lambda": 1.0}}. spec has further
    fields of the spec. client is a client, the address of a server, or None for a local server.
    """

    def learn_one(self, x: Mapping[Any, Any], y: float, w: float = 1.0) -> Regressor:
        """Learns an observation, with a weight."""
        self._learn(x, y, w)
        return self

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Predicts the label, 0 before the first observation."""
        prediction = self._predict(x)
        return float(prediction.value) if prediction else 0.0

    def predict_interval_one(self, x: Mapping[Any, Any]) -> Optional[tuple[float, float]]:
        """The prediction interval, None while the model cannot estimate its error."""
        intervals = prediction.intervals if (prediction := self._predict(x)) else ()
        return (intervals[0].lower, intervals[0].upper) if intervals else None


class Classifier(_Model, _Classifier):  # type: ignore[misc]
    """A classifier, for any number of classes. The parameters are the parameters of Regressor.

    Learners but auto and rlsc have room for two classes; spec={"classes": {"max_classes": 5}} has more.
    """

    _multiclass = True
    _outputs = {"classes": {}}

    def __init__(
        self, learner: Union[str, Mapping[str, Any]] = "auto", *, spec: Optional[Mapping[str, Any]] = None, seed: int = 0,
        client: Given = None,
    ) -> None:
        super().__init__(learner, spec=spec, seed=seed, client=client)
        self._classes: dict[str, Hashable] = {}

    def learn_one(self, x: Mapping[Any, Any], y: Hashable, w: float = 1.0) -> Classifier:
        """Learns an observation, with a weight."""
        if is_missing(y):
            raise ValueError(f"the class is {y!r}, want a text, a number or a boolean")
        text = class_of(y)
        self._learn(x, text, w)
        self._classes.setdefault(text, y)
        return self

    def predict_one(self, x: Mapping[Any, Any]) -> Optional[Hashable]:
        """Predicts the class, None before the first observation."""
        prediction = self._predict(x)
        return self._classes[prediction.class_] if prediction else None

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Hashable, float]:
        """The probabilities of the classes, none before the first observation."""
        prediction = self._predict(x)
        return {self._classes[text]: p for text, p in prediction.scores.items()} if prediction else {}


def _kind(name: str, value: Any) -> dict[str, Any]:
    """The kind of an input with such a value."""
    if isinstance(value, bool):
        return {"boolean": {}}
    if isinstance(value, numbers.Real) or type(value).__name__ == "Decimal":
        return {"numeric": {}}
    if isinstance(value, str):
        return {"categorical": {}}
    if isinstance(value, datetime.date):
        return {"time": {}}
    raise TypeError(f"input {name!r} is {value!r}, want a number, a boolean, a text or a time")
