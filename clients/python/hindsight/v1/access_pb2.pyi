from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Optional as _Optional, Union as _Union

ACCESS_FIELD_NUMBER: _ClassVar[int]
DESCRIPTOR: _descriptor.FileDescriptor
access: _descriptor.FieldDescriptor

class Access(_message.Message):
    __slots__ = ["audit", "every_model", "models", "omits", "role", "unremembered"]
    class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    AUDIT_FIELD_NUMBER: _ClassVar[int]
    EVERY_MODEL_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    OMITS_FIELD_NUMBER: _ClassVar[int]
    ROLE_ADMIN: Access.Role
    ROLE_FIELD_NUMBER: _ClassVar[int]
    ROLE_READ: Access.Role
    ROLE_UNSPECIFIED: Access.Role
    ROLE_WRITE: Access.Role
    UNREMEMBERED_FIELD_NUMBER: _ClassVar[int]
    audit: bool
    every_model: bool
    models: _containers.RepeatedScalarFieldContainer[str]
    omits: str
    role: Access.Role
    unremembered: Access.Role
    def __init__(self, role: _Optional[_Union[Access.Role, str]] = ..., unremembered: _Optional[_Union[Access.Role, str]] = ..., models: _Optional[_Iterable[str]] = ..., audit: bool = ..., omits: _Optional[str] = ..., every_model: bool = ...) -> None: ...
