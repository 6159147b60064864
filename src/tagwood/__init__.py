"""tagwood: tag anything with the few right labels out of thousands to millions.

The public names and only them. Each is loaded when it is first used, so that the command line starts quickly.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tagwood.groups import impute_labels
    from tagwood.ranking import Ranking
    from tagwood.storage import load, save

__version__ = version("tagwood")

__all__ = ["Ranking", "__version__", "impute_labels", "load", "save"]

_HOMES = {
    "Ranking": "tagwood.ranking",
    "impute_labels": "tagwood.groups",
    "load": "tagwood.storage",
    "save": "tagwood.storage",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tagwood' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
