"""DataFrames in and out."""

import unittest

import hindsight
from hindsight import aio
from tests.server import TIMEOUT, Server

try:
    import numpy
    import pandas
except ImportError as e:
    raise unittest.SkipTest(f"pandas is not installed: {e}") from None


class FramesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)
        cls.client = hindsight.connect(cls.server.address, timeout=TIMEOUT)
        cls.addClassCleanup(cls.client.close)

    def test_features(self):
        model = self.client.create("features", {"dimension": 2, "linear_awv": {}})
        rng = numpy.random.default_rng(1)
        frame = pandas.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300)}, index=range(1000, 1300))
        frame["y"] = 2 * frame["a"] - frame["b"] + 5
        learned = model.learn_frame(frame, "y", run="first", batch=100)
        self.assertEqual(list(learned.index), list(frame.index))
        self.assertEqual(learned["sequence"].tolist(), list(range(1, 301)))
        self.assertFalse(learned["duplicate"].any())
        again = model.learn_frame(frame, "y", run="first", batch=77)  # As after an interruption.
        self.assertTrue(again["duplicate"].all())
        self.assertEqual(model.get().sequence, 300)
        predicted = model.predict_frame(frame[["a", "b"]], batch=64)
        self.assertLess((predicted["value"] - frame["y"]).abs().max(), 0.5)
        self.assertEqual(list(predicted.index), list(frame.index))
        self.assertNotIn("prediction_id", predicted)
        self.assertIn("prediction_id", model.predict_frame(frame[["a", "b"]].head(2), remember=True))

    def test_a_label_that_cannot_be_right(self):
        model = self.client.create("dirty", {"dimension": 1})
        frame = pandas.DataFrame({"a": [n / 100 for n in range(200)]})
        frame["y"] = 2 * frame["a"] + 1
        frame.loc[150, "y"] = -1e6
        learned = model.learn_frame(frame, "y")
        self.assertEqual(learned.index[learned["set_aside"]].tolist(), [150])
        gate = model.stats().label_gate
        self.assertEqual((gate.set_aside, gate.last_set_aside, gate.share), (1, 151, 1 / 200))
        self.assertTrue(model.observe([0.5], -1e6).set_aside)

    def test_names_missing_values_and_intervals(self):
        inputs = [{"name": "t", "numeric": {}}, {"name": "city", "categorical": {}}, {"name": "at", "time": {}}, {"name": "on", "boolean": {}}]
        model = self.client.create("names", {"inputs": inputs, "coverage": [0.9]})
        count = 300
        frame = pandas.DataFrame({
            "on": [n % 2 == 0 for n in range(count)], "city": ["Oslo" if n % 3 else None for n in range(count)],
            "at": pandas.date_range("2026-01-01", periods=count, freq="h"),
            "t": [float("nan") if n % 10 == 0 else n % 7 for n in range(count)],
        })
        frame.loc[5, "at"] = pandas.NaT
        frame["y"] = frame["t"].fillna(0) + frame["on"]
        frame["w"] = 1.0
        frame["key"] = [f"row {n}" for n in range(count)]
        model.learn_frame(frame, "y", weight="w", id="key")
        stats = {s.name: s for s in model.stats().inputs}
        self.assertEqual((stats["t"].missing, stats["city"].missing, stats["at"].missing), (30, 100, 1))
        self.assertTrue(model.learn_frame(frame.head(3), "y", weight="w", id="key")["duplicate"].all())
        predicted = model.predict_frame(frame[["t", "city", "at", "on"]].head(10))
        self.assertTrue((predicted["lower_0.9"] < predicted["upper_0.9"]).all())

    def test_classes_and_outputs(self):
        model = self.client.create("classes", {"dimension": 1, "classes": {}})
        frame = pandas.DataFrame({"a": [n % 2 for n in range(200)], "y": ["odd" if n % 2 else "even" for n in range(200)]})
        self.assertIn("class", model.learn_frame(frame, "y"))
        predicted = model.predict_frame(frame[["a"]].tail(2))
        self.assertEqual(predicted["class"].tolist(), ["even", "odd"])
        self.assertGreater(predicted["score_odd"].iloc[1], 0.5)
        two = self.client.create("two", {"dimension": 1, "outputs": 2, "linear_awv": {}})
        frame = pandas.DataFrame({"a": range(50), "y": range(50), "z": range(50)})
        self.assertIn("prediction_1", two.learn_frame(frame, ["y", "z"]))
        self.assertIn("value_1", two.predict_frame(frame[["a"]]))

    def test_what_is_refused_before_anything_is_learned(self):
        model = self.client.create("refused", {"dimension": 1, "linear_awv": {}})
        frame = pandas.DataFrame({"a": [1.0, 2.0], "y": [1.0, None]})
        with self.assertRaisesRegex(ValueError, "1 rows have no label, the first is 1"):
            model.learn_frame(frame, "y")
        with self.assertRaisesRegex(ValueError, "no column 'z'"):
            model.learn_frame(frame, "z")
        frame = pandas.DataFrame({"a": ["1.5", "Oslo"], "y": [1.0, 2.0]})
        with self.assertRaisesRegex(ValueError, "column 'a': got 'Oslo', want a number"):
            model.learn_frame(frame, "y")
        with self.assertRaisesRegex(TypeError, "predict_frame takes a DataFrame"):
            model.predict_batch(frame[["a"]])
        self.assertEqual(model.get().sequence, 0)

    def test_arrays_of_numpy(self):
        model = self.client.create("numpy", {"dimension": 2, "linear_awv": {}})
        rows = numpy.arange(20, dtype=numpy.float32).reshape(10, 2)
        predictions = model.predict_batch(rows)
        outcomes = model.observe_batch(predictions, rows.sum(axis=1), weights=numpy.ones(10))
        self.assertEqual([o.sequence for o in outcomes], list(range(1, 11)))
        self.assertEqual(model.observe(rows[0], numpy.float32(1.5), weight=numpy.float64(2)).sequence, 11)
        self.assertEqual(model.observe(rows[0], numpy.int64(1)).sequence, 12)
        self.assertEqual(model.observe(pandas.Series([1, 2]), 1).sequence, 13)


class AioFramesTest(unittest.IsolatedAsyncioTestCase):
    async def test_round(self):
        server = Server()
        self.addCleanup(server.close)
        async with aio.connect(server.address, timeout=TIMEOUT) as client:
            model = await client.create("a", {"dimension": 1, "linear_awv": {}})
            frame = pandas.DataFrame({"a": range(50), "y": range(50)})
            self.assertEqual((await model.learn_frame(frame, "y"))["sequence"].iloc[-1], 50)
            self.assertEqual(len(await model.predict_frame(frame[["a"]])), 50)


if __name__ == "__main__":
    unittest.main()
