"""Models: what learns from features and label sets, and ranks. In: X and Y. Out: a fitted model, a `Ranking`.

`base` is what every model offers. The linear label tree: `linear_tree` (the estimator), `tree_training`, `negatives`,
`entry_weights` (training), `tree_weights`, `tree_state` (what was learned), `tree_inputs`, `links`. On top of any
ranking: `calibration` (probabilities) and `set_rules` (label sets). `explanation` says why.
"""
