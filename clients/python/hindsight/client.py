# Written by tools/blocking.py from aio/client.py: do not edit.
"""The blocking client."""

from __future__ import annotations

from collections.abc import Iterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, Optional, Union

from hindsight import _calls, _infer, messages
from hindsight._calls import UNCHANGED, Unchanged
from hindsight._values import Input, Label, Span, Spec
from hindsight._connection import Connection
from hindsight._threads import Shown
from hindsight.v1 import model_pb2

if TYPE_CHECKING:
    import pandas


class Client(Connection):
    """A connection to a server. Threads may share it."""

    def model(self, id: str) -> Model:
        """A model by its id or an alias. It makes no call: the model need not exist yet."""
        return Model(self, id)

    def create(
        self,
        id: str,
        spec: Spec,
        *,
        display_name: str = "",
        labels: Optional[Mapping[str, str]] = None,
        annotations: Optional[Mapping[str, str]] = None,
        label_ttl: Optional[Span] = None,
        max_pending_labels: Optional[int] = None,
        follows: str = "",
    ) -> Model:
        """Creates a model. If a model with this id and this spec exists, it is returned."""
        self.run(_calls.create(
            id, spec, display_name, labels, annotations, label_ttl, max_pending_labels, follows, validate_only=False,
        ))
        return Model(self, id)

    def models(
        self,
        prefix: str = "",
        *,
        labels: Optional[Mapping[str, str]] = None,
        learner: str = "",
        contains: str = "",
        order_by: str = "",
        show_deleted: bool = False,
        summary: bool = False,
        page_size: int = 0,
    ) -> Iterator[messages.ModelInfo]:
        """The models, page by page."""
        request = model_pb2.ListModelsRequest(
            prefix=prefix, labels=labels, learner=learner, contains=contains, order_by=order_by,
            show_deleted=show_deleted, include_summary=summary, page_size=page_size,
        )
        while True:
            page = self.run(_calls.list_page(request))
            for m in page.models:
                yield messages.ModelInfo.of(m)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def learners(self) -> list[messages.Learner]:
        """Lists the learners of a spec and their fields."""
        return self.run(_calls.learners())

    def infer(
        self, frame: pandas.DataFrame, label: Union[str, Sequence[str], None] = None, *, classes: Optional[bool] = None, keys: bool = True
    ) -> dict[str, Any]:
        """Infers a spec from a DataFrame, with the columns as named inputs, by the rules of "hindsight infer".

        label is the column of the label, or the columns of several, and no input. Texts, booleans and categories are
        classes; classes=True makes classes of numbers. Texts stay texts, though they look like numbers. The spec has no
        learner: auto, or add one. keys=False, for other learners, gives the first 64 categories a feature each instead of
        a key. A column that is no input is left out with a warning.
        """
        return self.run(_infer.infer(frame, label, classes, keys))

    def validate(self, spec: Spec) -> messages.SpecCost:
        """Fills in the defaults of a spec, and returns its features, memory and cost."""
        return self.run(_calls.validate(spec))

    def undelete(self, id: str) -> messages.ModelInfo:
        """Brings a deleted model back."""
        return self.run(_calls.undelete(id))

    def import_model(self, id: str, source: Union[bytes, IO[bytes]], *, timeout: float = 600.0) -> messages.ModelInfo:
        """Creates a model from the bytes or the file of an export."""
        return self.run(_calls.import_model(), timeout, lambda: _calls.import_requests(id, source))

    def set_alias(self, alias: str, model: str, *, expected_model: str = "") -> messages.Alias:
        """Makes an alias name a model."""
        return self.run(_calls.set_alias(alias, model, expected_model))

    def aliases(self) -> list[messages.Alias]:
        """The aliases, by name."""
        return self.run(_calls.aliases())

    def delete_alias(self, alias: str) -> None:
        """Removes an alias. Its model stays."""
        self.run(_calls.delete_alias(alias))

    def cluster(self, group: int = 0) -> messages.Cluster:
        """The servers that keep the same models, and their owner. A server alone answers none."""
        return self.run(_calls.cluster(group))

    def move_owner(self, server: str = "", group: int = 0) -> None:
        """Makes a server of the cluster the owner, by its id or address; by default the most advanced one."""
        self.run(_calls.move_owner(server, group))

    def drain_server(self, server: str) -> None:
        """Moves ownership away from a server of the cluster until the server is stopped."""
        self.run(_calls.drain_server(server))

    def remove_server(self, server: str) -> None:
        """Removes a server from the cluster for good. The call is sent once."""
        self.run(_calls.remove_server(server))


class Model(Shown):
    """A model of a server. Threads may share it."""

    def __init__(self, client: Client, id: str) -> None:
        self.client = client
        #: Its id, or an alias.
        self.id = id

    def __repr__(self) -> str:
        return f"Model({self.id!r})"

    def predict(
        self, x: Input, *, id: Optional[str] = None, label_ttl: Optional[Span] = None, remember: bool = True,
        explain: bool = False, min_sequence: int = 0, max_staleness: Optional[Span] = None,
        horizon: int = 0, timeout: Optional[float] = None,
    ) -> messages.Prediction:
        """Predicts for features, or for named inputs. remember=False: no label will come.

        explain: the prediction of auto has an explanation. In a cluster the state that
        predicts has at least min_sequence observations, such as the sequence of an Outcome,
        and is at most max_staleness seconds old. horizon is how many rows come between the next row and this
        one, without their labels.
        """
        return self.client.run(
            _calls.predict(self.id, x, id, label_ttl, remember, explain, min_sequence, max_staleness, horizon), timeout
        )

    def observe(
        self, x: Union[messages.Prediction, str, Input], label: Label, *, weight: Optional[float] = None,
        id: Optional[str] = None, timeout: Optional[float] = None,
    ) -> messages.Outcome:
        """Learns what happened, exactly once, and returns when it is durable.

        x is the prediction or its id. Without a prediction, or after the prediction has
        expired, x is the input, and id is the identity of the observation.
        """
        return self.client.run(_calls.observe(self.id, x, label, weight, id), timeout)

    def predict_batch(
        self, rows: Iterable[Input], *, ids: Optional[Sequence[str]] = None, label_ttl: Optional[Span] = None,
        remember: bool = True, min_sequence: int = 0, max_staleness: Optional[Span] = None,
        horizon: int = 0, alternatives: bool = False, timeout: Optional[float] = None,
    ) -> list[messages.Prediction]:
        """Predicts every row from the same state. min_sequence and max_staleness bound it as in predict.

        The rows follow one another, the first one with the horizon; alternatives are rows of one moment.
        """
        return self.client.run(
            _calls.predict_batch(self.id, rows, ids, label_ttl, remember, min_sequence, max_staleness, horizon, alternatives), timeout
        )

    def observe_batch(
        self, rows: Iterable[Any], labels: Iterable[Label], *, weights: Optional[Iterable[float]] = None,
        ids: Optional[Iterable[str]] = None, timeout: Optional[float] = None,
    ) -> list[messages.Outcome]:
        """Learns the rows in their order, all or none. A row is what observe takes."""
        return self.client.run(_calls.observe_batch(self.id, rows, labels, weights, ids), timeout)

    def predict_frame(self, frame: pandas.DataFrame, *, remember: bool = False, batch: int = 1024) -> pandas.DataFrame:
        """Predicts the rows of a DataFrame.

        The answer has the index of frame, and what applies to the model of the columns value,
        class, probability, standard_error, leverage, lower_0.9 and upper_0.9 for each level,
        value_0, value_1 and so on for several outputs, score_NAME for each class. With
        remember the answer has prediction_id, for labels to come. See hindsight.frames.
        """
        from hindsight import frames

        predictions: list[messages.Prediction] = []
        for _, rows in frames.batches(frames.rows_of(frame, self.get()), batch):
            predictions += self.predict_batch(rows, remember=remember, horizon=len(predictions))
        return frames.predicted(frame, predictions)

    def learn_frame(
        self, frame: pandas.DataFrame, label: Union[str, Sequence[str]], *, weight: Optional[str] = None,
        id: Optional[str] = None, run: Optional[str] = None, batch: int = 256,
    ) -> pandas.DataFrame:
        """Learns the rows of a DataFrame in their order, a batch at a time.

        label is the column of the label, or the columns of a model with several outputs. The
        columns weight and id are no inputs either. Without a column of ids, the row at
        position n has the id RUN-n. With the same run, learning that was interrupted goes on:
        the server answers what it has learned already, and does not learn it again. run is
        new by default. Rows without a label are left out.

        The answer has the index of the learned rows and the columns sequence, prediction, loss, duplicate
        and set_aside; class in place of prediction for a classifier, prediction_0, prediction_1
        and so on for several outputs. The predictions are prequential. See hindsight.frames.
        """
        from hindsight import frames

        observations = frames.Observations(frame, label, weight, id, run, self.get())
        outcomes: list[messages.Outcome] = []
        for n, rows in frames.batches(observations.rows, batch):
            outcomes += self.observe_batch(rows, **observations.rest(n, len(rows)))
        return frames.learned(observations.frame, outcomes)

    def get(self) -> messages.ModelInfo:
        """The model with its spec."""
        return self.client.run(_calls.get(self.id))

    def stats(
        self, *, effective_dimension: bool = False, hindsight_path: bool = False, importances: bool = False,
        regret_rkhs: bool = False,
        recent_regret: bool = False,
    ) -> messages.ModelStats:
        """The statistics: losses, regret, certificate. The options ask for expensive figures."""
        return self.client.run(_calls.stats(self.id, effective_dimension, hindsight_path, importances, regret_rkhs, recent_regret))

    def history(self) -> messages.History:
        """The history of the model."""
        return self.client.run(_calls.history(self.id))

    def watch(
        self, *, max_outcomes_per_second: Optional[float] = None, stats_interval: Optional[Span] = None, include_inputs: bool = False
    ) -> Iterator[messages.Event]:
        """Events as the model learns, without end."""
        return self.client.stream(_calls.watch(self.id, max_outcomes_per_second, stats_interval, include_inputs))

    def compare(self) -> list[messages.Comparison]:
        """The model and its followers, compared on the same observations."""
        return self.client.run(_calls.compare(self.id))

    def update(
        self,
        *,
        display_name: Union[str, Unchanged] = UNCHANGED,
        labels: Union[Mapping[str, str], Unchanged] = UNCHANGED,
        annotations: Union[Mapping[str, str], Unchanged] = UNCHANGED,
        label_ttl: Union[Span, None, Unchanged] = UNCHANGED,
        max_pending_labels: Union[int, None, Unchanged] = UNCHANGED,
        etag: str = "",
    ) -> messages.ModelInfo:
        """Changes the model. None takes the default of the server again."""
        return self.client.run(_calls.update(
            self.id, etag, False, display_name=display_name, labels=labels, annotations=annotations,
            label_ttl=label_ttl, max_pending_labels=max_pending_labels,
        ))

    def delete(self, *, etag: str = "", purge: bool = False) -> Optional[messages.ModelInfo]:
        """Deletes the model. Returns the model if undelete can bring it back."""
        return self.client.run(_calls.delete(self.id, etag, purge, validate_only=False))

    def snapshot(self) -> messages.Snapshot:
        """Writes a snapshot now."""
        return self.client.run(_calls.snapshot(self.id))

    def snapshots(self) -> list[messages.Snapshot]:
        """The snapshots, newest first."""
        return self.client.run(_calls.snapshots(self.id))

    def restore(
        self, sequence: Optional[int] = None, *, time: Optional[datetime] = None, validate_only: bool = False
    ) -> messages.Restored:
        """Takes the model back to an earlier sequence, or to what it had learned at a time.

        Give one of the two. The time has an offset from UTC. validate_only returns what would
        be undone, and restores nothing. The call is sent once: see the documentation.
        """
        return self.client.run(_calls.restore(self.id, sequence, time, validate_only))

    def export(self, to: IO[bytes], *, without_ids: bool = False, timeout: float = 600.0) -> int:
        """Writes the model to a file and returns the number of bytes."""
        written = 0
        for chunk in self.client.stream(_calls.export(self.id, without_ids), timeout):
            to.write(chunk)
            written += len(chunk)
        return written

