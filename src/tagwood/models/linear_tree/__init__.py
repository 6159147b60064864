"""The linear label tree (Parabel / XR-Linear class), the fast base of the toolkit.

`model` has the estimator, `training` its classifiers, `weights` what was learned and its search, `trials` the choice of
λ and `explanation` the reasons for a score.
"""

from tagwood.models.linear_tree.model import LinearTree, TreeRanker
from tagwood.models.linear_tree.training import Solver

__all__ = ["LinearTree", "Solver", "TreeRanker"]
