"""A server of the process itself."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import hindsight
from hindsight import _local
from tests.server import TIMEOUT, binary

HERE = pathlib.Path(__file__).resolve().parents[1]
#: Starts a server, says where, and waits.
PROGRAM = """
import hindsight, sys
client = hindsight.local(server=sys.argv[1])
client.create("a", {"dimension": 1})
print(client._server._process.pid, client._server._directory, flush=True)
sys.stdin.readline()
"""
#: Forks beside a client.
FORK = """
import os, sys, hindsight
client = hindsight.local(server=sys.argv[1])
model = client.create("a", {"dimension": 1})
model.observe([1.0], 2.0)

def says(call):
    try:
        print(call(), flush=True)
    except hindsight.errors.Unreachable as e:
        print(e, flush=True)

def value(model):
    return model.predict([1.0], remember=False).value

if (pid := os.fork()) == 0:
    says(lambda: value(model))
    says(lambda: f"own {value(hindsight.connect(client.address).model('a'))}")
    os._exit(0)
os.waitpid(pid, 0)
says(lambda: f"parent {value(model)}")
client.close()
"""


def ended(pid: int) -> bool:
    """Tells whether a process of another parent has ended, or is dead and not yet waited for."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in ("Z", "X")
    except FileNotFoundError:
        return True


class LocalTest(unittest.TestCase):
    def test_round(self):
        with hindsight.local(server=binary(), timeout=TIMEOUT) as client:
            self.assertEqual(client.create("a", {"dimension": 1}).observe([1], 2).sequence, 1)
            self.assertEqual(client.timeout, TIMEOUT)
            with hindsight.connect(client.address) as other:
                self.assertEqual(other.model("a").get().sequence, 1)
            process, directory = client._server._process, client._server._directory
            self.assertTrue(os.path.isdir(directory))
        self.assertIsNotNone(process.poll())
        self.assertFalse(os.path.exists(directory))
        client.close()  # For the second time.

    def test_a_client_that_is_collected(self):
        client = hindsight.local("--max-models", "1", server=binary())
        client.create("a", {"dimension": 1})
        with self.assertRaises(hindsight.errors.LimitReached):
            client.create("b", {"dimension": 1})
        process, directory = client._server._process, client._server._directory
        del client
        gc.collect()
        self.assertIsNotNone(process.poll())
        self.assertFalse(os.path.exists(directory))

    def start(self):
        """A Python that has started a server: the process, the server's pid and directory."""
        python = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, binary()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": str(HERE)},
        )
        self.addCleanup(python.stdout.close)
        self.addCleanup(python.stdin.close)
        pid, directory = python.stdout.readline().split()
        return python, int(pid), directory

    def test_behind_a_proxy(self):
        proxies = dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy"), "http://127.0.0.1:9")
        with mock.patch.dict(os.environ, proxies | {"no_proxy": "", "no_grpc_proxy": ""}):
            with hindsight.local(server=binary(), timeout=TIMEOUT) as client:
                self.assertEqual(list(client.models()), [])

    def test_a_server_that_ended(self):
        with hindsight.local(server=binary(), timeout=TIMEOUT) as client:
            client.create("a", {"dimension": 1})
            client._server._process.kill()
            client._server._process.wait()
            with self.assertRaisesRegex(hindsight.errors.Unreachable, "the server of hindsight.local\\(\\) ended with -9:") as caught:
                client.model("a").get()
            self.assertEqual(caught.exception.tries, 1)

    def fork(self):
        """What a parent and its fork say."""
        environment = os.environ | {"PYTHONPATH": str(HERE)}
        ran = subprocess.run(
            [sys.executable, "-c", FORK, binary()], env=environment, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, check=True,
        )
        return ran.stdout.splitlines()

    @unittest.skipUnless(hasattr(os, "fork"), "forks are of POSIX")
    def test_fork(self):
        rejected = "the client belongs to the process that forked this one"
        said = self.fork()
        wants = [rejected, "this process is a fork"]
        self.assertEqual([line.startswith(want) for line, want in zip(said, wants)], [True] * 2, said)
        self.assertEqual(said[2:], ["parent 2.0"])

    def test_end_of_python(self):
        python, pid, directory = self.start()
        python.stdin.write("\n")
        python.stdin.flush()
        self.assertEqual(python.wait(TIMEOUT), 0)
        self.assertTrue(ended(pid))
        self.assertFalse(os.path.exists(directory))

    @unittest.skipUnless(sys.platform == "linux" and hasattr(os, "pidfd_open"), "PR_SET_PDEATHSIG is of Linux")
    def test_python_is_killed(self):
        import select

        python, pid, directory = self.start()
        server = os.pidfd_open(pid)
        self.addCleanup(os.close, server)
        python.send_signal(signal.SIGKILL)
        python.wait(TIMEOUT)
        self.assertEqual(select.select([server], [], [], TIMEOUT)[0], [server], "the server outlives its parent")
        subprocess.run(["rm", "-r", directory], check=True)

    def test_what_does_not_start(self):
        with self.assertRaisesRegex(RuntimeError, "ended before it served:\n.*unknown flag: --nonsense"):
            hindsight.local("--nonsense", server=binary())
        with self.assertRaises(OSError if sys.platform != "linux" else RuntimeError):
            hindsight.local(server="/nonexistent")


class ProgramTest(unittest.TestCase):
    """Where the server is looked for."""

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="hindsight-python-")).resolve()
        self.addCleanup(subprocess.run, ["rm", "-r", str(self.work)], check=True)
        self.package = self.program("clients/python/hindsight/_bin")
        self.given, self.on_path, self.checkout = self.program("given"), self.program("path"), self.program("bin")
        environment = {"HINDSIGHT_SERVER": str(self.given), "PATH": str(self.on_path.parent)}
        for patch in (
            mock.patch.object(_local, "__file__", str(self.work / "clients/python/hindsight/_local.py")),
            mock.patch.dict(os.environ, environment),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def program(self, directory):
        path = self.work / directory / _local.PROGRAM
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    def test_order(self):
        for path in (self.package, self.given, self.on_path, self.checkout):
            self.assertEqual(_local.program(), str(path))
            path.unlink()
            if path == self.given:
                with self.assertRaisesRegex(FileNotFoundError, "HINDSIGHT_SERVER is '.*given.*', want the path of a program"):
                    _local.program()
                del os.environ["HINDSIGHT_SERVER"]
        with self.assertRaisesRegex(FileNotFoundError, "make wheel.*HINDSIGHT_SERVER.*PATH.*make build"):
            _local.program()


if __name__ == "__main__":
    unittest.main()
