"""tagwood: tag anything with the few right labels out of thousands to millions.

The public names and only them. Each is loaded when it is first used, so that the command line starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tagwood.data import Dataset, LabelVocab, read_dataset, write_dataset
    from tagwood.features import ConcatEncoder, TfidfEncoder
    from tagwood.groups import impute_labels
    from tagwood.metrics import compare, evaluate
    from tagwood.models.centroids import Centroids
    from tagwood.models.disentangled import CopySettings, Disentangled
    from tagwood.models.ensemble import Budget, Ensemble
    from tagwood.models.linear_tree import LinearTree, Solver
    from tagwood.models.name_matcher import NameMatcher
    from tagwood.models.neighbours import Neighbours
    from tagwood.models.softmax_tree import SoftmaxTree
    from tagwood.neural.encoders.text_encoder import TextEncoder
    from tagwood.neural.miml import MimlNetwork
    from tagwood.neural.otseq2set.model import SetGenerator
    from tagwood.neural.prime.model import PrototypeModel
    from tagwood.ranking import Ranking
    from tagwood.storage import load, save
    from tagwood.tagger import Tag, Tagger, Tags

    __version__: str

__all__ = [
    "Budget",
    "Centroids",
    "ConcatEncoder",
    "CopySettings",
    "Dataset",
    "Disentangled",
    "Ensemble",
    "LabelVocab",
    "LinearTree",
    "MimlNetwork",
    "NameMatcher",
    "Neighbours",
    "PrototypeModel",
    "Ranking",
    "SetGenerator",
    "SoftmaxTree",
    "Solver",
    "Tag",
    "Tagger",
    "Tags",
    "TextEncoder",
    "TfidfEncoder",
    "__version__",
    "compare",
    "evaluate",
    "impute_labels",
    "load",
    "read_dataset",
    "save",
    "write_dataset",
]

_HOMES = {
    "Budget": "tagwood.models.ensemble",
    "Centroids": "tagwood.models.centroids",
    "CopySettings": "tagwood.models.disentangled",
    "ConcatEncoder": "tagwood.features",
    "Dataset": "tagwood.data",
    "Disentangled": "tagwood.models.disentangled",
    "Ensemble": "tagwood.models.ensemble",
    "LabelVocab": "tagwood.data",
    "LinearTree": "tagwood.models.linear_tree",
    "MimlNetwork": "tagwood.neural.miml",
    "NameMatcher": "tagwood.models.name_matcher",
    "Neighbours": "tagwood.models.neighbours",
    "PrototypeModel": "tagwood.neural.prime.model",
    "Ranking": "tagwood.ranking",
    "SetGenerator": "tagwood.neural.otseq2set.model",
    "SoftmaxTree": "tagwood.models.softmax_tree",
    "Solver": "tagwood.models.linear_tree",
    "Tag": "tagwood.tagger",
    "Tagger": "tagwood.tagger",
    "Tags": "tagwood.tagger",
    "TextEncoder": "tagwood.neural.encoders.text_encoder",
    "TfidfEncoder": "tagwood.features",
    "compare": "tagwood.metrics",
    "evaluate": "tagwood.metrics",
    "impute_labels": "tagwood.groups",
    "load": "tagwood.storage",
    "read_dataset": "tagwood.data",
    "save": "tagwood.storage",
    "write_dataset": "tagwood.data",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tagwood")
    if name not in _HOMES:
        raise AttributeError(f"module 'tagwood' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
