"""The servers that a connection may call."""

from __future__ import annotations

from typing import Any

from hindsight import errors
from hindsight.v1 import cluster_pb2_grpc, model_pb2_grpc, prediction_pb2_grpc


#: The names whose groups are remembered.
_MOST_NAMES = 1 << 16


class Servers:
    """One server, or the servers of a cluster.

    After a failure, and after a call that a server had to forward to the owner of a group, calls of
    the group go to the next server. So they find the owner.
    """

    def __init__(self, channels: list[Any]) -> None:
        stubs: dict[str, Any] = {
            "PredictionService": prediction_pb2_grpc.PredictionServiceStub, "ModelService": model_pb2_grpc.ModelServiceStub,
            "ClusterService": cluster_pb2_grpc.ClusterServiceStub,
        }
        self.channels = channels
        self._stubs: list[dict[str, Any]] = [{name: stub(c) for name, stub in stubs.items()} for c in channels]
        #: The group of each name, which the part before the first "." chooses.
        self._groups: dict[str, str] = {}
        #: The number of the server that calls of a group use. Group "" has the calls whose group is unknown.
        self._current = {"": 0}

    def group(self, request: Any) -> str:
        """The group of a request, empty if it is unknown."""
        model = getattr(request, "model", "")
        return self._groups.get(_name(model), "") if isinstance(model, str) else ""

    def current(self, group: str = "") -> int:
        """The number of the server that calls of a group use."""
        return self._current.get(group, 0)

    def answered(self, at: int, request: Any, trailers: Any) -> None:
        """Takes the trailers of a server."""
        groups = [value for key, value in trailers or () if key == "hindsight-forwarded"]
        if not groups or len(self.channels) == 1 or not isinstance(model := getattr(request, "model", ""), str):
            return
        if len(self._groups) >= _MOST_NAMES:
            self._groups.clear()
        self._groups[_name(model)] = groups[0]
        if self._current.get(groups[0], at) == at:
            self._current[groups[0]] = (at + 1) % len(self.channels)

    def stub(self, at: int, service: str) -> Any:
        """The stub of a service of a server."""
        return self._stubs[at][service]

    def share(self, seconds: float) -> float:
        """The time of one try: one server that does not answer leaves time for the others."""
        return seconds / len(self.channels)

    def failed(self, at: int, error: errors.HindsightError, group: str = "") -> bool:
        """Takes the failure of a call of a group at a server. Tells whether another server may answer."""
        if len(self.channels) == 1 or not isinstance(error, (errors.Unavailable, errors.DeadlineExceeded)):
            return False
        if isinstance(error, errors.DeadlineExceeded):
            error.retry_after = 0.0  # That was the share of one server.
        if self.current(group) == at:
            self._current[group] = (at + 1) % len(self.channels)
        return True

    @staticmethod
    def sent(error: errors.HindsightError) -> bool:
        """Tells whether a call that failed may have reached its server."""
        return not isinstance(error, errors.Unreachable) or "failed to connect" not in error.message.lower()


def _name(model: str) -> str:
    return model.partition(".")[0]


def split(address: str) -> list[str]:
    """The addresses between commas. Targets of gRPC with a scheme may have commas of their own."""
    if address.startswith(("ipv4:", "ipv6:")):
        return [address]
    return address.split(",")
