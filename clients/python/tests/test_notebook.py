"""The notebook of examples runs, from its first cell to its last."""

import importlib.util
import json
import os
import subprocess
import sys
import unittest

from tests.server import ROOT, binary

NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
#: Runs the code of all cells and prints the last expression of each, as a notebook does.
CELLS = """
import ast, json, sys
names = {}
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), names)
        if last:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            print(value._repr_html_() if hasattr(value, "_repr_html_") else value)
"""
#: Runs the notebook by Jupyter's own client and prints its outputs.
JUPYTER = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], 4)
nbformat.validate(notebook)
nbclient.NotebookClient(notebook, timeout=300).execute()
for cell in notebook.cells:
    for output in cell.get("outputs", ()):
        print(output.get("data", {}).get("text/html") or output.get("data", {}).get("text/plain") or output.get("text"))
"""


class NotebookTest(unittest.TestCase):
    def run_by(self, program):
        absent = [name for name in ("pandas", "sklearn", "matplotlib") if importlib.util.find_spec(name) is None]
        if absent:
            self.skipTest(f"{', '.join(absent)} not installed")
        environment = os.environ | {
            "HINDSIGHT_SERVER": binary(), "PYTHONPATH": str(ROOT / "clients" / "python"), "MPLBACKEND": "Agg", "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", program, NOTEBOOK.name], cwd=NOTEBOOK.parent, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        for wanted in ("CYCLE_HOUR_OF_DAY", "trips: auto", "regret (prequential)", "lower_0.9", "<caption>Prediction"):
            self.assertIn(wanted, done.stdout)

    def test_cells(self):
        self.run_by(CELLS)

    def test_jupyter(self):
        absent = [name for name in ("nbformat", "nbclient", "ipykernel") if importlib.util.find_spec(name) is None]
        if absent:
            self.skipTest(f"{', '.join(absent)} not installed: test_cells runs the code of the cells")
        self.run_by(JUPYTER)

    def test_no_output_is_committed(self):
        cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        self.assertEqual([c for c in cells if c.get("outputs") or c.get("execution_count")], [])


if __name__ == "__main__":
    unittest.main()
