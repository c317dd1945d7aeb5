"""Estimators of scikit-learn.

    from hindsight.sklearn import HindsightRegressor

    regressor = HindsightRegressor().fit(X, y)
    regressor.predict(X_new)
    regressor.predict_interval(X_new)

fit creates a model and learns the rows once, shuffled: the model does not depend on the order in which they are
given. shuffle=False keeps the order, for a series that partial_fit follows label by label. partial_fit goes on
learning, in the order given. Without a client all estimators share one server of hindsight.local(). The model is
deleted with its estimator. A pickle and a copy of an estimator contain the model itself.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, Optional, Union

import numpy
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d

from hindsight import _infer, frames
from hindsight._hosted import Given, Hosted, client_of, spec_of
from hindsight._values import is_missing

__all__ = ["XFAIL_CHECKS", "HindsightClassifier", "HindsightRegressor"]

#: The checks of check_estimator that do not apply, and why.
XFAIL_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": "a row of weight 2 is one observation of an online learner, and two rows are two",
}

# scikit-learn 1.6 and later have functions where earlier versions have methods.
try:
    from sklearn.utils.validation import _check_feature_names, _check_n_features, validate_data
except ImportError:

    def validate_data(estimator: Any, *given: Any, **options: Any) -> Any:
        return estimator._validate_data(*given, **options)

    def _check_feature_names(estimator: Any, x: Any, *, reset: bool) -> None:
        estimator._check_feature_names(x, reset=reset)

    def _check_n_features(estimator: Any, x: Any, *, reset: bool) -> None:
        estimator._check_n_features(x, reset=reset)


def _check_names(estimator: Any, x: Any, reset: bool) -> None:
    """Checks that the columns of a DataFrame are the columns of fit."""
    _check_feature_names(estimator, x, reset=reset)
    _check_n_features(estimator, x, reset=reset)


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share."""

    learner: Union[str, Mapping[str, Any]]
    spec: Optional[Mapping[str, Any]]
    seed: int
    client: Given
    shuffle: bool
    _hosted: Hosted

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learns the rows, from nothing. A DataFrame has named inputs, see Client.infer.

        shuffle (the default) learns them in an order that their content and seed decide, and auto gets no lags: the
        last labels say nothing about a row. shuffle=False learns them in the order given, and takes the rows of predict
        for those that follow.
        """
        return self._learn(X, y, sample_weight, fresh=True, shuffle=self.shuffle)

    def _learn(self, X: Any, y: Any, sample_weight: Any, *, fresh: bool, shuffle: bool = False) -> Any:
        framed = _is_frame(X) and (fresh or hasattr(self, "feature_names_in_"))
        if framed:
            _check_names(self, X, reset=fresh)
        else:
            X, y = validate_data(self, X, y, reset=fresh, multi_output=True, y_numeric=isinstance(self, RegressorMixin))
        y = self._labels(y, fresh)
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} rows and y {len(y)}, want the same number")
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, numpy.empty((len(y), 1)))
            if (weights < 0).any():
                raise ValueError(f"sample_weight has {weights.min():g}, want weights of at least 0")
        learned: Any = range(len(y)) if weights is None else numpy.flatnonzero(weights)  # The API has no weight 0.
        if fresh and not len(learned):
            raise ValueError("sample_weight has no weight above 0: nothing to learn")
        if fresh:
            shape: dict[str, Any] = self._inputs(X, y) if framed else {"dimension": self.n_features_in_}
            spec = spec_of(self.learner, self.seed, self.spec, **shape, **self._outputs(y))
            self._hosted = Hosted(self.client, _unordered(spec) if shuffle else spec, "sklearn")
        rows, labels = self._rows(X), y if isinstance(y, list) else y.tolist()
        given = [(rows[n], labels[n], 1.0 if weights is None else float(weights[n])) for n in learned]
        if shuffle:
            given = _shuffled(given, self.seed)
        weighted = None if weights is None else [weight for _, _, weight in given]
        self._hosted.learn([row for row, _, _ in given], [label for _, label, _ in given], weighted)
        return self

    def _inputs(self, X: Any, y: Any) -> dict[str, Any]:
        """The inputs for the columns of a DataFrame. The labels tell which integers are names; auto alone has keys."""
        import pandas

        first = y if isinstance(y, list) else y.reshape(len(y), -1)[:, 0]
        keys = self.learner == "auto" or "auto" in self.learner
        inferred = client_of(self.client).run(_infer.columns_of(X, [pandas.Series(first)], None, keys))
        return {"inputs": inferred["inputs"]}

    def _rows(self, X: Any) -> list[Any]:
        """The rows of data that is checked, as inputs of the model."""
        if not hasattr(self, "feature_names_in_"):
            rows: list[Any] = X.tolist()
            return rows
        if not _is_frame(X):
            import pandas

            X = pandas.DataFrame(X, columns=self.feature_names_in_)
        return frames.rows_of(X, self._hosted.info)

    def _predict(self, X: Any) -> Any:
        """The predictions of rows."""
        check_is_fitted(self)
        if _is_frame(X) and hasattr(self, "feature_names_in_"):
            _check_names(self, X, reset=False)
        else:
            X = validate_data(self, X, reset=False)
        return self._hosted.predict(self._rows(X), alternatives=self.shuffle)

    @property
    def model_(self) -> Any:
        """The model, for its stats and history."""
        check_is_fitted(self)
        return self._hosted.model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_hosted")

    def _more_tags(self) -> dict[str, Any]:
        return {"multioutput": isinstance(self, RegressorMixin), "_xfail_checks": XFAIL_CHECKS}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = isinstance(self, RegressorMixin)
        return tags


class HindsightRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """A regressor with prediction intervals, for one label or several.

    learner is the name of a learner, or a mapping such as {"fourier_awv": {"lambda": 1.0}}. coverage is the
    intended share of labels inside predict_interval. spec has further fields of the spec, such as
    {"scaling": {"none": {}}}. shuffle=False learns the rows of fit in the order given. client is a client, the address of a server, or None for a local server.
    """

    def __init__(
        self, learner: Union[str, Mapping[str, Any]] = "auto", *, coverage: float = 0.9, spec: Optional[Mapping[str, Any]] = None,
        seed: int = 0, client: Given = None, shuffle: bool = True,
    ) -> None:
        self.learner = learner
        self.coverage = coverage
        self.spec = spec
        self.seed = seed
        self.client = client
        self.shuffle = shuffle

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> HindsightRegressor:
        """Learns further rows, in the order given."""
        self._learn(X, y, sample_weight, fresh=not hasattr(self, "_hosted"))
        return self

    def _labels(self, y: Any, fresh: bool) -> Any:
        y = numpy.asarray(y, dtype=float)
        if not numpy.isfinite(y).all():
            raise ValueError("Input y contains NaN or infinity, want numbers")
        y = y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y
        if not fresh and (outputs := (self._hosted.info.spec or {}).get("outputs", 1)) != (y.shape[1] if y.ndim > 1 else 1):
            raise ValueError(f"y has the shape {y.shape}, want {outputs} labels a row as before")
        return y

    def _outputs(self, y: Any) -> dict[str, Any]:
        several = {"outputs": y.shape[1]} if y.ndim > 1 else {}
        return {"coverage": [self.coverage], **several}

    def predict(self, X: Any) -> Any:
        """The predicted labels."""
        return numpy.array([p.values or p.value for p in self._predict(X)], dtype=float)

    def predict_interval(self, X: Any) -> Any:
        """The prediction intervals: of the shape (rows, 2), for several labels (rows, 2, labels).

        A DataFrame gives a DataFrame with the same index and the columns lower and upper. NaN: the model
        cannot yet estimate its error.
        """
        predictions = self._predict(X)
        several = max((len(p.values) for p in predictions), default=0)
        out = numpy.full((len(predictions), 2, several) if several else (len(predictions), 2), numpy.nan)
        for n, p in enumerate(predictions):
            for i in p.intervals:
                out[n] = (i.lowers, i.uppers) if several else (i.lower, i.upper)
        if not _is_frame(X) or several:
            return out
        return type(X)(out, index=X.index, columns=["lower", "upper"])


class HindsightClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """A classifier with calibrated probabilities, for any number of classes.

    The parameters are the parameters of HindsightRegressor without coverage: classes have no intervals.
    """

    classes_: Any

    def __init__(
        self, learner: Union[str, Mapping[str, Any]] = "auto", *, spec: Optional[Mapping[str, Any]] = None, seed: int = 0,
        client: Given = None, shuffle: bool = True,
    ) -> None:
        self.learner = learner
        self.spec = spec
        self.seed = seed
        self.client = client
        self.shuffle = shuffle

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> HindsightClassifier:
        """Learns further rows, in the order given. The first call names all classes."""
        fresh = not hasattr(self, "_hosted")
        if fresh and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if classes is not None:
            known = numpy.unique(classes)
            if not fresh and not numpy.array_equal(known, self.classes_):
                raise ValueError(f"`classes={classes!r}` is not the same as on last call to partial_fit, was: {self.classes_!r}")
            self.classes_ = known
        self._learn(X, y, sample_weight, fresh=fresh)
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """The same as HindsightRegressor.fit."""
        self.__dict__.pop("classes_", None)
        return super().fit(X, y, sample_weight)

    def _labels(self, y: Any, fresh: bool) -> Any:
        y = column_or_1d(y, warn=True)
        if missing := [v for v in y.tolist() if is_missing(v)]:
            raise ValueError(f"Input y contains NaN or None: got the class {missing[0]!r}, want texts, numbers or booleans")
        check_classification_targets(y)
        if not hasattr(self, "classes_"):
            self.classes_ = numpy.unique(y)
        texts = dict(zip(self.classes_.tolist(), self._texts()))
        if unknown := [v for v in y.tolist() if v not in texts]:
            raise ValueError(f"y has the class {unknown[0]!r}, want one of {self.classes_.tolist()}")
        return [texts[v] for v in y.tolist()]

    def _texts(self) -> list[str]:
        """The classes as the server knows them."""
        return [frames.class_of(c) for c in self.classes_.tolist()]

    def _outputs(self, y: Any) -> dict[str, Any]:
        return {"classes": {"max_classes": max(2, len(self.classes_))}}

    def predict(self, X: Any) -> Any:
        """The predicted classes."""
        predictions = self._predict(X)
        place = {text: n for n, text in enumerate(self._texts())}
        return self.classes_[numpy.array([place[p.class_] for p in predictions], dtype=int)]

    def predict_proba(self, X: Any) -> Any:
        """The probabilities of the classes, in the order of classes_."""
        predictions = self._predict(X)
        scores = [[p.scores.get(text, 0.0) for text in self._texts()] for p in predictions]
        return numpy.array(scores).reshape(len(predictions), len(self.classes_))


def _shuffled(rows: list[tuple[Any, Any, float]], seed: int) -> list[tuple[Any, Any, float]]:
    """Rows in an order that does not depend on the given order: by a hash of each. Equal rows are apart."""
    seen: Counter[str] = Counter()
    keys = []
    for row in rows:
        seen[text := repr(row)] += 1
        keys.append(hashlib.blake2b(f"{seed} {seen[text]} {text}".encode(), digest_size=16).digest())
    return [rows[n] for n in sorted(range(len(rows)), key=keys.__getitem__)]


def _unordered(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec whose auto has no lags, unless the spec names them."""
    auto = spec.get("auto")
    return spec if auto is None else {**spec, "auto": {"lags": 0, **auto}}


def _is_frame(x: Any) -> bool:
    """Reports whether x is a DataFrame of pandas whose columns have names."""
    return hasattr(x, "iterrows") and all(isinstance(c, str) for c in x.columns)
