"""What the client answers. Generated from the API by tools/messages.py: do not edit."""

from hindsight.messages.cluster import (
    Cluster,
    Group,
    Server,
)
from hindsight.messages.history import (
    DriftMark,
    Event,
    History,
    HistoryPoint,
    OutcomeEvent,
)
from hindsight.messages.models import (
    Alias,
    Category,
    LearnedInput,
    Learner,
    LearnerField,
    ModelInfo,
    ModelSummary,
    Restored,
    Snapshot,
    SpecCost,
)
from hindsight.messages.performance import (
    ClassFigures,
    ClassPerformance,
    Comparison,
    LossDifference,
    Performance,
    PerformanceFigures,
)
from hindsight.messages.predictions import (
    FamilyPart,
    Interval,
    KeyPart,
    Outcome,
    Prediction,
)
from hindsight.messages.stats import (
    ClassCounts,
    ClassRanking,
    ClassStats,
    Drift,
    Expert,
    FeatureWeight,
    InputImportance,
    InputStats,
    IntervalStats,
    KeyEffect,
    LabelGateStats,
    LogLossStats,
    ModelStats,
    RecentRegret,
    ReliabilityBin,
)

__all__ = [
    "Alias", "Category", "ClassCounts", "ClassFigures", "ClassPerformance", "ClassRanking", "ClassStats",
    "Cluster", "Comparison", "Drift", "DriftMark", "Event", "Expert", "FamilyPart", "FeatureWeight", "Group",
    "History", "HistoryPoint", "InputImportance", "InputStats", "Interval", "IntervalStats", "KeyEffect",
    "KeyPart", "LabelGateStats", "LearnedInput", "Learner", "LearnerField", "LogLossStats", "LossDifference",
    "ModelInfo", "ModelStats", "ModelSummary", "Outcome", "OutcomeEvent", "Performance", "PerformanceFigures",
    "Prediction", "RecentRegret", "ReliabilityBin", "Restored", "Server", "Snapshot", "SpecCost",
]
