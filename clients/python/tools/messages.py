"""Writes hindsight/messages: a frozen dataclass for every message that the client answers.

Its arguments are a set of file descriptors with their comments, and the directory to write
to. An absent field is None; protobuf's classes say 0.
"""

import keyword
import pathlib
import re
import sys
import textwrap

from google.protobuf import descriptor_pb2

# The messages that the client answers, by module. What they contain is in the module of the
# first of them that contains it. A module imports earlier ones alone.
MODULES = {
    "predictions": ["Prediction", "Outcome"],
    "performance": ["Comparison"],
    "models": ["Model", "ValidateSpecResponse", "Learner", "Snapshot", "RestoreModelResponse", "Alias"],
    "stats": ["ModelStats"],
    "history": ["GetModelHistoryResponse", "WatchModelResponse"],
    "cluster": ["GetClusterResponse"],
}
# Names in Python.
NAMES = {
    "Model": "ModelInfo",
    "ValidateSpecResponse": "SpecCost",
    "RestoreModelResponse": "Restored",
    "GetModelHistoryResponse": "History",
    "WatchModelResponse": "Event",
    "GetClusterResponse": "Cluster",
}
# What the client adds to a message: the name, the type, and the comment.
ADDED = {
    "Prediction": ("age", "Optional[timedelta]", "In a cluster, how old the state that answered is at most. Absent where the owner answered."),
}
# What shows a message in a notebook, a class of hindsight._shown.
SHOWN = {"Prediction": "ShownPrediction", "ModelStats": "ShownStats", "GetModelHistoryResponse": "ShownHistory"}
SPEC = "hindsight.v1.ModelSpec"
# Messages that become plain values: their type and how they are read.
PLAIN = {
    SPEC: ("dict[str, Any]", "spec_dict({})"),
    "google.protobuf.Struct": ("dict[str, Any]", "MessageToDict({})"),
    "google.protobuf.Timestamp": ("datetime", "{}.ToDatetime(timezone.utc)"),
    "google.protobuf.Duration": ("timedelta", "{}.ToTimedelta()"),
}
# The figures that do not say in their names of which predictions they are. The repr says it.
KINDS = {
    "Outcome": {
        "prediction": "prequential", "loss": "prequential", "regret": "prequential", "predictions": "prequential",
        "recent_loss": "served", "recent_skill": "served", "class_": "prequential",
    },
    "ModelStats": {
        "loss_sum": "prequential", "mean_loss": "prequential", "regret": "prequential", "regret_unpenalized": "prequential",
    },
    "ModelSummary": {"regret": "prequential"},
    "HistoryPoint": {"regret": "prequential"},
    "Drift": {"loss_before": "served", "loss_after": "served"},
}
F = descriptor_pb2.FieldDescriptorProto
FLOATS = {F.TYPE_DOUBLE, F.TYPE_FLOAT}
GENERATED = "Generated from the API by tools/messages.py: do not edit."


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

    def ordered(self, roots, done):
        """Every message that the roots contain and that is not done yet, contained ones first."""
        before = len(done)

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
        return list(done)[before:]

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
        name = class_name(full)
        return name, f"{name}.of({{}})"

    @staticmethod
    def scalar(field):
        if field.type in FLOATS:
            return "float"
        return {F.TYPE_STRING: "str", F.TYPE_BOOL: "bool", F.TYPE_BYTES: "bytes"}.get(field.type, "int")


def class_name(full):
    """The name of a message's dataclass."""
    name = full.removeprefix("hindsight.v1.")
    return NAMES.get(name, name)


def write(messages, full):
    """The dataclass of a message."""
    name = full.removeprefix("hindsight.v1.")
    base = f"({SHOWN[name]})" if name in SHOWN else ""
    lines = ["@dataclass(frozen=True)", f"class {class_name(full)}{base}:"]
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
    if added := ADDED.get(name):
        attribute, kind, comment = added
        lines += textwrap.wrap(comment, 98, initial_indent="    #: ", subsequent_indent="    #: ")
        lines.append(f"    {attribute}: {kind} = None")
    if kinds := KINDS.get(name):
        said = ", ".join(f'"{field}": "{kind}"' for field, kind in kinds.items())
        lines += ["", "    def __repr__(self) -> str:", "        return described(", "            self,"]
        lines += textwrap.wrap(f"{{{said}}},", 98, initial_indent="            ", subsequent_indent="             ") + ["        )"]
    lines += [
        "", "    @classmethod", f"    def of(cls, m: {messages.modules[full]}.{name}) -> {NAMES.get(name, name)}:",
        '        """Reads the message of the API."""', "        return cls(", *arguments, "        )",
    ]
    return "\n".join(lines)


def imports(text, modules):
    """The imports of a module: of the names that its text has outside comments."""
    code = re.sub(r'"""[^"]*"""|#:.*', "", text)

    def used(names):
        return [name for name in names if re.search(rf"\b{name}\b", code)]

    groups = [["from __future__ import annotations"], ["from dataclasses import dataclass"], []]
    for source, names in (("datetime", ["datetime", "timedelta", "timezone"]), ("typing", ["Any", "Optional"])):
        if found := used(names):
            groups[1].append(f"from {source} import {', '.join(found)}")
    sources = {"google.protobuf.json_format": ["MessageToDict"], "hindsight._shown": list(SHOWN.values()), "hindsight._values": ["described", "enum_name", "spec_dict"], **modules, "hindsight.v1": ["cluster_pb2", "model_pb2", "prediction_pb2"]}
    for source in sorted(sources):
        if found := used(sorted(sources[source])):
            groups[2].append(f"from {source} import {', '.join(found)}")
    return "\n\n".join("\n".join(group) for group in groups) + "\n"


def main():
    descriptors, out = sys.argv[1], pathlib.Path(sys.argv[2])
    messages = Messages(descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(descriptors).read_bytes()).file)
    done, modules = {}, {}
    for module, roots in MODULES.items():
        written = messages.ordered(roots, done)
        text = "\n\n".join(write(messages, full) + "\n" for full in written)
        head = f'"""What the client answers: {module}. {GENERATED}"""\n\n'
        out.joinpath(module + ".py").write_text(head + imports(text, modules) + "\n\n" + text)
        modules[f"hindsight.messages.{module}"] = [class_name(full) for full in written]
    lines = [f'"""What the client answers. {GENERATED}"""', ""]
    for module in sorted(modules):
        lines += [f"from {module} import (", *(f"    {name}," for name in sorted(modules[module])), ")"]
    names = ", ".join(f'"{name}"' for name in sorted(sum(modules.values(), [])))
    lines += ["", "__all__ = [", *textwrap.wrap(names + ",", 110, initial_indent="    ", subsequent_indent="    "), "]", ""]
    out.joinpath("__init__.py").write_text("\n".join(lines))


main()
