"""Why not: 100 constructed cases in which it is known where a label was lost, and `explain` must name the place.

The label tree is given: 16 leaves of three labels, right below the root or below four limbs. Every limb, leaf and label
has a word of its own, and all are trained alike, so that the words of a text alone decide the order of the nodes.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from tagwood import LabelVocab, LinearTree, Solver, Tagger, TfidfEncoder
from tagwood.tagger import SetRules
from tagwood.trees.label_tree import LabelTree

WIDTH = 10  # of the beam that `tag` uses
N_LEAVES, N_LABELS, UNICORNS = 16, 48, 48
NAMES = [*(f"label{number:02d}" for number in range(N_LABELS)), "unicorns"]
LEAVES = [list(range(3 * leaf, 3 * leaf + 3)) for leaf in range(N_LEAVES)]
LEAVES[-1].append(UNICORNS)  # stands on no row


class GivenTree(LinearTree):
    """A linear tree over a tree that is given."""

    shape: ClassVar[LabelTree]

    def fit(self, X, y, **options):
        return super().fit(X, y, tree=self.shape, **options)


class Wide(GivenTree):
    shape = LabelTree.from_nested(LEAVES)


class Deep(GivenTree):
    shape = LabelTree.from_nested([LEAVES[at : at + 4] for at in range(0, N_LEAVES, 4)])


class Case(NamedTuple):
    """A question, and what is known about its answer."""

    model: str
    text: str
    label: int
    question: dict[str, Any]
    reason: str
    node: int | None = None
    competitor: int | str | None = None


def leaf_node(model, leaf):
    """Node of a leaf: the root is 0, then come the leaves, or four limbs and the leaves."""
    return leaf + (1 if model == "wide" else 5)


def repeated(words, counts):
    return " ".join(f"{word} " * count for word, count in zip(words, counts, strict=True))


def text_of_leaves(order):
    """A text about all leaves, the first of `order` the most: word counts fall by a fifth from one to the next."""
    return repeated([f"leaf{leaf:02d}" for leaf in order], np.round(300 * 0.8 ** np.arange(len(order))).astype(int))


def pruned_below_the_root(n, random):
    for _ in range(n):
        order = random.permutation(N_LEAVES)
        place = int(random.integers(WIDTH, N_LEAVES))
        label = int(random.choice(LEAVES[order[place]][:3]))
        node, competitor = leaf_node("wide", int(order[place])), leaf_node("wide", int(order[WIDTH - 1]))
        yield Case("wide", text_of_leaves(order), label, {}, "pruned", node, competitor)


def pruned_below_a_limb(n, random):
    """Four limbs alike but for a little, each with a first to fourth leaf: places 9 and 10 are third leaves."""
    for _ in range(n):
        limbs = random.permutation(4)
        inside = [random.permutation(4) + 4 * limb for limb in limbs]  # best limb first, best leaf first
        words = [f"leaf{leaf:02d}" for leaves in inside for leaf in leaves] + [f"limb{limb}" for limb in limbs]
        text = repeated(words, [40, 20, 10, 5] * 4 + [44, 40, 36, 32])
        limb, leaf = [(2, 2), (3, 2), (0, 3), (1, 3), (2, 3), (3, 3)][int(random.integers(6))]
        label = int(random.choice(LEAVES[inside[limb][leaf]][:3]))
        node, competitor = leaf_node("deep", int(inside[limb][leaf])), leaf_node("deep", int(inside[1][2]))
        yield Case("deep", text, label, {}, "pruned", node, competitor)


def pruned_under_exclusion(n, random):
    """The branch of the best leaf is excluded, so the others move up and the eleventh of them is lost."""
    for _ in range(n):
        order = random.permutation(N_LEAVES)
        label = int(random.choice(LEAVES[order[WIDTH + 1]][:3]))
        question = {"exclude": [NAMES[label] for label in LEAVES[order[0]]]}
        node, competitor = leaf_node("wide", int(order[WIDTH + 1])), leaf_node("wide", int(order[WIDTH]))
        yield Case("wide", text_of_leaves(order), label, question, "pruned", node, competitor)


def own_text(label):
    return f"leaf{label // 3:02d} own{label:02d}"


def cases_of_one_leaf(random):
    """Texts about one label of a leaf, a little about its second and hardly about its third."""
    for leaf in random.choice(N_LEAVES, size=10, replace=False).tolist():
        first, second, third = LEAVES[leaf][:3]
        words = [f"leaf{leaf:02d}", *(f"own{label:02d}" for label in (first, second, third))]
        yield Case(
            "wide",
            repeated(words, (8, 7, 4, 2)),
            third,
            {"k": 2},
            "beyond the limit",
            competitor=NAMES[second],
        )
        yield Case("wide", repeated(words[:2], (1, 1)), third, {"k": 49, "threshold": 0.5}, "below the threshold")
        yield Case("masked", own_text(first), first, {}, "masked")
        yield Case("wide", own_text(first), UNICORNS, {"k": 1}, "never in training")
        yield Case("wide", own_text(first), first, {"exclude": [NAMES[first]]}, "excluded")
        if leaf % 2:
            yield Case("wide", own_text(first), first, {"restrict": [NAMES[second]]}, "excluded")


def make_cases():
    random = np.random.default_rng(0)
    rest = list(cases_of_one_leaf(random))
    pruned = [*pruned_below_the_root(20, random), *pruned_under_exclusion(5, random)]
    return [*rest, *pruned, *pruned_below_a_limb(75 - len(rest), random)]


CASES = make_cases()


def fitted(kind):
    def words(label):
        limb = f"limb{label // 12}" if kind is Deep else ""
        return f"{limb} {own_text(label)}"

    texts = [words(label) for label in range(N_LABELS) for _ in range(4)]
    labels = [[NAMES[label]] for label in range(N_LABELS) for _ in range(4)]
    encoder = TfidfEncoder(ngrams=(1, 1), sublinear_tf=False)
    model = kind(solver=Solver(tolerance=1e-4, weights="float32", threshold=0.0), rare_label_weight=0.0, threads=1)
    tagger = Tagger(encoder, model, sets=SetRules(holdout=0.0))
    return tagger.fit(texts, labels, vocab=LabelVocab.from_names(NAMES))


@pytest.fixture(scope="module")
def taggers():
    masked = fitted(Wide).update_labels(mask=NAMES[:N_LABELS:3])
    return {"wide": fitted(Wide), "deep": fitted(Deep), "masked": masked}


def test_there_are_100_cases_of_every_kind():
    assert len(CASES) == 100
    reasons = ["beyond the limit", "below the threshold", "masked", "never in training", "excluded", "pruned"]
    assert {case.reason for case in CASES} == set(reasons)
    assert len({case.text + str(case.label) + case.reason for case in CASES}) >= 95


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.model}-{case.label}-{case.reason}")
def test_why_not_names_the_place_where_a_label_was_lost(taggers, case):
    tagger = taggers[case.model]
    found = tagger.explain(case.text, case.label, **case.question)
    assert case.label not in {tag.label for tag in tagger.tag_one(case.text, **case.question)}
    verdict = found.verdict
    assert (verdict.reason, verdict.node, verdict.competitor) == (case.reason, case.node, case.competitor)
    assert not found.suggested


@pytest.mark.parametrize("case", CASES[::7], ids=lambda case: f"{case.model}-{case.label}-{case.reason}")
def test_contributions_add_up_to_the_margins_of_the_path(taggers, case):
    tagger = taggers[case.model]
    weights = tagger.model_.trees_[0]
    x = tagger.encoder_.transform_parts([case.text])
    for step in tagger.explain(case.text, case.label).paths[0].steps:
        label_step = step.leads_to.startswith("label ")
        inside = weights.tree.leaf_labels(step.node).tolist() if label_step else None
        output = inside.index(case.label) if label_step else int(step.leads_to.split()[1])
        output -= 0 if label_step else int(weights.tree.child_ptr[step.node])
        where = np.array([step.node], np.int32), np.array([output], np.int32)
        margin = weights.margins(x, np.zeros(1, np.int64), *where, 1)[0]
        assert step.bias + sum(word.weight for word in step.words) == pytest.approx(margin, abs=1e-5)


def test_the_same_label_is_suggested_where_nothing_keeps_it_out(taggers):
    for label in range(0, N_LABELS, 5):
        assert taggers["wide"].explain(own_text(label), label, restrict=[NAMES[label]]).suggested
        assert taggers["deep"].explain(f"limb{label // 12} {own_text(label)}", label).place == 1
