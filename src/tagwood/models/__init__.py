"""Models: what learns from features or texts X and label sets y, and ranks labels. In: X, y. Out: a `Ranking`.

`base` has the protocol of every model. `linear_tree` is the fast default, `disentangled` gives its labels several
leaves, `softmax_tree` reads texts, `neighbours` and `name_matcher` need little training, `ensemble` joins models.
"""
