"""`Tagger`: text in, label names out. Encoder, model, label table, probabilities and explanations in one object.

`fitting` trains, `search` answers requests, `stored` saves and loads, `reasons`, `explanation` and `senses` explain,
`browsing` and `overview` describe labels, trees and quality; `tagger` is the object itself.
"""

from typing import TYPE_CHECKING

from tagwood._lazy import lazy_names

if TYPE_CHECKING:
    from tagwood.tagger.browsing import LabelCard, TreeView
    from tagwood.tagger.explanation import Explanation
    from tagwood.tagger.fitting import SetRules
    from tagwood.tagger.group_learning import GroupRule
    from tagwood.tagger.search import Tag, Tags
    from tagwood.tagger.senses import Senses
    from tagwood.tagger.tagger import Tagger
else:  # type checkers do not see it: they would accept any name
    __getattr__ = lazy_names(
        __name__,
        browsing="LabelCard TreeView",
        explanation="Explanation",
        fitting="SetRules",
        group_learning="GroupRule",
        search="Tag Tags",
        senses="Senses",
        tagger="Tagger",
    )

__all__ = [
    "Explanation",
    "GroupRule",
    "LabelCard",
    "Senses",
    "SetRules",
    "Tag",
    "Tagger",
    "Tags",
    "TreeView",
]


def __dir__() -> list[str]:
    return __all__
