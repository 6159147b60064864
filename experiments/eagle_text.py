"""What the page of the EAGLE experiments says beside its tables."""

RULES = ["oracle", "R-4", "R-10", "C-8"]

HEAD = """# Learning from labels of groups (EAGLE)

Made by `python -m experiments.eagle`; what was measured is in eagle.json. Groups hide the known labels of training
rows: R-4 and R-10 are random groups of 4 and 10 rows, C-8 are clusters of like rows (balanced 2-means, 8 times over).
Labels are imputed, the linear tree is trained on them (TF-IDF of words; default settings), and P@k is measured on
single test rows. *Right* is the share of assignments that the hidden labels confirm. ± is half of a 95 % interval
over test rows and, with several seeds, over groupings. *Contrast* takes the mean of all rows off label embeddings,
which the paper does not; *soft* shares labels among rows nearly as close; *2 rounds* assigns anew with the scores of
the trained model.
"""

ORDER = ""
CHOSEN = """## How contrast and step size were chosen

On a fifth of 10,000 training rows of two sets, held out; test rows were not opened. The other sets of Table 2 took no
part in the choice."""
THEOREM = ""
CORPUS = """## Passages of docstrings

Passages of the docstrings of Python, NumPy, SciPy and others, labelled through their docstring, or through the page
(class or module) that their docstring stands on; P@k on single passages of the test part."""
MIML = """## Table 3: the network for few labels

Accuracy of the best label on single test rows after learning from groups (4,000 groups of 4, 1,500 groups of 50, drawn
by chance from 18,000 images, or from passages of ten modules), means over three seeds. The learning rate is the one
that is best for Deep-MIML; τ is chosen for each version among 1, 2 and 3, and of eight epochs the best is kept,
all on held-out single rows (their mean stands in the table)."""
