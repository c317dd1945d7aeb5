"""The client of hindsight, a server for online learning.

    import hindsight

    with hindsight.connect("localhost:50051") as client:
        model = client.create("energy", {"dimension": 2})
        prediction = model.predict([0.5, 1.0])
        model.observe(prediction, 3.0)

local() in place of connect(...) starts a local server. hindsight.aio has the same for asyncio.
"""

from hindsight import errors
from hindsight._calls import UNCHANGED
from hindsight._hosted import infer
from hindsight._local import local
from hindsight._version import VERSION
from hindsight.client import Client, Model
from hindsight.errors import HindsightError
from hindsight.messages import (
    Alias,
    Cluster,
    Comparison,
    Event,
    History,
    Interval,
    ModelInfo,
    ModelStats,
    Outcome,
    Prediction,
    Restored,
    Snapshot,
    SpecCost,
)
from hindsight.retry import Retry

__version__ = VERSION

connect = Client.connect

__all__ = [
    "UNCHANGED", "Alias", "Client", "Cluster", "Comparison", "Event", "HindsightError", "History", "Interval", "Model",
    "ModelInfo", "ModelStats", "Outcome", "Prediction", "Restored", "Retry", "Snapshot", "SpecCost",
    "connect", "errors", "infer", "local",
]
