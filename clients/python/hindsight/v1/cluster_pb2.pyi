from hindsight._google import annotations_pb2 as _annotations_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from hindsight.v1 import access_pb2 as _access_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DrainServerRequest(_message.Message):
    __slots__ = ["group", "server"]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    group: int
    server: str
    def __init__(self, group: _Optional[int] = ..., server: _Optional[str] = ...) -> None: ...

class DrainServerResponse(_message.Message):
    __slots__ = ["group"]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: int
    def __init__(self, group: _Optional[int] = ...) -> None: ...

class GetClusterRequest(_message.Message):
    __slots__ = ["group"]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: int
    def __init__(self, group: _Optional[int] = ...) -> None: ...

class GetClusterResponse(_message.Message):
    __slots__ = ["group", "groups", "owner", "server", "servers"]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    group: int
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    owner: str
    server: str
    servers: _containers.RepeatedCompositeFieldContainer[Server]
    def __init__(self, group: _Optional[int] = ..., server: _Optional[str] = ..., owner: _Optional[str] = ..., servers: _Optional[_Iterable[_Union[Server, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ["age", "group", "owner", "servers"]
    AGE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    age: _duration_pb2.Duration
    group: int
    owner: str
    servers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[int] = ..., owner: _Optional[str] = ..., servers: _Optional[_Iterable[str]] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class MoveOwnerRequest(_message.Message):
    __slots__ = ["group", "server"]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    group: int
    server: str
    def __init__(self, group: _Optional[int] = ..., server: _Optional[str] = ...) -> None: ...

class MoveOwnerResponse(_message.Message):
    __slots__ = ["group"]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: int
    def __init__(self, group: _Optional[int] = ...) -> None: ...

class RebalanceClusterRequest(_message.Message):
    __slots__ = ["leaving"]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    leaving: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, leaving: _Optional[_Iterable[str]] = ...) -> None: ...

class RebalanceClusterResponse(_message.Message):
    __slots__ = ["left", "step"]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    left: int
    step: str
    def __init__(self, step: _Optional[str] = ..., left: _Optional[int] = ...) -> None: ...

class RemoveServerRequest(_message.Message):
    __slots__ = ["group", "server"]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    group: int
    server: str
    def __init__(self, group: _Optional[int] = ..., server: _Optional[str] = ...) -> None: ...

class RemoveServerResponse(_message.Message):
    __slots__ = ["group"]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: int
    def __init__(self, group: _Optional[int] = ...) -> None: ...

class Server(_message.Message):
    __slots__ = ["address", "age", "applied", "behind", "draining", "reachable", "server", "state", "version"]
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    APPLIED_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    REACHABLE_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_JOINING: Server.State
    STATE_OWNER: Server.State
    STATE_UNSPECIFIED: Server.State
    STATE_VOTER: Server.State
    VERSION_FIELD_NUMBER: _ClassVar[int]
    address: str
    age: _duration_pb2.Duration
    applied: int
    behind: int
    draining: bool
    reachable: bool
    server: str
    state: Server.State
    version: str
    def __init__(self, server: _Optional[str] = ..., address: _Optional[str] = ..., state: _Optional[_Union[Server.State, str]] = ..., reachable: bool = ..., applied: _Optional[int] = ..., behind: _Optional[int] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., version: _Optional[str] = ..., draining: bool = ...) -> None: ...
