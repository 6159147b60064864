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
THEOREM = """## Why the paper's order may turn: Theorem 1's terms

Theorem 1 bounds the error of learning with assignment by two terms: that with known pairs, and a bias of wrong
assignments that grows with R1, the error of the first estimate. Here R1 is the error of the label embedding that
EAGLE starts from, the sum of all rows of a label's groups. In random groups of g rows that sum is the label's own
rows plus g - 1 times the mean row, so R1 grows with g - 1 and with what all rows have in common, the mean cosine of
two rows. Where it is large, picks go to rows that are close to everything, and learning from these picks makes it
worse: with all terms (mean cosine 0.10, and 9 times that in groups of 10) EAGLE is behind EAGLE-0, and both are behind
the baseline. The less the rows have in common, the smaller R1: the same algorithm on the same groups has the paper's
order as soon as terms that stand on many rows are left out, as they are in the ready-made features of the paper's
sets. Contrast takes the mean row off instead, and keeps all terms."""
CORPUS = """## Passages of docstrings

Passages of the docstrings of Python, NumPy, SciPy and others, labelled through their docstring, or through the page
(class or module) that their docstring stands on; P@k on single passages of the test part."""
MIML = """## Table 3: the network for few labels

Accuracy of the best label on single test rows after learning from groups (4,000 groups of 4, 1,500 groups of 50, drawn
by chance from 18,000 images, or from passages of ten modules), means over three seeds. The learning rate is the one
that is best for Deep-MIML; τ is chosen for each version among 1, 2 and 3, and of eight epochs the best is kept,
all on held-out single rows (their mean stands in the table)."""
