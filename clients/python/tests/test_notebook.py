"""The notebook of examples runs, from its first cell to its last. "make notebook" stores what its cells show."""

import importlib.util
import json
import os
import subprocess
import sys
import unittest

from tests.server import ROOT, binary

NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
#: Runs the code of all cells, prints the last expression of each, as a notebook does, and writes the notebook with these
#: and the plots to the second argument.
CELLS = """
import ast, base64, io, json, sys
from matplotlib import pyplot
names, count = {}, 0
notebook = json.load(open(sys.argv[1], encoding="utf-8"))
for cell in notebook["cells"]:
    if cell["cell_type"] == "code":
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), names)
        count += 1
        cell["execution_count"], cell["outputs"] = count, []
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
        if value is not None:
            data = {"text/plain": repr(value).splitlines(True)}
            if hasattr(value, "_repr_html_"):
                data["text/html"] = value._repr_html_().splitlines(True)
            print("".join(data.get("text/html", data["text/plain"])))
            cell["outputs"].append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
        for number in pyplot.get_fignums():
            image = io.BytesIO()
            pyplot.figure(number).savefig(image, dpi=72, bbox_inches="tight", metadata={"Software": None})
            pyplot.close(number)
            data = {"image/png": base64.b64encode(image.getvalue()).decode()}
            cell["outputs"].append({"output_type": "display_data", "metadata": {}, "data": data})
if len(sys.argv) > 2:
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write(json.dumps(notebook, indent=1, ensure_ascii=False) + chr(10))
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
            [sys.executable, "-c", program, NOTEBOOK.name, *os.environ.get("HINDSIGHT_NOTEBOOK", "").split()], cwd=NOTEBOOK.parent, env=environment, stdout=subprocess.PIPE,
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

    def test_outputs_are_stored(self):
        cells = [c for c in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
        self.assertEqual([c["execution_count"] for c in cells], [*range(1, len(cells) + 1)])
        kinds = [kind for c in cells for output in c["outputs"] for kind in output["data"]]
        self.assertEqual(kinds.count("image/png"), sum(".plot(" in "".join(c["source"]) for c in cells))
        self.assertGreater(kinds.count("text/html"), 5)
        if importlib.util.find_spec("nbformat"):
            import nbformat

            nbformat.validate(nbformat.read(NOTEBOOK, 4))


if __name__ == "__main__":
    unittest.main()
