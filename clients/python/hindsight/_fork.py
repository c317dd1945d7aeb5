"""Forks of a process that has called a server."""

from __future__ import annotations

import os
import sys

_VARIABLE = "GRPC_ENABLE_FORK_SUPPORT"
# gRPC reads the variable when it is imported. Without the support, a channel of a child shares the sockets of its
# parent: calls of both fail or hang.
if "grpc" not in sys.modules:
    os.environ.setdefault(_VARIABLE, "1")
_SUPPORTED = os.environ.get(_VARIABLE, "").lower() in ("1", "yes", "true")
#: The process that made the first channel.
_first = 0


def process() -> int:
    """The process that a new channel belongs to. Raises RuntimeError where no channel of gRPC works."""
    global _first
    pid = os.getpid()
    _first = _first or pid
    if pid != _first and not _SUPPORTED:
        raise RuntimeError(
            "this process is a fork of one that has called a server, and gRPC does not support forks here: "
            f"import hindsight before grpc, or set {_VARIABLE}=1, or start processes by spawn"
        )
    return pid


def check(owner: int) -> None:
    """Raises RuntimeError unless this process is the owner of the channel."""
    if os.getpid() != owner:
        raise RuntimeError("the client belongs to the process that forked this one: call hindsight.connect in this process")
