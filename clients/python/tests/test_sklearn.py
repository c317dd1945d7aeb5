"""Estimators of scikit-learn, by its own tests and by what people do with them."""

import copy
import gc
import multiprocessing
import os
import pickle
import unittest
import warnings
from unittest import mock

import hindsight
from tests.server import TIMEOUT, binary

try:
    import numpy
    import pandas
    from sklearn import base, datasets, exceptions, model_selection, pipeline, preprocessing
    from sklearn.utils import estimator_checks
except ImportError as e:
    raise unittest.SkipTest(f"scikit-learn and pandas are not installed: {e}") from None

from hindsight.sklearn import XFAIL_CHECKS, HindsightClassifier, HindsightRegressor


def setUpModule():
    os.environ["HINDSIGHT_SERVER"] = binary()


class CheckEstimatorTest(unittest.TestCase):
    def check(self, estimator):
        """Runs check_estimator of scikit-learn: every check passes, or is one of XFAIL_CHECKS."""
        done, skipped = 0, set()
        for given, check in estimator_checks.check_estimator(estimator, generate_only=True):
            with self.subTest(str(check)), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done += 1
                try:
                    check(given)
                except unittest.SkipTest as e:
                    skipped.add(str(e))
        self.assertGreater(done, 40)
        self.assertTrue(all(any(name in reason for name in XFAIL_CHECKS) for reason in skipped), skipped)

    def test_regressor(self):
        self.check(HindsightRegressor())

    def test_classifier(self):
        self.check(HindsightClassifier())

    def test_the_order_of_the_rows_means_nothing(self):
        rng = numpy.random.default_rng(1)
        x, y = rng.normal(size=(60, 2)), rng.normal(size=60)
        x[50:], y[50:] = x[:10], y[:10]  # Equal rows.
        weights, order = rng.uniform(0.5, 2, size=60), rng.permutation(60)

        def predict(estimator):
            return getattr(estimator, "predict_proba", estimator.predict)(x)

        for estimator in (HindsightRegressor(), HindsightRegressor("linear_awv"), HindsightClassifier()):
            labels = y > 0 if isinstance(estimator, HindsightClassifier) else y
            plain = predict(estimator.fit(x, labels))
            numpy.testing.assert_array_equal(predict(estimator.fit(x[order], labels[order])), plain)
            numpy.testing.assert_array_equal(predict(estimator.fit(x, labels, sample_weight=numpy.ones(60))), plain)
            twice = numpy.repeat(x, 2, axis=0), numpy.repeat(labels, 2), numpy.tile([1, 0], 60)
            numpy.testing.assert_array_equal(predict(estimator.fit(*twice)), plain)
            weighted = predict(estimator.fit(x, labels, weights))
            numpy.testing.assert_array_equal(predict(estimator.fit(x[order], labels[order], weights[order])), weighted)
            self.assertFalse(numpy.array_equal(weighted, plain))
            self.assertFalse(numpy.array_equal(predict(estimator.set_params(seed=5).fit(x, labels)), plain))

    def test_sorted_rows(self):
        x, y = datasets.load_iris(return_X_y=True)
        self.assertGreater(model_selection.cross_val_score(HindsightClassifier(), x, y, cv=5).mean(), 0.95)
        shuffled = HindsightClassifier().fit(x, y).score(x, y)
        self.assertGreater(shuffled, 0.95)
        self.assertLess(HindsightClassifier(shuffle=False).fit(x, y).score(x, y), shuffled - 0.2)

    def test_the_order_of_a_series(self):
        x, y = numpy.zeros((200, 1)), numpy.arange(200.0) % 2
        series = HindsightRegressor(shuffle=False).fit(x, y)
        self.assertEqual(series.model_.get().spec["auto"]["lags"], 2)
        self.assertLess(series.model_.stats().loss_sum, HindsightRegressor().fit(x, y).model_.stats().loss_sum / 2)
        for learner, lags in (("auto", 0), ({"auto": {}}, 0), ({"auto": {"lags": 1}}, 1)):
            self.assertEqual(HindsightRegressor(learner).fit(x, y).model_.get().spec["auto"].get("lags", 2), lags)
        self.assertEqual(HindsightRegressor().partial_fit(x, y).model_.get().spec["auto"]["lags"], 2)


class RegressorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.x, cls.y = datasets.make_friedman1(600, n_features=5, noise=0.5, random_state=1)

    @unittest.skipUnless(hasattr(os, "fork"), "forks are of POSIX")
    def test_a_forked_pool(self):
        """A worker that was forked says at once that it cannot call."""
        with hindsight.local(timeout=TIMEOUT) as client:
            fitted = HindsightRegressor(client=client.address).fit(self.x[:50], self.y[:50])
            with multiprocessing.get_context("fork").Pool(1) as pool:
                with self.assertRaisesRegex(hindsight.errors.Unreachable, "gRPC does not survive a fork"):
                    pool.map_async(fitted.predict, [self.x[:1]]).get(TIMEOUT)
            self.assertEqual(fitted.predict(self.x[:1]).shape, (1,))

    def test_intervals_and_selection(self):
        x, y = self.x, self.y
        regressor = HindsightRegressor().fit(x[:400], y[:400])
        self.assertGreater(regressor.score(x[400:], y[400:]), 0.85)
        low, high = regressor.predict_interval(x[400:]).T
        self.assertGreater(((low <= y[400:]) & (y[400:] <= high)).mean(), 0.8)
        self.assertTrue(numpy.isnan(HindsightRegressor().fit(x[:2], y[:2]).predict_interval(x)).all())
        grid = {"hindsightregressor__learner": ["linear_awv", {"fourier_awv": {"frequencies": 100}}], "hindsightregressor__seed": [3]}
        search = model_selection.GridSearchCV(
            pipeline.make_pipeline(preprocessing.StandardScaler(), HindsightRegressor(client=None)), grid, cv=2, n_jobs=2,
        ).fit(x, y)
        self.assertEqual(search.best_estimator_[-1].seed, 3)
        self.assertIn("seed", search.best_estimator_[-1].model_.get().spec)

    def test_partial_fit_goes_on_and_fit_begins_anew(self):
        x, y = self.x, self.y
        whole = HindsightRegressor(shuffle=False).fit(x, y)
        parts = HindsightRegressor(shuffle=False).partial_fit(x[:250], y[:250])
        first = parts.model_.id
        parts.partial_fit(x[250:], y[250:])
        self.assertEqual((parts.model_.id, parts.model_.get().sequence), (first, 600))
        numpy.testing.assert_array_equal(parts.predict(x), whole.predict(x))
        self.assertNotEqual(parts.fit(x, y).model_.id, first)

    def test_several_labels(self):
        y = numpy.c_[self.y, -self.y]
        regressor = HindsightRegressor("linear_awv").fit(self.x, y)
        self.assertEqual(regressor.predict(self.x).shape, (600, 2))
        self.assertEqual(regressor.predict_interval(self.x).shape, (600, 2, 2))
        with self.assertRaisesRegex(ValueError, "want 2 labels a row"):
            regressor.partial_fit(self.x, self.y)

    def test_copies_and_pickles_contain_the_model(self):
        regressor = HindsightRegressor("linear_awv").fit(self.x, self.y)
        before = regressor.predict(self.x)
        others = [copy.deepcopy(regressor), pickle.loads(pickle.dumps(regressor))]
        regressor.partial_fit(self.x, -self.y)
        for other in others:
            numpy.testing.assert_array_equal(other.predict(self.x), before)
        self.assertEqual(len({r.model_.id for r in [regressor, *others]}), 3)
        with self.assertRaises(exceptions.NotFittedError):
            base.clone(regressor).predict(self.x)

    def test_models_end_with_their_estimators(self):
        with hindsight.local(timeout=TIMEOUT) as client:
            regressor = HindsightRegressor("linear_awv", client=client.address).fit(self.x, self.y)
            first = regressor.model_.id
            regressor.fit(self.x, self.y)
            other = HindsightRegressor("linear_awv", client=client)
            self.assertIs(base.clone(other).client, client)
            other.fit(self.x, self.y)
            self.assertEqual({m.id for m in client.models(show_deleted=True)}, {regressor.model_.id, other.model_.id})
            self.assertNotEqual(first, regressor.model_.id)
            with self.assertRaisesRegex(TypeError, "a client cannot be pickled.*pickle the address"):
                pickle.dumps(other)
            copied = copy.deepcopy(other)
            numpy.testing.assert_array_equal(copied.predict(self.x), other.predict(self.x))
            del regressor, other
            gc.collect()
            copied.fit(self.x, self.y)
            self.assertEqual(len(list(client.models(show_deleted=True))), 2)  # The last one, and its predecessor.

    def test_what_is_rejected(self):
        with self.assertRaisesRegex(TypeError, "client is 7, want a client"):
            HindsightRegressor(client=7).fit(self.x, self.y)
        with self.assertRaisesRegex(ValueError, "sample_weight has -1"):
            HindsightRegressor().fit(self.x, self.y, numpy.full(600, -1.0))
        with self.assertRaisesRegex(ValueError, "no weight above 0"):
            HindsightRegressor().fit(self.x, self.y, numpy.zeros(600))
        with self.assertRaisesRegex(ValueError, "spec: .*nonsense"):
            HindsightRegressor("nonsense").fit(self.x, self.y)


class FrameTest(unittest.TestCase):
    def test_named_inputs(self):
        count = 400
        frame = pandas.DataFrame({
            "city": ["Oslo" if n % 3 else "Bergen" for n in range(count)], "open": [n % 2 for n in range(count)],
            "temperature": [None if n % 11 == 0 else n % 7 for n in range(count)],
        }, index=range(1000, 1000 + count))
        y = (frame["city"] == "Oslo") * 5 + frame["open"] * 2 + frame["temperature"].fillna(3)
        regressor = HindsightRegressor().fit(frame, y)
        self.assertEqual([i["name"] for i in regressor.model_.get().spec["inputs"]], list(frame.columns))
        self.assertGreater(regressor.score(frame, y), 0.95)
        intervals = regressor.predict_interval(frame.tail(5))
        self.assertEqual((list(intervals.columns), list(intervals.index)), (["lower", "upper"], list(frame.index[-5:])))
        with self.assertRaisesRegex(ValueError, "feature names"):
            regressor.predict(frame[["open", "city", "temperature"]])
        with self.assertRaisesRegex(ValueError, "X has 400 rows and y 399"):
            HindsightRegressor().fit(frame, y[1:])
        with self.assertWarnsRegex(UserWarning, "feature names"):
            plain = HindsightRegressor().fit(frame[["open"]].to_numpy(), y).predict(frame[["open"]])
        self.assertEqual(plain.shape, (count,))
        late = numpy.where(y > 6, "late", "in time")
        classifier = HindsightClassifier().fit(frame, late)
        self.assertGreater(classifier.score(frame, late), 0.95)


class ClassifierTest(unittest.TestCase):
    def test_classes_and_probabilities(self):
        x, y = datasets.make_blobs(300, centers=3, random_state=1)
        for classes in (numpy.array(["a", "b", "c"]), numpy.array([7, 8, 9]), numpy.array([1.0, 2.0, 3.0])):
            labels = classes[y]
            classifier = HindsightClassifier("rlsc", spec={"coverage": []}).partial_fit(x[:100], labels[:100], classes=classes)
            classifier.partial_fit(x[100:], labels[100:], sample_weight=numpy.full(200, 0.5))
            self.assertGreater(classifier.score(x, labels), 0.9)
            probabilities = classifier.predict_proba(x)
            numpy.testing.assert_allclose(probabilities.sum(axis=1), 1)
            self.assertEqual(classifier.predict(x).dtype, classes.dtype)
        with self.assertRaisesRegex(ValueError, "first call to partial_fit"):
            HindsightClassifier().partial_fit(x, y)
        with self.assertRaisesRegex(ValueError, "y has the class 5"):
            classifier.partial_fit(x[:1], [5.0])
        with self.assertRaisesRegex(ValueError, "not the same as on last call"):
            classifier.partial_fit(x[:1], [1.0], classes=[1.0, 2.0])

    def test_no_rows_and_missing_classes(self):
        frame = pandas.DataFrame({"a": numpy.arange(40.0)})
        classifier = HindsightClassifier().fit(frame, ["u", "v"] * 20)
        self.assertEqual(classifier.predict_proba(frame[:0]).shape, (0, 2))
        self.assertEqual(classifier.predict(frame[:0]).shape, (0,))
        for missing in (None, float("nan")):
            with self.assertRaisesRegex(ValueError, "got the class (None|nan), want texts"):
                HindsightClassifier().fit(frame, numpy.array(["u", missing] * 20, dtype=object))

    def test_a_class_that_was_not_seen(self):
        classifier = HindsightClassifier().partial_fit([[0.0], [1.0]], [0, 1], classes=[0, 1, 2])
        self.assertEqual(classifier.predict_proba([[0.5]]).shape, (1, 3))
        self.assertEqual(classifier.predict_proba([[0.5]])[0, 2], 0.0)


class SharedTest(unittest.TestCase):
    def test_no_server(self):
        from hindsight import _hosted

        with mock.patch.dict(_hosted._clients, clear=True), mock.patch.dict(os.environ, {"HINDSIGHT_SERVER": "/nonexistent"}):
            with self.assertRaisesRegex(FileNotFoundError, "HINDSIGHT_SERVER is '/nonexistent'"):
                HindsightRegressor().fit([[1.0]], [1.0])


if __name__ == "__main__":
    unittest.main()
