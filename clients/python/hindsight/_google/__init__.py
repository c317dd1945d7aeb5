"""Registers the files of google that the API imports.

protobuf knows every file by its name, once a process. So the file that somebody has
registered is taken, then that of the package googleapis-common-protos if it is
installed, and the copy in this package otherwise.
"""

import importlib

from google.protobuf import descriptor_pool


def _register(file: str, installed: str, bundled: str) -> None:
    try:
        descriptor_pool.Default().FindFileByName(file)
        return
    except KeyError:
        pass
    try:
        importlib.import_module(installed)
    except ImportError:
        importlib.import_module(bundled)


_register("google/api/http.proto", "google.api.http_pb2", "hindsight._google.http_pb2")
_register("google/api/annotations.proto", "google.api.annotations_pb2", "hindsight._google.annotations_pb2")
