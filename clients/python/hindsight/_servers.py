"""The servers that a connection may call."""

from __future__ import annotations

from typing import Any, NamedTuple

from hindsight import _fork, errors
from hindsight.v1 import cluster_pb2_grpc, model_pb2_grpc, prediction_pb2_grpc

#: The names whose groups are remembered.
_MAX_NAMES = 1 << 16


class Place(NamedTuple):
    """Where a call is sent."""

    #: The part of the model's name that chooses the group.
    name: str
    #: The group, empty if it is unknown.
    group: str
    #: The number of the server.
    at: int


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
        self._process = _fork.process()
        self.channels = channels
        self._stubs: list[dict[str, Any]] = [{name: stub(c) for name, stub in stubs.items()} for c in channels]
        #: The group of each name.
        self._groups: dict[str, str] = {}
        #: The number of the server that calls of a group use.
        self._current: dict[str, int] = {}

    def place(self, model: Any = "") -> Place:
        """Where the calls of a model are sent."""
        name = model.partition(".")[0] if isinstance(model, str) else ""
        group = self._groups.get(name, "")
        return Place(name, group, self._current.get(group, 0))

    def forwarded(self, place: Place, metadata: Any) -> None:
        """Takes the metadata of an answer, which say whether the server has forwarded the call."""
        groups = [value for key, value in metadata or () if key == "hindsight-forwarded"]
        if not groups or not place.name or len(self.channels) == 1:
            return
        if len(self._groups) >= _MAX_NAMES:
            self._groups.clear()
        self._groups[place.name] = groups[0]
        self._next(groups[0], place.at)

    def _next(self, group: str, at: int) -> None:
        """Makes calls of a group use the server after a server, unless another call has done so."""
        if self._current.get(group, at) == at:
            self._current[group] = (at + 1) % len(self.channels)

    def stub(self, at: int, service: str) -> Any:
        """The stub of a service of a server."""
        self.check()
        return self._stubs[at][service]

    def check(self) -> None:
        """Raises Unreachable in a fork of the process that connected."""
        _fork.check(self._process)

    def share(self, seconds: float) -> float:
        """The time of one try: one server that does not answer leaves time for the others."""
        return seconds / len(self.channels)

    def failed(self, place: Place, error: errors.HindsightError) -> bool:
        """Takes the failure of a server. Reports whether another server may answer."""
        if len(self.channels) == 1 or not isinstance(error, (errors.Unavailable, errors.DeadlineExceeded)):
            return False
        if isinstance(error, errors.DeadlineExceeded):
            error.retry_after = 0.0  # That was the share of one server.
        self._next(place.group, place.at)
        return True

    @staticmethod
    def sent(error: errors.HindsightError) -> bool:
        """Reports whether a call that failed may have reached its server."""
        return not isinstance(error, errors.Unreachable) or "failed to connect" not in error.message.lower()


def split(address: str) -> list[str]:
    """The addresses between commas. A target of gRPC with a scheme may contain commas."""
    if address.startswith(("ipv4:", "ipv6:")):
        return [address]
    return address.split(",")
