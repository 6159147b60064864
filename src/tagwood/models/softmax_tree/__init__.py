"""A fastText-style hierarchical softmax over any binary label tree."""

from tagwood.models.softmax_tree.model import SoftmaxTree

__all__ = ["SoftmaxTree"]
