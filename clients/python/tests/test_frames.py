"""DataFrames in and out."""

import datetime
import decimal
import json
import unittest
import warnings

import hindsight
from hindsight import aio
from hindsight._values import scalar
from tests.server import ROOT, TIMEOUT, Server, binary

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

    def test_ids_as_categories(self):
        model = self.client.create("ids", {"inputs": [{"name": "id", "categorical": {}}, {"name": "n", "numeric": {}}], "linear_awv": {}})
        ids = [1_000_185, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1]
        texts = pandas.DataFrame({"id": [str(i) for i in ids] * 20, "n": 2**60, "y": [10.0 * n for n in range(len(ids))] * 20})
        model.learn_frame(texts, "y")
        want = model.predict_frame(texts[["id", "n"]].head(6))["value"].tolist()
        self.assertEqual(len(set(want)), 6)
        for dtype in ("int64", "uint64", "Int64", "UInt64", "object", "string", "category"):
            values = [str(i) for i in ids] if dtype == "string" else ids
            frame = pandas.DataFrame({"id": pandas.Series(values, dtype=dtype), "n": 2**60})
            with self.subTest(dtype):
                self.assertEqual(model.predict_frame(frame)["value"].tolist(), want)
        for value in (numpy.int64(ids[1]), numpy.uint64(ids[1]), ids[1], str(ids[1])):
            self.assertEqual(model.predict({"id": value, "n": 2**60}, remember=False).value, want[1])
        with self.assertRaisesRegex(hindsight.errors.InvalidArgument, r"inputs.id: got the number .*, want a text, or a number between -2\^53 and 2\^53"):
            model.predict({"id": ids[2], "n": 1})

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

    def test_rows_without_a_label_are_left_out_and_durations_are_seconds(self):
        frame = pandas.DataFrame({"a": pandas.to_timedelta([1, None, 3, 4], unit="h"), "y": [1.0, 2.0, None, 4.0]}, index=list("pqrs"))
        model = self.client.create("durations", hindsight.infer(frame, "y"))
        with self.assertWarnsRegex(UserWarning, "1 rows have no label and are left out, the first is 'r'"):
            learned = model.learn_frame(frame, "y", run="r")
        self.assertEqual(learned.index.tolist(), ["p", "q", "s"])
        self.assertTrue(model.observe({"a": 4 * 3600}, 4.0, id="r-3").duplicate)
        self.assertEqual(scalar(numpy.timedelta64(1500, "ms"), "a"), 1.5)
        self.assertIsNone(scalar(numpy.timedelta64("NaT"), "a"))

    def test_what_is_rejected_before_anything_is_learned(self):
        model = self.client.create("rejected", {"dimension": 1, "linear_awv": {}})
        frame = pandas.DataFrame({"a": [1.0, 2.0], "y": [1.0, None]})
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


class InferTest(unittest.TestCase):
    """Client.infer decides as the command line does."""

    @classmethod
    def setUpClass(cls):
        cls.client = hindsight.local(server=binary(), timeout=TIMEOUT)
        cls.addClassCleanup(cls.client.close)

    def infer(self, values, **options):
        """The declaration of a column, without its name."""
        given = self.client.infer(pandas.DataFrame({"a": values}), **options)["inputs"][0]
        self.assertEqual(given.pop("name"), "a")
        return given

    def test_trips(self):
        frame = pandas.read_csv(ROOT / "examples" / "trips.csv", parse_dates=["at"])
        # As hindsight infer --target delay, which makes booleans of yes and no.
        self.assertEqual(self.client.infer(frame, "delay"), {"inputs": [
            {"name": "at", "time": {"cycles": ["CYCLE_HOUR_OF_DAY", "CYCLE_DAY_OF_WEEK"]}},
            {"name": "city", "categorical": {"max_categories": 4}},
            {"name": "rain", "categorical": {"max_categories": 2}},
            {"name": "temp", "numeric": {}},
        ]})

    def test_kinds(self):
        self.assertEqual(self.infer([0, 1, 1]), {"boolean": {}})
        self.assertEqual(self.infer([0.0, 1.0, None]), {"boolean": {}})
        self.assertEqual(self.infer([True, None, False]), {"boolean": {}})
        self.assertEqual(self.infer([1, 1, 1]), {"numeric": {}})
        self.assertEqual(self.infer([0, 1, 2] * 29), {"numeric": {}})
        self.assertEqual(self.infer([0, 1, 2.5] * 30), {"numeric": {}})
        self.assertEqual(self.infer(pandas.Categorical([7, 8, 7])), {"categorical": {"max_categories": 2}})
        self.assertEqual(self.infer([f"x{n % 100}" for n in range(400)]), {"categorical": {"key": True}})
        self.assertEqual(self.infer([f"x{n % 100}" for n in range(400)], keys=False), {"categorical": {"max_categories": 64}})
        self.assertEqual(self.infer([[1.0, 2.0], None]), {"vector": {"length": 2}})
        self.assertEqual(self.infer(pandas.date_range("2026-01-01", periods=3)), {"time": {"trend": True}})
        self.assertEqual(self.infer(["1", "2", "03"] * 30), {"categorical": {"max_categories": 3}})
        self.assertEqual(self.infer(["yes", "no", None] * 30), {"categorical": {"max_categories": 2}})
        self.assertEqual(
            self.infer(pandas.date_range("2024-01-01", periods=9000, freq="h"))["time"],
            {"cycles": ["CYCLE_HOUR_OF_DAY", "CYCLE_DAY_OF_WEEK", "CYCLE_DAY_OF_YEAR"], "trend": True},
        )

    def test_columns_of_other_libraries(self):
        days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=n) for n in range(400)]
        for values, kind in (
            (pandas.cut(pandas.Series(range(60)), [-1, 10, 20, 60]), "categorical"),
            (pandas.qcut(pandas.Series(range(60)), 4), "categorical"),
            (pandas.Series(pandas.period_range("2024-01", periods=4, freq="M").repeat(9)), "categorical"),
            (pandas.Categorical(pandas.to_datetime(["2024-01-01", "2024-02-03", None] * 20)), "time"),
            (days[:-1] + [datetime.date(9999, 12, 31)], "time"),
            ([datetime.datetime(1500, 1, 1), datetime.datetime(1501, 1, 1)], "time"),
            (pandas.Series([numpy.bool_(True), numpy.bool_(False)], dtype=object), "boolean"),
            ([decimal.Decimal("1.5"), decimal.Decimal("NaN"), decimal.Decimal("2.5")], "numeric"),
        ):
            frame = pandas.DataFrame({"a": values, "y": 1.0})
            spec = self.client.infer(frame, "y")
            self.assertEqual([kind], [k for k in spec["inputs"][0] if k != "name"])
            with hindsight.local(server=binary(), timeout=TIMEOUT) as client:
                self.assertEqual(len(client.create("a", spec).learn_frame(frame, "y")), len(frame))
        aware = [datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), datetime.datetime(2024, 1, 2)]
        for values, says in (
            (pandas.Series(aware, dtype=object), "column 'a': got times with and without an offset"),
            ([1j, 2j], "column 'a': got complex128"),
            ([{"q": 1}, {"q": 2}], "column 'a': got object such as {'q': 1}"),
            ([{1.0}, {2.0}], "column 'a': got object such as {1.0}"),
        ):
            with self.assertRaisesRegex((TypeError, ValueError), says):
                self.client.infer(pandas.DataFrame({"a": values}))
        with self.assertRaisesRegex(ValueError, "the frame has 2 columns called 'a', want a name for each"):
            self.client.infer(pandas.DataFrame([[1, 2, 3.0]], columns=["a", "a", "y"]), "y")
        with self.assertRaisesRegex(ValueError, "names of 2 levels"):
            self.client.infer(pandas.DataFrame([[1, 2.0]], columns=pandas.MultiIndex.from_tuples([("a", "b"), ("y", "z")])), "y")
        with self.assertWarnsRegex(UserWarning, "column 'at' holds times as texts"):
            self.client.infer(pandas.DataFrame({"at": ["2024-01-01", "2024-01-02 10:00"] * 9, "y": [1.5, 2.5] * 9}), "y")

    def test_long_names(self):
        frame = pandas.DataFrame({"ö" * 40: [1.0, 2.0, 3.0], "two\nlines": ["a", "b", "a"], "y": [1.0, 2.0, 3.0]})
        spec = self.client.infer(frame, "y")
        self.assertEqual([i["name"] for i in spec["inputs"]], ["ö" * 32, "two lines"])
        model = self.client.create("long-names", spec)
        self.assertEqual(len(model.learn_frame(frame, "y")), 3)

    def test_categories_and_keys(self):
        cases = json.loads((ROOT / "internal" / "infer" / "testdata" / "categories.json").read_text())
        for case in cases:
            with self.subTest(case["case"]), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                frame = pandas.DataFrame({case["name"]: case["cells"], "other": 0.5})
                if "labels" in case:
                    frame["y"] = case["labels"]
                given = self.client.infer(frame, "y" if "labels" in case else None)["inputs"][0]
                kind = {"numeric": "number", "vector": "vector"}.get(next(k for k in given if k not in ("name", "missing")), "category")
                if given["name"] == "other":
                    kind = "left out"
                elif given.get("categorical") == {"key": True}:
                    kind = "key"
                self.assertEqual(kind, case["kind"])

    def test_texts_of_several_words(self):
        frame = pandas.DataFrame({"note": [f"call {n} now to win" for n in range(100)], "name": [f"Ann {n} Doe" for n in range(100)]})
        with self.assertWarns(UserWarning):
            self.assertEqual([{k: v for k, v in i.items() if k != "missing"} for i in self.client.infer(frame)["inputs"]], [{"name": "note", "text": {}}])

    def test_what_is_left_out_and_rejected(self):
        frame = pandas.DataFrame({"a": range(100), "id": [f"x{n}" for n in range(100)], "no": None, "long": ["x" * 257, "y"] * 50})
        with self.assertWarns(UserWarning) as warned:
            self.assertEqual([i["name"] for i in self.client.infer(frame)["inputs"]], ["a"])
        self.assertRegex(
            " ".join(str(w.message) for w in warned.warnings),
            "'id' is left out: most cells do not repeat .*'no' is left out: every cell is empty.*'long' is left out: texts of up to 257 bytes",
        )
        with self.assertRaisesRegex(ValueError, "no column that can be an input"):
            self.client.infer(frame[["a"]], "a")
        with self.assertRaisesRegex(ValueError, "no column 'y'"):
            self.client.infer(frame, "y")
        with self.assertRaisesRegex(ValueError, "column 'y' has no label"):
            self.client.infer(frame[["a"]].assign(y=None), "y")
        with self.assertRaisesRegex(ValueError, "column 'a': got lists of 1 to 2 numbers, want one length"):
            self.client.infer(pandas.DataFrame({"a": [[1], [1, 2]]}))

    def test_labels(self):
        frame = pandas.DataFrame({"a": range(9), "n": [1, 2, 3] * 3, "b": [True, False, True] * 3, "t": ["x", "y", "z"] * 3})
        self.assertNotIn("classes", self.client.infer(frame, "n"))
        self.assertEqual(self.client.infer(frame, "n", classes=True)["classes"], {"max_classes": 3})
        self.assertEqual(self.client.infer(frame, "b")["classes"], {"max_classes": 2})
        self.assertEqual(self.client.infer(frame, "t")["classes"], {"max_classes": 3})
        self.assertEqual(self.client.infer(frame, ["n", "a"])["outputs"], 2)


class InferredTest(unittest.TestCase):
    def test_what_is_inferred_learns_the_frame(self):
        count = 600
        frame = pandas.DataFrame({
            "at": pandas.date_range("2026-01-01", periods=count, freq="h", tz="Europe/Oslo"),
            "on": [n % 2 for n in range(count)], "maybe": [None if n % 7 == 0 else float(n % 2) for n in range(count)],
            "hour": [n % 8 for n in range(count)], "vector": [[1.0, n] for n in range(count)],
            "name": [f"row {n}" for n in range(count)], "late": [n % 8 > 5 for n in range(count)],
        }, index=range(7, 7 + count))
        with hindsight.local(server=binary(), timeout=TIMEOUT) as client:
            with self.assertWarns(UserWarning):
                spec = client.infer(frame, "late")
            model = client.create("a", spec | {"linear_awv": {}})
            model.learn_frame(frame, "late")
            predicted = model.predict_frame(frame)  # With the columns that are no inputs.
            self.assertEqual(predicted["class"].tolist()[-16:], [str(late) for late in frame["late"].tolist()[-16:]])
            self.assertEqual(list(predicted.index), list(frame.index))
            with self.assertRaisesRegex(ValueError, "no column 'hour', an input of the model"):
                model.predict_frame(frame.drop(columns="hour"))
            self.assertEqual(client.model("a").get().classes, ("False", "True"))
            counted = client.create("n", client.infer(frame[["on", "hour"]], "hour", classes=True))
            counted.learn_frame(frame[["on", "hour"]].astype(float), "hour")
            self.assertEqual(counted.get().classes[:3], ("0", "1", "2"))


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
