"""Models of river, by river's own tests where it is installed, and by what these call where it is not."""

import copy
import datetime
import importlib.util
import os
import pickle
import random
import unittest

import hindsight
from hindsight.river import FIRST, Classifier, Regressor
from tests.server import binary

RIVER = importlib.util.find_spec("river") is not None


def setUpModule():
    os.environ["HINDSIGHT_SERVER"] = binary()


def stream(count, seed=1):
    """Records and two labels each: a number and a class."""
    rng = random.Random(seed)
    for _ in range(count):
        x = {"a": rng.random(), "b": rng.random() < 0.5, "c": rng.choice("xyz"), "d": rng.random()}
        yield x, 3 * x["a"] + 2 * x["b"] + (x["c"] == "y"), x["a"] > 0.5


def progressive(model, rows, predict):
    """What river's progressive_val_score does with a model: predict, then learn, row by row."""
    assert model._supervised
    told = []
    for x, y in rows:
        before = copy.deepcopy(x)
        answer = predict(x)
        if answer is not None and answer != {}:
            told.append((y, answer))
        model.learn_one(x, y)
        assert x == before, "the record has changed"
    return told


class RegressorTest(unittest.TestCase):
    def test_progressive_validation(self):
        model = Regressor()
        self.assertIsNone(model.model)
        self.assertEqual(model.predict_one({"a": 1.0}), 0.0)
        self.assertIsNone(model.predict_interval_one({"a": 1.0}))
        told = progressive(model, ((x, y) for x, y, _ in stream(1000)), model.predict_one)
        self.assertLess(sum(abs(y - p) for y, p in told[500:]) / 500, 0.1)
        x, y, _ = next(stream(1, seed=2))
        low, high = model.predict_interval_one(x)
        self.assertLess(low, high)
        self.assertEqual(model.model.get().sequence, 1000)
        self.assertGreater(model._raw_memory_usage, 10_000)

    def test_clones_copies_and_pickles(self):
        model = Regressor("linear_awv", seed=3)
        for x, y, _ in stream(50):
            self.assertIs(model.learn_one(x, y), model)
        x, _, _ = next(stream(1, seed=2))
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model.clone(include_attributes=True)):
            self.assertEqual(other.predict_one(x), model.predict_one(x))
            self.assertNotEqual(other.model.id, model.model.id)
        clone = model.clone()
        self.assertEqual((type(clone), clone.learner, clone.seed, clone.model), (Regressor, "linear_awv", 3, None))
        self.assertEqual(model.clone({"learner": "auto"}).learner, "auto")
        self.assertEqual(dir(clone), dir(model))

    def test_the_order_of_a_record_means_nothing(self):
        one, two = Regressor(), Regressor()
        for x, y, _ in stream(60):
            shuffled = dict(random.sample(list(x.items()), len(x)))
            self.assertEqual(one.predict_one(x), two.predict_one(shuffled))
            one.learn_one(x, y)
            two.learn_one(shuffled, y)

    def test_inputs_that_come_and_go(self):
        model, whole = Regressor("linear_awv"), Regressor("linear_awv")
        for n, (x, y, _) in enumerate(stream(100)):
            less = {name: v for name, v in x.items() if name != "a" or n >= 30}
            model.learn_one(less, y)
            whole.learn_one({"a": None, **less} if n else {"a": 0.0} | less, y)
        self.assertEqual([i["name"] for i in model.model.get().spec["inputs"]], ["a", "b", "c", "d"])
        self.assertEqual(model.model.get().sequence, 100)
        self.assertAlmostEqual(model.predict_one({"a": 1.0}), whole.predict_one({"a": 1.0}), delta=0.5)
        for x, y, _ in stream(FIRST):
            model.learn_one(x, y)
        with self.assertWarnsRegex(UserWarning, f"left out after {FIRST} observations: late"):
            model.learn_one({"late": 1.0}, 1.0)
        self.assertNotIn("late", [i["name"] for i in model.model.get().spec["inputs"]])

    def test_kinds_weights_and_rejections(self):
        model = Regressor("linear_awv", spec={"label_gate": "on"})
        model.learn_one({"at": datetime.datetime(2026, 1, 1), 7: 1, "s": "x", "no": None}, 1.0, w=0.5)
        self.assertEqual([i["name"] for i in model.model.get().spec["inputs"]], ["7", "at", "s"])
        self.assertEqual(model.model.get().spec["label_gate"], "on")
        model.learn_one({}, 1.0, w=0)
        with self.assertRaises(hindsight.HindsightError):
            model.learn_one({"new": 1.0}, float("nan"))
        self.assertEqual(model.model.get().sequence, 1)
        model.learn_one({7: 2}, 1.0)
        self.assertEqual([i["name"] for i in model.model.get().spec["inputs"]], ["7", "at", "s"])
        with self.assertRaisesRegex(TypeError, "input 'z' is b'x', want a number"):
            model.learn_one({"z": b"x"}, 1.0)
        with self.assertRaisesRegex(ValueError, "the first observation has no input"):
            Regressor().learn_one({}, 1.0)


    @unittest.skipUnless(importlib.util.find_spec("numpy") and importlib.util.find_spec("pandas"), "numpy or pandas is not installed")
    def test_values_of_numpy_and_pandas(self):
        import numpy
        import pandas

        for values, kind in (
            (pandas.date_range("2024", periods=5, freq="7H").values, "time"),
            (pandas.date_range("2024", periods=5, freq="7H").values.astype("datetime64[s]"), "time"),
            ([pandas.NaT, pandas.Timestamp("2024-01-01")], "time"),
            ([float("nan"), 1.0, numpy.float64("nan")], "numeric"),
            (["x", float("nan"), None], "categorical"),
            ([numpy.bool_(True), pandas.NA], "boolean"),
        ):
            model = Regressor()
            for n, value in enumerate(values):
                model.learn_one({"a": value, "n": n}, n)
            self.assertEqual([kind], [k for i in model.model.get().spec["inputs"] if i["name"] == "a" for k in i if k not in ("name", "missing")])
        Regressor().learn_one({"a": numpy.timedelta64(1, "ns")}, 1.0)


class ClassifierTest(unittest.TestCase):
    def test_a_class_that_is_missing(self):
        for label in (None, float("nan")):
            model = Classifier().learn_one({"a": 1.0}, "a")
            with self.assertRaisesRegex(ValueError, "the class is (None|nan), want a text"):
                model.learn_one({"a": 1.0}, label)
            self.assertEqual(model.predict_proba_one({"a": 1.0}), {"a": 1.0})

    def test_progressive_validation(self):
        for predict in ("predict_one", "predict_proba_one"):
            model = Classifier()
            self.assertIn(getattr(model, predict)({"a": 1.0}), (None, {}))
            told = progressive(model, ((x, c) for x, _, c in stream(400)), getattr(model, predict))
            self.assertEqual(len(told), 399)
            if predict == "predict_one":
                self.assertGreater(sum(y is p for y, p in told[200:]), 180)
            else:
                for _, p in told:
                    self.assertAlmostEqual(sum(p.values()), 1.0)
                    self.assertLessEqual(set(p), {False, True})
                self.assertGreater(sum(p[y] for y, p in told[200:]), 160)

    def test_classes_of_any_kind(self):
        self.assertIs(Classifier()._multiclass, True)
        for classes in (["a", "b", "c"], [1, 2, 3], [1.5, 2.0, 3.0]):
            model = Classifier("linear_awv", spec={"classes": {"max_classes": 3}})
            for n in range(90):
                model.learn_one({"a": n % 3 == 0, "b": n % 3 == 1}, classes[n % 3])
            self.assertEqual([model.predict_one({"a": n == 0, "b": n == 1}) for n in range(3)], classes)


@unittest.skipUnless(RIVER, "river is not installed: what its progressive_val_score calls is tested above")
class RiverTest(unittest.TestCase):
    def test_progressive_val_score(self):
        from river import datasets, evaluate, metrics

        error = evaluate.progressive_val_score(datasets.TrumpApproval(), Regressor(), metrics.MAE())
        self.assertLess(error.get(), 0.5)
        right = evaluate.progressive_val_score(datasets.Phishing(), Classifier(), metrics.ROCAUC())
        self.assertGreater(right.get(), 0.9)

    def test_estimator_checks(self):
        from river import checks

        for model in (Regressor("linear_awv"), Classifier("rlsc")):
            for check in checks.yield_checks(model):
                with self.subTest(f"{type(model).__name__}: {check.__name__}"):
                    check(copy.deepcopy(model))


if __name__ == "__main__":
    unittest.main()
