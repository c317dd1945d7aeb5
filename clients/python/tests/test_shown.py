"""What a notebook shows."""

import builtins
import random
import unittest
from unittest import mock

import hindsight
from tests.server import TIMEOUT, Server


class ShownTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        server = Server()
        cls.addClassCleanup(server.close)
        cls.client = hindsight.connect(server.address, timeout=TIMEOUT)
        cls.addClassCleanup(cls.client.close)
        rng = random.Random(1)
        cls.rows = [[rng.random(), rng.random()] for _ in range(1200)]
        cls.labels = [a + b + rng.gauss(0, 0.01) + (n > 800) * 9 * a for n, (a, b) in enumerate(cls.rows)]
        cls.model = cls.client.create("numbers", {"dimension": 2, "linear_awv": {}, "coverage": [0.5, 0.9]})
        cls.model.observe_batch(cls.rows, cls.labels)
        cls.classes = cls.client.create("classes", {"dimension": 2, "rlsc": {}})
        cls.classes.observe_batch(cls.rows, ["<a>" if a > b else "b" for a, b in cls.rows])
        cls.several = cls.client.create("several", {"dimension": 2, "outputs": 2, "linear_awv": {}, "coverage": [0.9]})
        cls.several.observe_batch(cls.rows, cls.rows)

    def test_predictions(self):
        self.assertRegex(self.model.predict([0.5, 0.5])._repr_html_(), "<th>value</th><td>[0-9.]+</td>.*interval 0.5.*interval 0.9.*after obs")
        shown = self.classes.predict([0.9, 0.1])._repr_html_()
        self.assertRegex(shown, "<th>class</th><td>&lt;a&gt;</td>.*probability of &lt;a&gt;.*probability of b")
        self.assertNotIn("standard error", shown)
        self.assertIn("interval 0.9 of output 1", self.several.predict([0.5, 0.5])._repr_html_())

    def test_stats_and_models(self):
        shown = self.model.stats()._repr_html_()
        self.assertEqual(self.model._repr_html_(), shown)
        self.assertRegex(shown, "numbers: linear_awv.*regret .prequential.*guarantee.*recent, served.*<th>skill</th><td>0")
        self.assertIn("<th>log loss</th>", self.classes._repr_html_())
        self.assertNotIn("Performance", self.client.create("empty", {"dimension": 1})._repr_html_())
        self.assertRegex(self.client.model("<none>")._repr_html_(), "Model.*&lt;none&gt;")

    def test_history_as_a_frame(self):
        try:
            import pandas
        except ImportError as e:
            self.skipTest(f"pandas is not installed: {e}")
        frame = self.model.history().to_frame()
        self.assertEqual((frame.index.name, frame.index[-1]), ("sequence", 1200))
        self.assertLessEqual({"time", "mean_loss", "skill", "regret", "regret_bound", "inside_1"}, set(frame.columns))
        self.assertIsInstance(frame["time"].dtype, pandas.DatetimeTZDtype)
        self.assertAlmostEqual(frame["regret"].iloc[-1] / self.model.stats().regret, 1.0, places=4)
        self.assertIn("error_rate", self.classes.history().to_frame())
        self.assertEqual(len(self.client.create("new", {"dimension": 1}).history().to_frame()), 0)

    def test_plots(self):
        try:
            import matplotlib
        except ImportError as e:
            self.skipTest(f"matplotlib is not installed: {e}")
        matplotlib.use("Agg")
        from matplotlib import pyplot

        self.addCleanup(pyplot.close, "all")
        skill, regret = self.model.plot()
        self.assertEqual((skill.get_ylabel(), regret.get_ylabel()), ("skill (prequential)", "regret (prequential)"))
        drifts = self.model.history().drifts
        self.assertTrue(drifts)
        self.assertEqual(len(skill.get_lines()), 1 + len(drifts))
        drawn = {line.get_label(): line for line in regret.get_lines()}
        self.assertAlmostEqual(drawn["regret"].get_ydata()[-1] / self.model.stats().regret, 1.0, places=4)
        self.assertIn("guarantee", drawn)
        self.assertEqual([ax.get_ylabel() for ax in self.classes.plot("log_loss", "error_rate", "skill")], ["log loss", "error rate", "skill (prequential)"])
        with self.assertRaisesRegex(ValueError, "no 'nonsense', want some of .*skill"):
            self.model.plot("nonsense")
        with self.assertRaisesRegex(ValueError, "the history is empty"):
            self.client.create("blank", {"dimension": 1}).plot()

    def test_no_matplotlib(self):
        load = builtins.__import__

        def fails(name, *rest, **more):
            if name.startswith("matplotlib"):
                raise ImportError(name)
            return load(name, *rest, **more)

        with mock.patch.object(builtins, "__import__", fails), self.assertRaisesRegex(ImportError, "plot needs matplotlib: pip install"):
            self.model.plot()


if __name__ == "__main__":
    unittest.main()
