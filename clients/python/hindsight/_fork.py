"""Forks of a process that has called a server."""

from __future__ import annotations

import os

import grpc

from hindsight.errors import Unreachable

#: The process that made the first channel.
_first = 0


def process() -> int:
    """The process that a new channel belongs to. Raises Unreachable in a fork of a process that has made a channel.

    The threads of gRPC do not survive a fork. A channel of the child hangs at some times, also with the support for forks
    that gRPC offers, so the child is rejected at once.
    """
    global _first
    pid = os.getpid()
    _first = _first or pid
    if pid != _first:
        raise _unreachable(
            "this process is a fork of one that has called a server, and gRPC does not survive a fork: "
            "start processes by spawn, or fork before the first call"
        )
    return pid


def check(owner: int) -> None:
    """Raises Unreachable unless this process is the owner of the channel."""
    if os.getpid() != owner:
        raise _unreachable(
            "the client belongs to the process that forked this one: start processes by spawn, and call hindsight.connect in them"
        )


def _unreachable(message: str) -> Unreachable:
    error = Unreachable(message, code=grpc.StatusCode.UNAVAILABLE)
    error.ended = True
    return error
