"""The addresses and the options of channels."""

from __future__ import annotations

import re
from typing import Any, Optional

from hindsight._security import is_local

DEFAULT_ADDRESS = "localhost:50051"
DEFAULT_PORT = 50051
#: The deadline of a call in seconds, all its tries together.
DEFAULT_TIMEOUT = 10.0
#: The server closes connections that ping more often than every ten seconds.
MIN_KEEPALIVE = 10.0


def target(address: str) -> str:
    """The address, with the default port if it has none."""
    address = address.strip()
    if not address:
        raise ValueError(f"the address is empty; the default is {DEFAULT_ADDRESS}")
    if "://" in address:
        scheme, rest = address.split("://", 1)
        raise ValueError(f"the address {address!r} is a URL; write {rest.rstrip('/') or DEFAULT_ADDRESS!r} without {scheme}://")
    if re.match(r"^(unix|dns|ipv4|ipv6|xds|unix-abstract):", address):
        return address
    if address.startswith("["):  # An address of IPv6.
        return address if "]:" in address else f"{address}:{DEFAULT_PORT}"
    if address.count(":") > 1:
        return f"[{address}]:{DEFAULT_PORT}"
    return address if ":" in address else f"{address}:{DEFAULT_PORT}"


def options(address: str, keepalive: Optional[float], more: Optional[dict[str, Any]]) -> list[tuple[str, Any]]:
    """The options of a channel. The client retries, not gRPC, because the client knows the ids."""
    out: dict[str, Any] = {
        "grpc.max_receive_message_length": -1,
        "grpc.max_send_message_length": -1,
        "grpc.initial_reconnect_backoff_ms": 100,
        "grpc.min_reconnect_backoff_ms": 1000,
        "grpc.max_reconnect_backoff_ms": 2000,
    }
    if is_local(address):
        out["grpc.enable_http_proxy"] = 0  # No proxy reaches this machine's loopback.
    if keepalive is not None:
        if keepalive < MIN_KEEPALIVE:
            raise ValueError(f"keepalive is {keepalive} s; the server allows {MIN_KEEPALIVE} s and more")
        out |= {
            "grpc.keepalive_time_ms": int(keepalive * 1000),
            "grpc.keepalive_timeout_ms": 10000,
            "grpc.http2.max_pings_without_data": 0,
        }
    return list((out | (more or {})).items())
