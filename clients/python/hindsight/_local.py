"""A server of this process, in a temporary directory."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from typing import Any, Optional, Union

from hindsight.client import Client

PROGRAM = "hindsight-server" + (".exe" if os.name == "nt" else "")
#: How many lines of the log an error repeats.
TAIL = 5
#: The seconds that the server has to start.
LIMIT = 20.0
# Linux kills the server when its parent dies, by SIGKILL too (PR_SET_PDEATHSIG). The wrapper asks for that
# and becomes the server. A preexec_fn would run between fork and exec of a process with threads.
TIED = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv[1]) or sys.exit(1); os.execv(sys.argv[2], sys.argv[2:])"
)


def program() -> str:
    """Finds the server: in the package, HINDSIGHT_SERVER, PATH, bin of a checkout."""
    here = pathlib.Path(__file__).resolve().parent
    inside, checkout = here / "_bin" / PROGRAM, (here / "../../../bin" / PROGRAM).resolve()
    given = os.environ.get("HINDSIGHT_SERVER", "")
    if os.access(inside, os.X_OK):
        return str(inside)
    if given and not os.access(given, os.X_OK):
        raise FileNotFoundError(f"HINDSIGHT_SERVER is {given!r}, want the path of a program")
    if found := given or shutil.which(PROGRAM):
        return found
    if os.access(checkout, os.X_OK):
        return str(checkout)
    raise FileNotFoundError(
        f"no {PROGRAM}: install a wheel of make wheel, which contains the server; or set HINDSIGHT_SERVER to its path; "
        "or put it on PATH; or run make build in a checkout"
    )


class Local(Client):
    """A client of a local server. close stops the server and removes its data."""

    _server: Server

    def close(self) -> None:
        """Closes the connection, stops the server and removes its data."""
        super().close()
        self._server.stop()

    @property
    def address(self) -> str:
        """The address of the server, for further clients."""
        return self._address


def local(*flags: str, server: Union[str, os.PathLike[str], None] = None, **options: Any) -> Local:
    """Starts a server in a temporary directory, and returns a client of the server.

        with hindsight.local() as client:
            model = client.create("energy", {"dimension": 2})

    close, the end of the with block, of the client or of Python stops the server and removes its data. On Linux
    the server also ends when Python is killed. server is the path of the program; by default the program
    of the wheel, HINDSIGHT_SERVER, PATH or a checkout. flags are further flags of the server, options are
    options of connect. The server listens on 127.0.0.1 at free ports.
    """
    process = Server(os.fspath(server) if server is not None else program(), flags)
    try:
        client = Local.connect(process.address, **options)
    except BaseException:
        process.stop()
        raise
    client._server = process
    client._security.ended = process.ended
    weakref.finalize(client, process.stop)  # At the end of Python too.
    return client


class Server:
    """A process of the server. Its data is lost with it, so it does not wait for the disk."""

    def __init__(self, path: str, flags: tuple[str, ...]) -> None:
        self._owner = os.getpid()
        self._directory = tempfile.mkdtemp(prefix="hindsight-")
        command = [
            path, "--data-dir", self._directory, "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0",
            "--durability", "async", "--log-level", "info", *flags,
        ]
        if sys.platform == "linux" and sys.executable:
            command = [sys.executable, "-I", "-S", "-c", TIED, str(self._owner), *command]
        self._process: Optional[subprocess.Popen[str]] = None
        #: The last lines of the log.
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._lock = threading.Lock()
        said: queue.Queue[Union[str, BaseException]] = queue.Queue()
        # The server ends with the thread that started it, so a thread starts it that reads its log to the end.
        threading.Thread(target=self._run, args=(command, said), name="hindsight-server", daemon=True).start()
        try:
            self.address = self._await(said, path)
        except BaseException:
            self.stop()
            raise

    def _run(self, command: list[str], said: queue.Queue[Union[str, BaseException]]) -> None:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                encoding="utf-8", errors="replace",
                start_new_session=os.name == "posix",  # An interrupt of the terminal is for Python alone.
            )
        except BaseException as e:
            said.put(e)
            return
        self._process = process
        assert process.stderr is not None
        serving = False
        with process.stderr as log:
            for line in log:
                self._tail.append(line)
                if not serving:
                    said.put(line)
                    serving = '"serving"' in line
        said.put("")

    def _await(self, said: queue.Queue[Union[str, BaseException]], path: str) -> str:
        """The address of the server, once it serves."""
        while True:
            try:
                line = said.get(timeout=LIMIT)
            except queue.Empty:
                raise TimeoutError(f"{path} does not serve after {LIMIT:g} s:\n{''.join(self._tail)}") from None
            if isinstance(line, BaseException):
                raise line
            if not line:
                raise RuntimeError(f"{path} ended before it served:\n{''.join(self._tail)}")
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if entry.get("msg") == "serving":
                    return str(entry["grpc_address"])

    def ended(self) -> str:
        """Why no server answers, if the process has ended."""
        process = self._process
        if process is None or process.poll() is None:
            return ""
        return f"the server of hindsight.local() ended with {process.returncode}:\n{''.join(self._tail)}".rstrip()

    def stop(self) -> None:
        """Stops the process and removes its directory. A fork of the process that started it does nothing."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            if self._process is not None:
                self._process.kill()  # Nobody reads what an orderly end would save.
                self._process.wait()
            shutil.rmtree(self._directory, ignore_errors=True)
