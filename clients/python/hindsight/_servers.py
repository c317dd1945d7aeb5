"""The servers that a connection may call."""

from __future__ import annotations

from typing import Any

from hindsight import errors
from hindsight.v1 import cluster_pb2_grpc, model_pb2_grpc, prediction_pb2_grpc


class Servers:
    """One server, or the servers of a cluster: after a failure, calls go to the next one."""

    def __init__(self, channels: list[Any]) -> None:
        stubs: dict[str, Any] = {
            "PredictionService": prediction_pb2_grpc.PredictionServiceStub, "ModelService": model_pb2_grpc.ModelServiceStub,
            "ClusterService": cluster_pb2_grpc.ClusterServiceStub,
        }
        self.channels = channels
        self._stubs: list[dict[str, Any]] = [{name: stub(c) for name, stub in stubs.items()} for c in channels]
        #: The number of the server that is called.
        self.current = 0

    def stub(self, at: int, service: str) -> Any:
        """The stub of a service of a server."""
        return self._stubs[at][service]

    def share(self, seconds: float) -> float:
        """The time of one try: one server that does not answer leaves time for the others."""
        return seconds / len(self.channels)

    def failed(self, at: int, error: errors.HindsightError) -> bool:
        """Takes the failure of a server. Tells whether another server may answer."""
        if len(self.channels) == 1 or not isinstance(error, (errors.Unavailable, errors.DeadlineExceeded)):
            return False
        if isinstance(error, errors.DeadlineExceeded):
            error.retry_after = 0.0  # That was the share of one server.
        if self.current == at:
            self.current = (at + 1) % len(self.channels)
        return True

    @staticmethod
    def sent(error: errors.HindsightError) -> bool:
        """Tells whether a call that failed may have reached its server."""
        return not isinstance(error, errors.Unreachable) or "failed to connect" not in error.message.lower()


def split(address: str) -> list[str]:
    """The addresses between commas. Targets of gRPC with a scheme may have commas of their own."""
    if address.startswith(("ipv4:", "ipv6:")):
        return [address]
    return address.split(",")
