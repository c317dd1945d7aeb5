"""Writes hindsight/messages.py: a frozen dataclass for every message that the client answers.

Its argument is a set of file descriptors with their comments. A field that is absent is
None there, where protobuf's own classes say 0.
"""

import keyword
import sys
import textwrap

from google.protobuf import descriptor_pb2

# The messages that the client answers. Those that they contain follow.
ROOTS = [
    "Prediction", "Outcome", "Model", "ModelStats", "ValidateSpecResponse", "Snapshot", "RestoreModelResponse",
    "GetModelHistoryResponse", "WatchModelResponse", "Comparison", "Alias",
]
# Names in Python.
NAMES = {
    "Model": "ModelInfo",
    "ValidateSpecResponse": "SpecCost",
    "RestoreModelResponse": "Restored",
    "GetModelHistoryResponse": "History",
    "WatchModelResponse": "Event",
}
SPEC = "hindsight.v1.ModelSpec"
# Messages that become plain values: their type and how they are read.
PLAIN = {
    SPEC: ("dict[str, Any]", "spec_dict({})"),
    "google.protobuf.Timestamp": ("datetime", "{}.ToDatetime(timezone.utc)"),
    "google.protobuf.Duration": ("timedelta", "{}.ToTimedelta()"),
}
F = descriptor_pb2.FieldDescriptorProto
FLOATS = {F.TYPE_DOUBLE, F.TYPE_FLOAT}
HEAD = '''"""What the client answers. Generated from the API by tools/messages.py: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Optional

from hindsight._values import enum_name, spec_dict
from hindsight.v1 import model_pb2, prediction_pb2
'''


class Messages:
    """The messages of the API, by name, with their comments."""

    def __init__(self, files):
        self.messages, self.comments, self.modules = {}, {}, {}
        for file in files:
            if file.package != "hindsight.v1":
                continue
            module = file.name.rsplit("/", 1)[1].replace(".proto", "_pb2")
            comments = {tuple(x.path): x.leading_comments.strip() for x in file.source_code_info.location}
            for n, message in enumerate(file.message_type):
                full = f"{file.package}.{message.name}"
                self.messages[full] = message
                self.modules[full] = module
                self.comments[full] = comments.get((4, n), "")
                for k, field in enumerate(message.field):
                    self.comments[f"{full}.{field.name}"] = comments.get((4, n, 2, k), "")
                for nested in message.nested_type:
                    self.messages[f"{full}.{nested.name}"] = nested

    def ordered(self, roots):
        """Every message that the roots contain, contained ones first."""
        done = {}

        def visit(full):
            if full in done:
                return
            for field in self.messages[full].field:
                name = field.type_name[1:]
                if field.type == F.TYPE_MESSAGE and name not in PLAIN and not self.is_map(field):
                    visit(name)
            done[full] = True

        for root in roots:
            visit("hindsight.v1." + root)
        return list(done)

    def is_map(self, field):
        message = self.messages.get(field.type_name[1:])
        return message is not None and message.options.map_entry

    def field(self, full, field):
        """The type, the default and the expression of a field."""
        source = f"m.{field.name}" if not keyword.iskeyword(field.name) else f'getattr(m, "{field.name}")'
        repeated = field.label == F.LABEL_REPEATED
        if self.is_map(field):
            value = self.messages[field.type_name[1:]].field[1]
            return f"dict[str, {self.scalar(value)}]", f"dict(sorted({source}.items()))"
        if field.type == F.TYPE_MESSAGE:
            kind, read = self.message(field.type_name[1:])
            if repeated:
                return f"tuple[{kind}, ...]", f"tuple({read.format('e')} for e in {source})"
            return f"Optional[{kind}]", f'{read.format(source)} if m.HasField("{field.name}") else None'
        if field.type == F.TYPE_ENUM:
            enum = field.type_name[1:].removeprefix("hindsight.v1.")
            return "str", f"enum_name({self.modules[full]}.{enum}, {source})"
        kind = self.scalar(field)
        if repeated:
            return f"tuple[{kind}, ...]", f"tuple({source})"
        if field.proto3_optional or field.HasField("oneof_index"):
            return f"Optional[{kind}]", f'{source} if m.HasField("{field.name}") else None'
        return kind, source

    def message(self, full):
        if full in PLAIN:
            return PLAIN[full]
        name = full.removeprefix("hindsight.v1.")
        name = NAMES.get(name, name)
        return name, f"{name}.of({{}})"

    @staticmethod
    def scalar(field):
        if field.type in FLOATS:
            return "float"
        return {F.TYPE_STRING: "str", F.TYPE_BOOL: "bool", F.TYPE_BYTES: "bytes"}.get(field.type, "int")


def write(messages, full):
    """The dataclass of a message."""
    name = full.removeprefix("hindsight.v1.")
    lines = ["@dataclass(frozen=True)", f"class {NAMES.get(name, name)}:"]
    comment = " ".join(messages.comments[full].split())
    if name in NAMES:
        comment = comment.replace(f"{name} ", f"{NAMES[name]} ", 1)
    lines += textwrap.wrap(f'"""{comment}"""', 100, initial_indent="    ", subsequent_indent="    ") + [""]
    arguments = []
    for field in messages.messages[full].field:
        kind, read = messages.field(full, field)
        attribute = field.name + "_" * keyword.iskeyword(field.name)
        lines += textwrap.wrap(
            " ".join(messages.comments[f"{full}.{field.name}"].split()), 98, initial_indent="    #: ", subsequent_indent="    #: ",
        )
        lines.append(f"    {attribute}: {kind}")
        arguments.append(f"            {attribute}={read},")
    lines += [
        "", "    @classmethod", f"    def of(cls, m: {messages.modules[full]}.{name}) -> {NAMES.get(name, name)}:",
        '        """Reads the message of the API."""', "        return cls(", *arguments, "        )",
    ]
    return "\n".join(lines)


def main():
    with open(sys.argv[1], "rb") as f:
        messages = Messages(descriptor_pb2.FileDescriptorSet.FromString(f.read()).file)
    parts = [HEAD] + [write(messages, full) + "\n" for full in messages.ordered(ROOTS)]
    sys.stdout.write("\n\n".join(parts))


main()
