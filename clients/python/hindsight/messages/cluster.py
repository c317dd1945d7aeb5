"""What the client answers: cluster. Generated from the API by tools/messages.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Optional

from hindsight._values import enum_name
from hindsight.v1 import cluster_pb2


@dataclass(frozen=True)
class Server:
    """Server is a member of the cluster."""

    #: The id of the server. The data directory has it.
    server: str
    #: The address that the other servers connect to.
    address: str
    #: The state of the server in the cluster.
    state: str
    #: The server has answered the server that answers this call. If false, the next four fields
    #: are absent.
    reachable: bool
    #: The newest entry of the log that the server has applied.
    applied: Optional[int]
    #: The number of entries that the server lags behind the most advanced server.
    behind: Optional[int]
    #: A bound of the age of the server's state. Absent also while the server knows no owner.
    age: Optional[timedelta]
    #: The version of the server's program.
    version: str
    #: The server is being drained, and hands ownership on.
    draining: bool

    @classmethod
    def of(cls, m: cluster_pb2.Server) -> Server:
        """Reads the message of the API."""
        return cls(
            server=m.server,
            address=m.address,
            state=enum_name(cluster_pb2.Server.State, m.state),
            reachable=m.reachable,
            applied=m.applied if m.HasField("applied") else None,
            behind=m.behind if m.HasField("behind") else None,
            age=m.age.ToTimedelta() if m.HasField("age") else None,
            version=m.version,
            draining=m.draining,
        )


@dataclass(frozen=True)
class Group:
    """Group is a group of models."""

    #: The number of the group.
    group: int
    #: The address of the owner. Empty while the answering server knows no owner.
    owner: str
    #: The addresses of the servers that have the group, as the answering server knows them.
    servers: tuple[str, ...]
    #: A bound of the age of the group's state on the answering server. Absent if the answering
    #: server does not have the group, or knows no owner.
    age: Optional[timedelta]

    @classmethod
    def of(cls, m: cluster_pb2.Group) -> Group:
        """Reads the message of the API."""
        return cls(
            group=m.group,
            owner=m.owner,
            servers=tuple(m.servers),
            age=m.age.ToTimedelta() if m.HasField("age") else None,
        )


@dataclass(frozen=True)
class Cluster:
    """Cluster answers GetCluster."""

    #: The number of the group.
    group: int
    #: The id of the answering server. Empty without a cluster. A server has another id in each
    #: group.
    server: str
    #: The id of the owner. Empty while the answering server knows no owner.
    owner: str
    #: The servers of the group, by address.
    servers: tuple[Server, ...]
    #: The groups with models, by number. Only for group 0 of a cluster of several groups.
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, m: cluster_pb2.GetClusterResponse) -> Cluster:
        """Reads the message of the API."""
        return cls(
            group=m.group,
            server=m.server,
            owner=m.owner,
            servers=tuple(Server.of(e) for e in m.servers),
            groups=tuple(Group.of(e) for e in m.groups),
        )
