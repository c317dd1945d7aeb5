#!/usr/bin/env bash
# Generates the stubs and hindsight/messages below the directory that is given.
# It needs protoc 3.21, grpc_python_plugin and the protobuf package of PYTHON. Stubs of
# protoc 3.21 run on protobuf 4.21 and all later ones; those of a later protoc do not run
# on an earlier protobuf, so the version is fixed.
set -euo pipefail
out=${1:?directory}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
api=$here/../../api/proto
third_party=$here/../../third_party/googleapis
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

protoc -I "$api" -I "$third_party" -I "$here/proto" \
	--python_out="$work" --pyi_out="$work" --grpc_python_out="$work" \
	--plugin=protoc-gen-grpc_python="$(command -v grpc_python_plugin)" \
	--include_source_info --include_imports --descriptor_set_out="$work/api.binpb" \
	hindsight/v1/{access,spec,error,model,prediction,cluster}.proto hindsight/client/details.proto \
	google/api/{http,annotations}.proto

# The files of google are those that are registered already, see hindsight/_google. In
# the .py an import has no other purpose than to register; the .pyi wants the types.
sed -i -E 's/^from google\.api import .*$/import hindsight._google/' "$work"/*/*/*_pb2.py
sed -i -E 's/^from google\.api import/from hindsight._google import/' "$work"/*/*/*.pyi

mkdir -p "$out/hindsight/v1" "$out/hindsight/_google" "$out/hindsight/_client" "$out/hindsight/messages"
cp "$work"/hindsight/v1/{model,prediction,cluster}_pb2{.py,.pyi,_grpc.py} "$work"/hindsight/v1/{access,spec,error}_pb2.py{,i} "$out/hindsight/v1/"
cp "$work"/google/api/*_pb2.py{,i} "$out/hindsight/_google/"
sed 's/hindsight\.client\.details_pb2/hindsight._client.details_pb2/' "$work/hindsight/client/details_pb2.py" >"$out/hindsight/_client/details_pb2.py"
cp "$work/hindsight/client/details_pb2.pyi" "$out/hindsight/_client/"
"${PYTHON:-python3}" "$here/tools/messages.py" "$work/api.binpb" "$out/hindsight/messages"
