"""Put an explanation together: numbers of the model, names of the label table, examples. Out: an `Explanation`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._check import check_float, check_int
from tagwood._sparse import CsrParts, check_features, csr_parts
from tagwood.errors import InputError
from tagwood.models.base import explains_texts, reads_label_texts
from tagwood.models.explanation import LabelPath, PathStep, Pruned, explain_label, find_pruning
from tagwood.models.linear_tree import LinearTree
from tagwood.tagger.cards import Explanation, Path, Similar, Step, Verdict, Word
from tagwood.tagger.feature_words import feature_words
from tagwood.trees.label_tree import LabelTree

if TYPE_CHECKING:
    from tagwood.tagger.answers import Answers

_LOOKED_AT = 50
_WIDTH = 10  # of the beam that `rank` uses


class Question(NamedTuple):
    """The question to `tag` that is to be explained; labels are ids."""

    k: int
    threshold: float | None
    restrict: list[int] | None
    exclude: list[int]
    language: str | None


def explain_tag(tagger: Answers, text: str, label: int, question: Question, n_similar: int) -> Explanation:
    """Return why the answer of `tagger.tag` to a question has `label` in it, or why not."""
    if not isinstance(text, str):
        raise InputError("explain takes one text", given=type(text).__name__)
    k = check_int(question.k, "k", low=1)
    if question.threshold is not None:
        check_float(question.threshold, "threshold")
    check_int(n_similar, "n_similar", low=0)
    language = question.language
    name = tagger.vocab_.name(label, language)
    ranked = tagger._rank([text], max(k, _LOOKED_AT), question.restrict, question.exclude)[0]
    place = next((place for place, (found, _) in enumerate(ranked, 1) if found == label), None)
    paths: list[LabelPath] = []
    x = _row(tagger.encoder_.transform([text]))
    if isinstance(tagger.model_, LinearTree) and label < tagger.model_.n_labels_:
        paths = explain_label(tagger.model_, x, label)
    word = feature_words(tagger.encoder_, text)
    return Explanation(
        text=text,
        label=label,
        name=name,
        uri=tagger.vocab_.uri(label),
        score=None if place is None else ranked[place - 1][1],
        model_score=float(np.mean([path.score for path in paths])) if paths else None,
        place=place,
        verdict=_verdict(tagger, x, label, place, ranked, question),
        paths=tuple(_named_path(tagger, path, name, word) for path in paths),
        similar=_similar(tagger, text, label, language, n_similar),
        read_words=() if paths else _read_words(tagger, text, label),
        read_as=getattr(tagger.model_, "explains_by", Explanation.read_as),
    )


def _read_words(tagger: Answers, text: str, label: int) -> tuple[Word, ...]:
    """Return what words add to a label's score, from a model that can tell (see `explains_texts`)."""
    model: Any = tagger.model_
    if not explains_texts(model) or label >= model.n_labels_:
        return ()
    return tuple(Word(word, weight) for word, weight in model.explain_text(text, label))


def _verdict(
    tagger: Answers,
    x: CsrParts,
    label: int,
    place: int | None,
    ranked: list[tuple[int, float]],
    question: Question,
) -> Verdict:
    """Say what became of a label; the first thing that kept it out counts."""
    k, threshold = question.k, question.threshold
    if tagger.vocab_.removed_mask()[label]:
        return Verdict("masked", "not suggested, because the label is masked.")
    described = tagger.label_texts_ is not None and label in tagger.label_texts_.labels
    in_answer = place is not None and place <= k
    learned = tagger.label_counts_[label] > 0 or reads_label_texts(tagger.model_)
    if not learned and not described and not in_answer:
        return Verdict("never in training", "not suggested, because no training text has this label.")
    if label in question.exclude:
        return Verdict("excluded", "not suggested, because the question excludes the label.")
    if question.restrict is not None and label not in question.restrict:
        return Verdict("excluded", "not suggested, because the question is restricted to other labels.")
    if place is None:
        return _not_found(tagger, x, label, _allowed(tagger, question), len(ranked))
    score = ranked[place - 1][1]
    if threshold is not None and score < threshold:
        return Verdict(
            "below the threshold",
            f"not suggested: its score {score:.3f} is below the threshold {threshold:g}.",
        )
    if place > k:
        last, best = ranked[k - 1]
        rival = tagger.vocab_.name(last, question.language)
        words = f"not among the best {k}: it is number {place} with {score:.3f}; the last one is {rival!r}, {best:.3f}."
        return Verdict("beyond the limit", words, competitor=rival)
    return Verdict("suggested", f"suggested as number {place} with {score:.3f}.")


def _allowed(tagger: Answers, question: Question) -> NDArray[np.bool_] | None:
    """Return which labels of the model may be returned; None where all may."""
    allowed = ~tagger.vocab_.removed_mask()
    if question.restrict is not None:
        allowed &= np.isin(np.arange(allowed.size), question.restrict)
    allowed[question.exclude] = False
    return None if allowed.all() else allowed[: getattr(tagger.model_, "n_labels_", allowed.size)]


def _not_found(
    tagger: Answers, x: CsrParts, label: int, allowed: NDArray[np.bool_] | None, n_ranked: int
) -> Verdict:
    lost: list[Pruned] = []
    if isinstance(tagger.model_, LinearTree) and label < tagger.model_.n_labels_:
        lost = find_pruning(tagger.model_, x, label, width=_WIDTH, allowed=allowed)
        if len(lost) < len(tagger.model_.trees_):
            lost = []  # some tree looked at it
    none_known = " None of the text's words are known to the model." if x.indices.size == 0 else ""
    if not lost:
        return Verdict(
            "beyond the limit", f"not suggested: it is not among the best {n_ranked} labels.{none_known}"
        )
    where = max(lost, key=lambda one: one.score)
    words = (
        f"not suggested: the search left its branch (node {where.node}, depth {where.depth}, "
        f"score {where.score:.3g}) behind; the last of {where.width} places went to node {where.competitor} "
        f"with {where.competitor_score:.3g}.{none_known}"
    )
    return Verdict("pruned", words, where.node, where.competitor)


def _named_path(tagger: Answers, path: LabelPath, name: str, word: Callable[[int], str]) -> Path:
    tree = tagger.model_.trees_[path.tree].tree  # type: ignore[attr-defined]
    return Path(path.tree, path.score, tuple(_named_step(tree, step, name, word) for step in path.steps))


def _named_step(tree: LabelTree, step: PathStep, name: str, word: Callable[[int], str]) -> Step:
    weights: dict[str, float] = {}  # numbers of a vector share one name
    for feature, weight in zip(step.features.tolist(), step.contributions.tolist(), strict=True):
        weights[word(feature)] = weights.get(word(feature), 0.0) + weight
    below = 1 if step.child is None else count_labels(tree, step.child)
    leads_to = f"label {name}" if step.child is None else f"node {step.child} of {below:,} labels"
    return Step(
        step.node,
        leads_to,
        below,
        step.margin,
        step.bias,
        step.probability,
        tuple(Word(one, weight) for one, weight in weights.items()),
        tuple(dict.fromkeys(word(feature) for feature in step.top_features.tolist())),
    )


def count_labels(tree: LabelTree, node: int) -> int:
    """Return the number of labels (copies counted) below a node: in each generation they are one stretch.

    Examples
    --------
    >>> count_labels(LabelTree.from_nested([[0, 1], [[2], [3, 4]]]), 2)
    3
    """
    begin, end, total = node, node + 1, 0
    while begin < end:
        total += int(tree.label_ptr[end] - tree.label_ptr[begin])
        begin, end = int(tree.child_ptr[begin]), int(tree.child_ptr[end])
    return total


def _similar(tagger: Answers, text: str, label: int, language: str | None, n: int) -> tuple[Similar, ...]:
    if tagger.examples_ is None or n == 0:
        return ()
    found = tagger.examples_.similar(text, label, n) or tagger.examples_.similar(text, None, n)
    return tuple(
        Similar(one.text, tuple(tagger.vocab_.name(i, language) for i in one.labels), one.similarity)
        for one in found
    )


def _row(features: Any) -> CsrParts:
    return csr_parts(check_features(features if sparse.issparse(features) else np.asarray(features)))
