"""A real server for tests, and a way in between that loses answers."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import queue
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
#: Bounds every wait of a test.
TIMEOUT = 60.0


def binary() -> str:
    """The server: HINDSIGHT_SERVER, or the one that make build puts into bin."""
    path = os.environ.get("HINDSIGHT_SERVER") or str(ROOT / "bin" / "hindsight-server")
    if not os.access(path, os.X_OK):
        raise unittest.SkipTest(f"no server at {path}: run make build, or set HINDSIGHT_SERVER")
    return path


def free_address() -> str:
    """A free address that outgoing connections and listeners of any port do not take while a server is down."""
    while True:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", random.randrange(12_000, 30_000))) as listener:
            return "127.0.0.1:%d" % listener.getsockname()[1]


class Server:
    """A server process on a directory of its own. It can be killed and started again."""

    def __init__(self, *flags: str) -> None:
        self._binary = binary()
        self._flags = flags
        self._directory = tempfile.mkdtemp(prefix="hindsight-python-")
        self.address = free_address()
        self.http = ""
        self.start()

    def start(self) -> None:
        """Starts the process; for the second time at the same address."""
        self._process = subprocess.Popen(
            [self._binary, "--data-dir", self._directory, "--grpc-address", self.address,
             "--http-address", "127.0.0.1:0", *self._flags],
            stderr=subprocess.PIPE, text=True,
        )
        lines: queue.Queue[str] = queue.Queue()
        stderr = self._process.stderr
        self._reader = threading.Thread(target=lambda: ([lines.put(line) for line in stderr], lines.put(""), stderr.close()))
        self._reader.start()
        seen = []
        while line := lines.get(timeout=TIMEOUT):
            seen.append(line)
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if entry.get("msg") == "serving":
                    self.http = entry["http_address"]
                    return
        raise RuntimeError("the server ended:\n" + "".join(seen))

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        self._process.kill()
        self._process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)

    def close(self) -> None:
        """Ends the process and removes its data."""
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)


def cluster(count: int = 3) -> list[Server]:
    """Servers that found a cluster. They serve before the cluster has an owner."""
    peers = [free_address() for _ in range(count)]
    return [Server("--cluster-address", peer, "--cluster-join", ",".join(peers)) for peer in peers]


class Proxy:
    """Passes bytes on between clients and a server, until it is told to keep one way back."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._keep = ""
        self.kept = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def keep(self, way: str) -> None:
        """Keeps what goes one way: "requests" or "answers". Empty: passes on again."""
        self.kept.clear()
        self._keep = way

    def drop(self) -> None:
        """Closes all connections."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for s in sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()

    def close(self) -> None:
        """Ends the proxy."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
        for t in self._threads:
            t.join(TIMEOUT)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server, TIMEOUT)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets += [client, server]
            for way, a, b in (("requests", client, server), ("answers", server, client)):
                t = threading.Thread(target=self._pass, args=(way, a, b))
                self._threads.append(t)
                t.start()

    def _pass(self, way: str, a: socket.socket, b: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := a.recv(1 << 16):
                if self._keep == way:
                    self.kept.set()
                    continue  # It never arrives: the connection is dropped later.
                b.sendall(piece)
        for s in (a, b):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
