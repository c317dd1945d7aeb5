"""Every Python program of the README runs."""

import contextlib
import importlib.util
import io
import os
import re
import unittest
from unittest import mock

from tests.server import ROOT, Server, binary

PROGRAMS = [
    program
    for program in re.findall(r"^## ([^\n]+)$(?:(?!^## ).)*?^```python\n(.*?)^```$", (ROOT / "clients/python/README.md").read_text(), re.M | re.S)
]


class ReadmeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)

    def test_programs(self):
        wanted = {
            "Ten lines": r"200: predicted \d\.\d+, was \d\.\d+, recent loss 0\.\d+\n$",
            "Named inputs and classes": r"^mild \{'cold': 0\.\d+, 'mild': 0\.\d+\}",
            "Labels that come later": r"^$",
            "DataFrames": r"299 +300 ",
            "scikit-learn": r"^R2 0\.4\d\ninside 0\.[89]\d?\n331\n$",
            "river": r"^(19|20)\.\d+\n$",
        }
        self.assertEqual([title for title, _ in PROGRAMS], list(wanted))
        for title, program in PROGRAMS:
            with self.subTest(title), mock.patch.dict(os.environ, {"HINDSIGHT_SERVER": binary()}):
                for needed in ("pandas", "sklearn"):
                    if f"import {needed}" in program or f"from {needed}" in program or f", {needed}" in program:
                        if importlib.util.find_spec(needed) is None:
                            self.skipTest(f"{needed} is not installed")
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    exec(compile(program.replace("localhost:50051", self.server.address), title, "exec"), {"__name__": title})
                self.assertRegex(out.getvalue(), wanted[title])


if __name__ == "__main__":
    unittest.main()
