"""The calls of the API: their requests, and how their answers are read.

A Call is made once and may be sent several times. Every try has the same ids.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import IO, Any, Generic, Optional, TypeVar, Union

from hindsight import messages
from hindsight._values import Input, Label, Span, Spec, duration, features, inputs, reject_frame, set_label, spec, text_id, timestamp
from hindsight.v1 import cluster_pb2, model_pb2, prediction_pb2, spec_pb2

T = TypeVar("T")
#: The bytes of an import in one message.
_CHUNK = 1 << 20


class Unchanged:
    """Stands for a value that update does not change."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED = Unchanged()


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call."""

    #: PredictionService, ModelService or ClusterService.
    service: str
    #: The method.
    method: str
    #: The request.
    request: Any
    #: Reads the response.
    read: Callable[[Any], T]
    #: The call may be sent again.
    again: bool = True
    #: The reason of a further try that says that an earlier try has succeeded.
    done: str = ""
    #: Adds the age of the state that answered, where the answer has a place for the age.
    aged: Callable[[T, timedelta], T] = lambda answer, age: answer

    def answer(self, response: Any, trailers: Any) -> T:
        """Reads the response and the trailers of the server."""
        ages = [value for key, value in trailers or () if key == "hindsight-age-ms"]
        answer = self.read(response)
        return self.aged(answer, timedelta(milliseconds=int(ages[0]))) if ages else answer


def _predictions(method: str, request: Any, read: Callable[[Any], T]) -> Call[T]:
    return Call("PredictionService", method, request, read)


def _cluster(method: str, request: Any, read: Callable[[Any], T], again: bool = True) -> Call[T]:
    return Call("ClusterService", method, request, read, again)


def _models(method: str, request: Any, read: Callable[[Any], T], again: bool = True, done: str = "") -> Call[T]:
    return Call("ModelService", method, request, read, again, done)


def new_id() -> str:
    """A random id."""
    return uuid.uuid4().hex


# The data path.


def predict_request(
    model: str, x: Input, id: Optional[str], label_ttl: Optional[Span], remember: bool, explain: bool = False
) -> prediction_pb2.PredictRequest:
    """The request of predict. A prediction that is remembered has an id."""
    r = prediction_pb2.PredictRequest(model=model, explain=explain)
    if isinstance(x, Mapping):
        r.inputs.CopyFrom(inputs(x))
    else:
        r.features.extend(features(x))
    if remember:
        r.prediction_id = text_id(id) if id is not None and id != "" else new_id()
        if label_ttl is not None:
            r.label_ttl.CopyFrom(duration(label_ttl))
    else:
        r.remember = False
    return r


def observe_request(
    model: str, x: Any, label: Label, weight: Optional[float], id: Optional[str]
) -> prediction_pb2.ObserveRequest:
    """The request of observe. An input has the given id, or a new one."""
    r = prediction_pb2.ObserveRequest(model=model)
    if isinstance(x, messages.Prediction):
        if not x.prediction_id:
            raise ValueError("the prediction was made with remember=False: observe its input")
        x = x.prediction_id
    if isinstance(x, str):
        if id is not None:
            raise ValueError("a prediction has an id already: leave out id")
        if not x:
            raise ValueError("the id of the prediction is empty")
        r.prediction_id = x
    else:
        if isinstance(x, Mapping):
            r.inputs.CopyFrom(inputs(x))
        else:
            r.features.extend(features(x))
        r.observation_id = text_id(id) if id is not None and id != "" else new_id()
    set_label(r, label)
    if weight is not None:
        r.weight = weight
    return r


def predict(
    model: str, x: Input, id: Optional[str], label_ttl: Optional[Span], remember: bool, explain: bool = False,
    min_sequence: int = 0, max_staleness: Optional[Span] = None, horizon: int = 0,
) -> Call[messages.Prediction]:
    request = predict_request(model, x, id, label_ttl, remember, explain)
    request.horizon = horizon
    _fresh(request, min_sequence, max_staleness)
    return Call(
        "PredictionService", "Predict", request, lambda r: messages.Prediction.of(r.prediction),
        aged=lambda p, age: replace(p, age=age),
    )


def _fresh(request: Any, min_sequence: int, max_staleness: Optional[Span]) -> None:
    """Bounds what the state of the answering server may lack."""
    request.min_sequence = min_sequence
    if max_staleness is not None:
        request.max_staleness.CopyFrom(duration(max_staleness))


def predict_batch(
    model: str, rows: Iterable[Input], ids: Optional[Sequence[str]], label_ttl: Optional[Span], remember: bool,
    min_sequence: int = 0, max_staleness: Optional[Span] = None, horizon: int = 0, alternatives: bool = False,
) -> Call[list[messages.Prediction]]:
    reject_frame(rows, "predict_frame takes")
    r = prediction_pb2.PredictBatchRequest(model=model)
    for row in rows:
        if isinstance(row, Mapping):
            r.inputs.append(inputs(row))
        else:
            r.rows.append(spec_pb2.Row(features=features(row)))
    count = len(r.inputs) + len(r.rows)
    if r.inputs and r.rows:
        raise TypeError("the rows of a batch are all mappings or all lists of numbers")
    if remember:
        r.prediction_ids.extend(map(text_id, ids) if ids is not None else (new_id() for _ in range(count)))
        if label_ttl is not None:
            r.label_ttl.CopyFrom(duration(label_ttl))
    else:
        r.remember = False
    r.horizon, r.alternatives = horizon, alternatives
    _fresh(r, min_sequence, max_staleness)
    return Call(
        "PredictionService", "PredictBatch", r, lambda a: [messages.Prediction.of(p) for p in a.predictions],
        aged=lambda predictions, age: [replace(p, age=age) for p in predictions],
    )


def observe(model: str, x: Any, label: Label, weight: Optional[float], id: Optional[str]) -> Call[messages.Outcome]:
    return _predictions("Observe", observe_request(model, x, label, weight, id), lambda r: messages.Outcome.of(r.outcome))


def observe_batch(
    model: str,
    rows: Iterable[Any],
    labels: Iterable[Label],
    weights: Optional[Iterable[float]],
    ids: Optional[Iterable[str]],
) -> Call[list[messages.Outcome]]:
    reject_frame(rows, "learn_frame takes")
    rows = list(rows)
    label_of = _column("labels", labels, len(rows))
    weight_of, id_of = _column("weights", weights, len(rows)), _column("ids", ids, len(rows))
    r = prediction_pb2.ObserveBatchRequest(model=model)
    for n, row in enumerate(rows):
        r.observations.append(observe_request("", row, label_of[n], weight_of[n], id_of[n]))
    return _predictions("ObserveBatch", r, lambda a: [messages.Outcome.of(o) for o in a.outcomes])


def _column(name: str, values: Optional[Iterable[Any]], rows: int) -> list[Any]:
    """A value for each row, None if there are no values."""
    column = [None] * rows if values is None else list(values)
    if len(column) != rows:
        raise ValueError(f"{rows} rows and {len(column)} {name}")
    return column


# The control path.


def create(
    id: str,
    given: Spec,
    display_name: str,
    labels: Optional[Mapping[str, str]],
    annotations: Optional[Mapping[str, str]],
    label_ttl: Optional[Span],
    max_pending_labels: Optional[int],
    follows: str,
    validate_only: bool,
) -> Call[messages.ModelInfo]:
    r = model_pb2.CreateModelRequest(
        id=id, spec=spec(given), display_name=display_name, labels=labels, annotations=annotations,
        max_pending_labels=max_pending_labels, follows=follows, validate_only=validate_only,
    )
    if label_ttl is not None:
        r.label_ttl.CopyFrom(duration(label_ttl))
    return _models("CreateModel", r, lambda a: messages.ModelInfo.of(a.model))


def get(model: str) -> Call[messages.ModelInfo]:
    return _models("GetModel", model_pb2.GetModelRequest(model=model), lambda a: messages.ModelInfo.of(a.model))


def _same(a: model_pb2.ListModelsResponse) -> model_pb2.ListModelsResponse:
    return a


def list_page(request: model_pb2.ListModelsRequest) -> Call[model_pb2.ListModelsResponse]:
    return _models("ListModels", request, _same)


def update(model: str, etag: str, validate_only: bool, **fields: Any) -> Call[messages.ModelInfo]:
    r = model_pb2.UpdateModelRequest(validate_only=validate_only)
    r.model.id, r.model.etag = model, etag
    for name, value in fields.items():
        if value is UNCHANGED:
            continue
        r.update_mask.paths.append(name)
        if value is None:
            continue
        if name == "label_ttl":
            r.model.label_ttl.CopyFrom(duration(value))
        elif isinstance(value, Mapping):
            getattr(r.model, name).update(value)
        else:
            setattr(r.model, name, value)
    # With an etag, a further try would fail if only the answer of the first was lost.
    return _models("UpdateModel", r, lambda a: messages.ModelInfo.of(a.model), again=not etag)


def delete(model: str, etag: str, purge: bool, validate_only: bool) -> Call[Optional[messages.ModelInfo]]:
    r = model_pb2.DeleteModelRequest(model=model, etag=etag, purge=purge, validate_only=validate_only)

    def read(a: Any) -> Optional[messages.ModelInfo]:
        return messages.ModelInfo.of(a.model) if a is not None and a.HasField("model") else None

    return _models("DeleteModel", r, read, done="MODEL_NOT_FOUND")


def undelete(model: str) -> Call[messages.ModelInfo]:
    r = model_pb2.UndeleteModelRequest(model=model)
    return _models("UndeleteModel", r, lambda a: messages.ModelInfo.of(a.model), again=False)


def stats(
    model: str, effective_dimension: bool, hindsight_path: bool, importances: bool, regret_rkhs: bool,
    recent_regret: bool,
) -> Call[messages.ModelStats]:
    r = model_pb2.GetModelStatsRequest(
        model=model, include_effective_dimension=effective_dimension, include_hindsight_path=hindsight_path,
        include_importances=importances, include_regret_rkhs=regret_rkhs,
        include_recent_regret=recent_regret,
    )
    return _models("GetModelStats", r, lambda a: messages.ModelStats.of(a.stats))


def history(model: str) -> Call[messages.History]:
    return _models("GetModelHistory", model_pb2.GetModelHistoryRequest(model=model), messages.History.of)


def compare(model: str) -> Call[list[messages.Comparison]]:
    r = model_pb2.CompareModelsRequest(model=model)
    return _models("CompareModels", r, lambda a: [messages.Comparison.of(c) for c in a.comparisons])


def watch(model: str, max_outcomes: Optional[float], stats_interval: Optional[Span], include_inputs: bool) -> Call[messages.Event]:
    r = model_pb2.WatchModelRequest(model=model, max_outcomes_per_second=max_outcomes or 0.0, include_inputs=include_inputs)
    if stats_interval is not None:
        r.stats_interval.CopyFrom(duration(stats_interval))
    return _models("WatchModel", r, messages.Event.of, again=False)


def validate(given: Spec) -> Call[messages.SpecCost]:
    return _models("ValidateSpec", model_pb2.ValidateSpecRequest(spec=spec(given)), messages.SpecCost.of)


def infer(request: model_pb2.InferSpecRequest, read: Callable[[Any], dict[str, Any]]) -> Call[dict[str, Any]]:
    return _models("InferSpec", request, read)


def learners() -> Call[list[messages.Learner]]:
    return _models("ListLearners", model_pb2.ListLearnersRequest(), lambda a: [messages.Learner.of(x) for x in a.learners])


def snapshot(model: str) -> Call[messages.Snapshot]:
    r = model_pb2.SnapshotModelRequest(model=model)
    return _models("SnapshotModel", r, lambda a: messages.Snapshot.of(a.snapshot))


def snapshots(model: str) -> Call[list[messages.Snapshot]]:
    r = model_pb2.ListSnapshotsRequest(model=model)
    return _models("ListSnapshots", r, lambda a: [messages.Snapshot.of(s) for s in a.snapshots])


def restore(model: str, sequence: Optional[int], time: Optional[datetime], validate_only: bool) -> Call[messages.Restored]:
    if (sequence is None) == (time is None):
        raise TypeError("restore takes a sequence or a time, and not both")
    r = model_pb2.RestoreModelRequest(
        model=model, sequence=sequence, time=None if time is None else timestamp(time), validate_only=validate_only,
    )
    # A second try could undo what was learned after the first.
    return _models("RestoreModel", r, messages.Restored.of, again=validate_only)


def export(model: str, without_ids: bool) -> Call[bytes]:
    r = model_pb2.ExportModelRequest(model=model, without_ids=without_ids)
    return _models("ExportModel", r, lambda a: bytes(a.chunk), again=False)


def import_model() -> Call[messages.ModelInfo]:
    """The call of an import. Its requests are import_requests."""
    return _models("ImportModel", None, lambda a: messages.ModelInfo.of(a.model), again=False)


def import_requests(id: str, source: Union[bytes, IO[bytes]]) -> Iterator[model_pb2.ImportModelRequest]:
    """The requests of an import: the id, then the bytes in pieces that fit into a message."""
    yield model_pb2.ImportModelRequest(id=id)
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    while piece := file.read(_CHUNK):
        yield model_pb2.ImportModelRequest(chunk=piece)


def set_alias(alias: str, model: str, expected_model: str) -> Call[messages.Alias]:
    r = model_pb2.SetAliasRequest(alias=alias, model=model, expected_model=expected_model)
    return _models("SetAlias", r, lambda a: messages.Alias.of(a.alias), again=not expected_model)


def aliases() -> Call[list[messages.Alias]]:
    return _models("ListAliases", model_pb2.ListAliasesRequest(), lambda a: [messages.Alias.of(x) for x in a.aliases])


def delete_alias(alias: str) -> Call[None]:
    return _models("DeleteAlias", model_pb2.DeleteAliasRequest(alias=alias), lambda a: None, done="ALIAS_NOT_FOUND")


def cluster(group: int) -> Call[messages.Cluster]:
    return _cluster("GetCluster", cluster_pb2.GetClusterRequest(group=group), messages.Cluster.of)


def move_owner(server: str, group: int) -> Call[None]:
    # Without a server, a second try could move ownership once more.
    request = cluster_pb2.MoveOwnerRequest(server=server, group=group)
    return _cluster("MoveOwner", request, lambda a: None, again=bool(server))


def drain_server(server: str) -> Call[None]:
    return _cluster("DrainServer", cluster_pb2.DrainServerRequest(server=server), lambda a: None)


def remove_server(server: str) -> Call[None]:
    return _cluster("RemoveServer", cluster_pb2.RemoveServerRequest(server=server), lambda a: None, again=False)
