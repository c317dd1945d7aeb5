"""The package: its stubs are current, its types hold, and its wheel works alone."""

import filecmp
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from google.protobuf import descriptor_pb2, descriptor_pool

from tests.server import Server

HERE = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = """
import sys
import hindsight
with hindsight.connect(sys.argv[1]) as client:
    model = client.create("wheel", {"dimension": 1, "linear_awv": {}})
    print(hindsight.__file__, model.observe(model.predict([1]), 2).sequence)
"""
# What mypy has to reject is marked.
TYPED = """
import hindsight
from hindsight import aio
model = hindsight.connect().create("a", {"dimension": 1})
prediction = model.predict([1.0])
value: float = prediction.value  # wrong: it may be None
model.predict(7)  # wrong
model.predict({"city": "Oslo"})
model.observe(prediction, [1.0, 2.0])
model.observe("id", "class")
model.observe([1, 2], None)  # wrong
rows = model.observe_batch([prediction, "id", [1.0]], [1, 2, 3])
sequence: int = rows[0].sequence
async def main() -> None:
    async with aio.connect() as client:
        client.model("a").predict([1]).value  # wrong: it is not awaited
"""


def run(*command, **options):
    """Runs a command; its output is in the failure."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


class PackageTest(unittest.TestCase):
    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="hindsight-python-"))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)

    def test_stubs_are_current(self):
        if shutil.which("grpc_python_plugin") is None or shutil.which("protoc") is None:
            self.skipTest("protoc 3.21 and grpc_python_plugin are not installed")
        if not (version := run("protoc", "--version").strip()).startswith("libprotoc 3.21."):
            self.skipTest(f"the stubs are those of protoc 3.21, this is {version}")
        run(HERE / "tools" / "generate.sh", self.work, env=os.environ | {"PYTHON": sys.executable})
        made = [p.relative_to(self.work) for p in self.work.rglob("*") if p.is_file()]
        self.assertGreater(len(made), 15)
        for name in made:
            same = (HERE / name).exists() and filecmp.cmp(self.work / name, HERE / name, shallow=False)
            self.assertTrue(same, f"{name} does not belong to the API; run: make python-proto")

    def test_blocking_client_is_current(self):
        run(sys.executable, HERE / "tools" / "blocking.py", self.work)
        made = sorted(p.name for p in self.work.iterdir())
        self.assertEqual(made, ["_connection.py", "client.py"])
        for name in made:
            same = filecmp.cmp(self.work / name, HERE / "hindsight" / name, shallow=False)
            self.assertTrue(same, f"{name} does not belong to aio/{name}; run: python3 clients/python/tools/blocking.py")

    def test_types(self):
        if shutil.which("mypy") is None:
            self.skipTest("mypy is not installed")
        run("mypy", "--cache-dir", self.work / "mypy", cwd=HERE)

    def test_types_of_a_program(self):
        if shutil.which("mypy") is None:
            self.skipTest("mypy is not installed")
        program = self.work / "program.py"
        program.write_text(TYPED)
        done = subprocess.run(
            ["mypy", "--strict", "--follow-imports=silent", "--ignore-missing-imports", "--cache-dir", self.work / "mypy", program],
            stdout=subprocess.PIPE, text=True, timeout=300, env=os.environ | {"MYPYPATH": str(HERE)},
        )
        told = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line]
        wrong = [n for n, line in enumerate(TYPED.splitlines(), 1) if "# wrong" in line]
        self.assertEqual(told, wrong, done.stdout)

    def test_without_optional_packages(self):
        absent = "import sys\nsys.modules.update(dict.fromkeys(['numpy', 'pandas', 'sklearn', 'river', 'matplotlib']))\n"
        server = Server()
        self.addCleanup(server.close)
        more = "import hindsight.river\nprint(hindsight.local, hindsight.river.Regressor().predict_one({}))\n"
        told = run(sys.executable, "-c", absent + PROGRAM + more, server.address, cwd=HERE)
        self.assertRegex(told, r"__init__.py 1\n.* 0\.0\n$")

    def test_wheel(self):
        if importlib.util.find_spec("setuptools") is None or importlib.util.find_spec("wheel") is None or importlib.util.find_spec("pip") is None:
            self.skipTest("pip, setuptools and wheel are not installed")
        source = self.work / "source"
        shutil.copytree(HERE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", self.work, source)
        wheel = next(self.work.glob("hindsight_learning-*.whl"))
        run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", self.work / "installed", wheel)
        self.assertTrue((self.work / "installed" / "hindsight" / "py.typed").exists())
        server = Server()
        self.addCleanup(server.close)
        # protobuf's own implementation in C, then that in Python.
        for sequence, implementation in enumerate(("", "python"), start=1):
            env = os.environ | {"PYTHONPATH": str(self.work / "installed")}
            if implementation:
                env["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = implementation
            told = run(sys.executable, "-c", PROGRAM, server.address, cwd=self.work, env=env).split()
            self.assertEqual(told, [str(self.work / "installed" / "hindsight" / "__init__.py"), str(sequence)])


class GoogleFilesTest(unittest.TestCase):
    """The files of google that somebody else has registered are taken."""

    def test_with_an_installed_package(self):
        with tempfile.TemporaryDirectory() as work:
            # As googleapis-common-protos of another version: another content of http.proto.
            package = pathlib.Path(work, "google", "api")
            package.mkdir(parents=True)
            file = descriptor_pb2.FileDescriptorProto()
            descriptor_pool.Default().FindFileByName("google/api/http.proto").CopyToProto(file)
            file.options.java_package = "another"
            (package / "http_pb2.py").write_text(
                "from google.protobuf import descriptor_pool\n"
                "from google.protobuf.internal import builder\n"
                f"DESCRIPTOR = descriptor_pool.Default().AddSerializedFile({file.SerializeToString()!r})\n"
                "builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())\n"
                "builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, 'google.api.http_pb2', globals())\n"
            )
            program = (
                "import sys, google\n"
                "google.__path__ = list(google.__path__) + [sys.argv[1]]\n"
                "{first}\n"
                "import hindsight\n"
                "from google.protobuf import descriptor_pool\n"
                "f = descriptor_pool.Default().FindFileByName('google/api/http.proto')\n"
                "print(f.GetOptions().java_package)\n"
            )
            for first in ("", "import google.api.http_pb2"):
                for implementation in ("cpp", "python"):
                    with self.subTest(first=first, implementation=implementation):
                        told = run(
                            sys.executable, "-c", program.format(first=first), os.path.join(work, "google"), cwd=HERE,
                            env=os.environ | {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation, "PYTHONPATH": str(HERE)},
                        )
                        self.assertEqual(told.split(), ["another"])

    def test_bundled(self):
        import hindsight

        self.assertTrue(hindsight.connect)
        for name in ("google/api/annotations.proto", "google/api/http.proto"):
            self.assertEqual(descriptor_pool.Default().FindFileByName(name).name, name)


if __name__ == "__main__":
    unittest.main()
