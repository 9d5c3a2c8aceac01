"""Differential privacy for counts of people that nest in geography.

``import tallyveil as tv`` loads nothing heavy: a part is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyveil import errors, evaluate, files, mechanisms, papers, populations, privacy, risk, schemas, topdown
    from tallyveil.areas import Areas
    from tallyveil.counts import Counts
    from tallyveil.estimates import Estimates, Sample
    from tallyveil.facilities import Facilities
    from tallyveil.histogram import Histogram
    from tallyveil.measurements import Measurements
    from tallyveil.optimised import OptimisedSpine
    from tallyveil.privacy.strategy import Strategy
    from tallyveil.protection import protect
    from tallyveil.release import Release
    from tallyveil.schema import Grouping, Query, Schema
    from tallyveil.spine import Spine
    from tallyveil.verification import sign_release, verify_release

__version__ = "0.1.0"
__all__ = [
    "Areas",
    "Counts",
    "Estimates",
    "Facilities",
    "Grouping",
    "Histogram",
    "Measurements",
    "OptimisedSpine",
    "Query",
    "Release",
    "Sample",
    "Schema",
    "Spine",
    "Strategy",
    "errors",
    "evaluate",
    "files",
    "mechanisms",
    "papers",
    "populations",
    "privacy",
    "protect",
    "risk",
    "schemas",
    "sign_release",
    "topdown",
    "verify_release",
]

_HOME = {
    "Areas": "areas",
    "Counts": "counts",
    "Estimates": "estimates",
    "Facilities": "facilities",
    "Grouping": "schema",
    "Histogram": "histogram",
    "Measurements": "measurements",
    "OptimisedSpine": "optimised",
    "Query": "schema",
    "Release": "release",
    "Sample": "estimates",
    "Schema": "schema",
    "Spine": "spine",
    "Strategy": "privacy.strategy",
    "protect": "protection",
    "sign_release": "verification",
    "verify_release": "verification",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"tallyveil.{_HOME[name]}"), name)
    if name in __all__:
        return import_module(f"tallyveil.{name}")
    raise AttributeError(f"module 'tallyveil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
