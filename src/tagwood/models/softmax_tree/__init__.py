"""A fastText-style hierarchical softmax over any binary label tree."""
