"""Why a label was suggested for a text, or at which step it was lost: the facts of an `Explanation`.

In: a fitted Tagger, a text, a label, and the request that is explained. Out: an `Explanation`.

Decisions: a linear tree, alone or in an ensemble, gives words and a path. In an ensemble every member also tells what
it found. Words that match a label's name share what the `NameMatcher` adds, in proportion to what the match loses
without each of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagwood._check import check_float, check_int
from tagwood._lazy import sparse
from tagwood._sparse import CsrParts, check_features, csr_parts
from tagwood.errors import InputError
from tagwood.features.base import takes_texts
from tagwood.features.concat import ConcatEncoder
from tagwood.features.tfidf import TfidfEncoder
from tagwood.models.base import explains_texts
from tagwood.models.centroids import Centroids
from tagwood.models.ensemble import Ensemble, Evidence, MemberEvidence
from tagwood.models.ensemble.trial import TOGETHER
from tagwood.models.label_filter import LabelFilter, allowed_labels
from tagwood.models.linear_tree import TreeRanker
from tagwood.models.linear_tree.explanation import LabelPath, PathStep, Pruned, explain_label, find_pruning
from tagwood.models.name_matcher import NameMatcher
from tagwood.models.neighbours import Neighbours
from tagwood.probabilities.calibration import sigmoid
from tagwood.ranking import Ranking
from tagwood.tagger.explanation import Explanation, MemberReason, Path, Similar, Step, Verdict, Word
from tagwood.tagger.learning import Said
from tagwood.tagger.search import knows_new_labels
from tagwood.tagger.stored import FittedTagger
from tagwood.trees.label_tree import LabelTree

VECTOR = "[text vector]"
"""Name of all features of a dense vector in explanations."""

_LOOKED_AT = 50  # labels of the ranking in which the label is looked for
_MOST_WORDS = 5000  # words of a text that are looked up one by one
_NAMED = 3  # words and texts in the reason of a member
_WORD = re.compile(r"\w+")


class Question(NamedTuple):
    """The arguments of the call of `tag` that is explained."""

    k: int
    threshold: float | None
    restrict: LabelFilter | None
    exclude: LabelFilter | None
    language: str | None


class _TreeRow(NamedTuple):
    """A linear tree, what it reads of the text, the name of each feature, and the paths to the label."""

    model: TreeRanker
    x: CsrParts
    word: Callable[[int], str]
    paths: list[LabelPath]

    def lost(self, label: int, allowed: NDArray[np.bool_] | None) -> Pruned | None:
        """Return where the beam lost the label, at its best; None if the beam of some tree reaches it."""
        if not self.paths:
            return None
        own = None if allowed is None else allowed[: self.model.n_labels_]
        lost = find_pruning(self.model, self.x, label, allowed=own)
        return max(lost, key=lambda one: one.score) if len(lost) == len(self.model.trees_) else None


class _NewLabel(NamedTuple):
    """What speaks for a label without training rows."""

    base: float
    log_odds: float
    reason: MemberReason


def explain_tag(tagger: FittedTagger, text: str, label: int, question: Question, n_similar: int) -> Explanation:
    """Return why `tagger.tag` returns a label for a text, or why it does not; see `Tagger.explain`."""
    if not isinstance(text, str):
        raise InputError("explain takes one text", given=type(text).__name__)
    k = check_int(question.k, "k", low=1)
    if question.threshold is not None:
        check_float(question.threshold, "threshold")
    check_int(n_similar, "n_similar", low=0)
    language = question.language
    name = tagger.vocab_.name(label, language)
    ranked = tagger.rank([text], max(k, _LOOKED_AT), restrict=question.restrict, exclude=question.exclude)[0]
    place = next((place for place, (found, _) in enumerate(ranked, 1) if found == label), None)
    new = _new_label_reason(tagger, text, label, ranked, language)
    trees = [] if new is not None else _tree_rows(tagger, text, label)
    evidence = new or _evidence(tagger, text, label, question)
    members: tuple[MemberReason, ...] = ()
    if isinstance(evidence, _NewLabel):
        members = (evidence.reason,)
    elif evidence is not None:
        members = _members(tagger, text, label, question, trees, evidence)
    paths = trees[0].paths if trees else []
    model_score = float(np.mean([path.score for path in paths])) if paths else None
    if evidence is not None:
        model_score = float(sigmoid(np.array([evidence.log_odds]))[0])
    return Explanation(
        text=text,
        label=tagger.vocab_.number(label),
        name=name,
        uri=tagger.vocab_.uri(label),
        score=None if place is None else ranked[place - 1][1],
        model_score=model_score,
        place=place,
        verdict=_verdict(tagger, label, place, ranked, question, trees, members, tagger.learned_.said([text]).get(0)),
        paths=tuple(_named_path(trees[0].model, path, name, trees[0].word) for path in paths),
        similar=_similar(tagger, text, label, language, n_similar),
        read_words=() if paths else _read_words(tagger, text, label),
        read_as=getattr(tagger.model_, "explains_by", Explanation.read_as),
        members=members,
        base=None if evidence is None else evidence.base,
        log_odds=None if evidence is None else evidence.log_odds,
    )


def _new_label_reason(
    tagger: FittedTagger, text: str, label: int, ranked: list[tuple[int, float]], language: str | None
) -> _NewLabel | None:
    """Return what speaks for a label that is found by its names alone; None for others."""
    new = tagger.new_labels_
    if new is None or label not in new.labels:
        return None
    trained = [(one, score) for one, score in ranked if one not in new.labels]
    found = new.explain(text, label, Ranking.from_lists([trained], len(tagger.vocab_)))
    added = found.log_odds - found.base
    words = [f"words of its names or description: {', '.join(found.words)}"] if found.words else []
    names = ", ".join(tagger.vocab_.name(one, language) for one in found.similar)
    words += [f"labels with similar names are suggested: {names}"] if names else []
    share = added / max(1, len(found.words))
    reason = MemberReason(
        "Names of new labels",
        added,
        1 if words and added else None,
        "; ".join(words) or "neither its names nor labels with similar names fit the text",
        tuple(Word(word, share) for word in found.words),
    )
    return _NewLabel(found.base, found.log_odds, reason)


def _tree_rows(tagger: FittedTagger, text: str, label: int) -> list[_TreeRow]:
    """Return what each linear tree of the model makes of a text; nothing for models without one."""
    model = tagger.model_
    pairs = [(m.encoder, m.model) for m in model.members_] if isinstance(model, Ensemble) else [(None, model)]
    rows = []
    for own, tree in pairs:
        if isinstance(tree, TreeRanker):
            encoder = tagger.encoder_ if own is None else own
            features = encoder.transform([text])
            x = csr_parts(check_features(features if sparse.issparse(features) else np.asarray(features)))
            paths = explain_label(tree, x, label) if label < tree.n_labels_ else []
            rows.append(_TreeRow(tree, x, feature_words(encoder, text), paths))
    return rows


def _evidence(tagger: FittedTagger, text: str, label: int, question: Question) -> Evidence | None:
    """Return what the members of an ensemble found; None for other models and labels that are new to it."""
    model = tagger.model_
    if not isinstance(model, Ensemble) or label >= model.n_labels_:
        return None
    allowed = _allowed(tagger, question)
    return model.evidence(
        [text] if takes_texts(model) else tagger.encoder_.transform([text]),
        label,
        k=max(question.k, _LOOKED_AT),
        exclude=None if allowed is None else np.flatnonzero(~allowed),
    )


def _members(
    tagger: FittedTagger,
    text: str,
    label: int,
    question: Question,
    trees: list[_TreeRow],
    evidence: Evidence,
) -> tuple[MemberReason, ...]:
    """Return what each member of an ensemble found, in words."""
    allowed = _allowed(tagger, question)
    reasons = []
    for one in evidence.members:
        model = one.member.model
        reason = MemberReason(one.member.name, one.contribution, one.place, _place_words(one.place))
        if isinstance(model, TreeRanker):
            tree = next(row for row in trees if row.model is model)
            reason = replace(reason, reason=_tree_words(tagger, tree, label, one.place, allowed))
        elif isinstance(model, Neighbours):
            reason = _neighbour_reason(tagger, reason, one, label, question.language)
        elif isinstance(model, Centroids):
            reason = replace(reason, reason=_centroid_words(one, label))
        elif isinstance(model, NameMatcher):
            reason = _name_reason(reason, model, text, label)
        reasons.append(reason)
    if evidence.together is not None:
        other = None if evidence.partner is None else tagger.vocab_.name(evidence.partner, question.language)
        words = "no other candidate tells of it" if other is None else f"the other candidates, above all {other}"
        reasons.append(MemberReason(TOGETHER, evidence.together, None, words))
    return tuple(reasons)


def _place_words(place: int | None) -> str:
    return "not among its best labels" if place is None else f"number {place} of its ranking"


def _tree_words(
    tagger: FittedTagger,
    tree: _TreeRow,
    label: int,
    place: int | None,
    allowed: NDArray[np.bool_] | None,
) -> str:
    if place is None:
        if tagger.label_counts_[label] == 0:
            return "no training text has it"
        lost = tree.lost(label, allowed)
        return _place_words(None) if lost is None else f"the search pruned its branch at node {lost.node}"
    total: dict[str, float] = {}
    for path in tree.paths:
        for step in path.steps:
            for feature, weight in zip(step.features.tolist(), step.contributions.tolist(), strict=True):
                total[tree.word(feature)] = total.get(tree.word(feature), 0.0) + weight
    best = [word for word in sorted(total, key=lambda word: -total[word]) if total[word] > 0][:_NAMED]
    return _place_words(place) + (f", for {', '.join(best)}" if best else "")


def _neighbour_reason(
    tagger: FittedTagger, reason: MemberReason, one: MemberEvidence, label: int, language: str | None
) -> MemberReason:
    found = one.member.model.voters(one.rows, label)
    texts: list[Similar] = []
    kept = tagger.examples_
    for row, similarity in zip(found.rows.tolist(), found.similarity.tolist(), strict=True):
        place = None if kept is None or len(texts) == _NAMED else kept.place(row)
        if kept is not None and place is not None:
            names = tuple(tagger.vocab_.name(other, language) for other in kept.labels_of(place))
            texts.append(Similar(kept.texts[place], names, similarity))
    if found.n_nearest == 0:
        words = "no training text has a word of this text"
    elif found.rows.size == 0:
        words = f"none of the {found.n_nearest} most similar training texts has it"
    else:
        have = "has" if found.rows.size == 1 else "have"
        words = f"{found.rows.size} of the {found.n_nearest} most similar training texts {have} it"
        words += f", the nearest with similarity {found.similarity[0]:.2f}"
        words += "" if one.place is not None else "; other labels have more votes"
    return replace(reason, reason=words, texts=tuple(texts))


def _centroid_words(one: MemberEvidence, label: int) -> str:
    nearest = one.member.model.rank(one.rows, 1, restrict=[label])
    if nearest.labels.size == 0:
        return "its training texts have no word of this text"
    return f"cosine {nearest.scores[0]:.2f} with the mean of its training texts, {_place_words(one.place)}"


def _name_reason(reason: MemberReason, model: NameMatcher, text: str, label: int) -> MemberReason:
    name = model.matched_name(text, label)
    if name is None:
        return replace(reason, reason="its name is not in the text")
    found = model.explain_text(text, label)
    total = sum(loss for _, loss in found)
    words = tuple(Word(word, reason.contribution * loss / total) for word, loss in found if total > 0)
    spelled = ", ".join(word for word, _ in found)
    return replace(reason, reason=f"its name “{name}” matches: {spelled}", words=words)


def _read_words(tagger: FittedTagger, text: str, label: int) -> tuple[Word, ...]:
    """Return what words add to a label's score, for models that can tell (see `explains_texts`)."""
    model: Any = tagger.model_
    if not explains_texts(model) or label >= model.n_labels_:
        return ()
    return tuple(Word(word, weight) for word, weight in model.explain_text(text, label))


def _verdict(
    tagger: FittedTagger,
    label: int,
    place: int | None,
    ranked: list[tuple[int, float]],
    question: Question,
    trees: list[_TreeRow],
    members: tuple[MemberReason, ...],
    said: Said | None,
) -> Verdict:
    """Return the first reason that kept a label out of the answer, or ``suggested``."""
    k, threshold = question.k, question.threshold
    if tagger.vocab_.removed_mask()[label]:
        return Verdict("masked", "not suggested, because the label is masked.")
    described = tagger.new_labels_ is not None and label in tagger.new_labels_.labels
    in_answer = place is not None and place <= k
    learned = tagger.label_counts_[label] > 0 or knows_new_labels(tagger.model_)
    if not learned and not described and not in_answer:
        return Verdict("never in training", "not suggested, because no training text has this label.")
    if question.exclude is not None and label in question.exclude:
        return Verdict("excluded", "not suggested, because the request excludes the label.")
    if question.restrict is not None and label not in question.restrict:
        return Verdict("excluded", "not suggested, because the request is restricted to other labels.")
    if said is not None and label in said.rejected:
        return Verdict("rejected", "not suggested, because a person rejected it for this very text.")
    if place is None:
        lost = trees[0].lost(label, _allowed(tagger, question)) if trees else None
        unknown = bool(trees) and trees[0].x.indices.size == 0
        return _not_found(lost, members, len(ranked), unknown)
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
    because = ", because a person said so of this very text" if said is not None and label in said.right else ""
    return Verdict("suggested", f"suggested as number {place} with {score:.3f}{because}.")


def _allowed(tagger: FittedTagger, question: Question) -> NDArray[np.bool_] | None:
    """Return which labels of the model may be returned; None where all may."""
    allowed = ~tagger.vocab_.removed_mask()
    wanted = allowed_labels(question.restrict, question.exclude, allowed.size)
    if wanted is not None:
        allowed &= wanted.mask
    return None if allowed.all() else allowed[: getattr(tagger.model_, "n_labels_", allowed.size)]


def _not_found(lost: Pruned | None, members: tuple[MemberReason, ...], n_ranked: int, unknown: bool) -> Verdict:
    """Return the verdict on a label that is not in the ranking; `unknown`: no word of the text is known."""
    none_known = " None of the text's words are known to the model." if unknown else ""
    node, competitor = (None, None) if lost is None else (lost.node, lost.competitor)
    if members and all(one.place is None for one in members):
        found = "; ".join(f"{one.member}: {one.reason}" for one in members)
        return Verdict("not found", f"not suggested: no member found it ({found}).{none_known}", node, competitor)
    if lost is None or members:
        return Verdict("beyond the limit", f"not suggested: it is not among the best {n_ranked} labels.{none_known}")
    words = (
        f"not suggested: the search pruned its branch (node {lost.node}, depth {lost.depth}, "
        f"score {lost.score:.3g}); the last of {lost.beam_width} places went to node {lost.competitor} "
        f"with {lost.competitor_score:.3g}.{none_known}"
    )
    return Verdict("pruned", words, node, competitor)


def _named_path(model: TreeRanker, path: LabelPath, name: str, word: Callable[[int], str]) -> Path:
    tree = model.trees_[path.tree].tree
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
    """Return the number of labels (copies counted) below a node; those of one generation are adjacent.

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


def _similar(tagger: FittedTagger, text: str, label: int, language: str | None, n: int) -> tuple[Similar, ...]:
    if tagger.examples_ is None or n == 0:
        return ()
    found = tagger.examples_.similar(text, label, n) or tagger.examples_.similar(text, None, n)
    return tuple(
        Similar(one.text, tuple(tagger.vocab_.name(i, language) for i in one.labels), one.similarity) for one in found
    )


def feature_words(encoder: Any, text: str) -> Callable[[int], str]:
    """Return a function from feature to word.

    Hashed features have no names: those of `text` are found by encoding its words and pairs of words one by one.
    Numbers of a vector mean nothing one by one: all have the name `VECTOR`.
    """
    if isinstance(encoder, ConcatEncoder):
        return _by_block(encoder, text)
    if not hasattr(encoder, "feature_names"):
        return lambda feature: VECTOR
    if isinstance(encoder, TfidfEncoder) and not encoder.hash_bits:
        return cache(encoder.feature_name)
    try:
        names = encoder.feature_names()
    except InputError:
        found = _by_trying(encoder, text)
        return lambda feature: found.get(feature, f"feature {feature}")
    return lambda feature: str(names[feature])


def _by_block(encoder: ConcatEncoder, text: str) -> Callable[[int], str]:
    """Return a function that looks a feature up in the block it belongs to."""
    words = [feature_words(one, text) for one in encoder.encoders]
    starts = np.cumsum([0, *(one.n_features for one in encoder.encoders)])

    def word(feature: int) -> str:
        block = int(np.searchsorted(starts, feature, side="right")) - 1
        return words[block](feature - int(starts[block]))

    return word


def _by_trying(encoder: Any, text: str) -> dict[int, str]:
    words = _WORD.findall(text)[:_MOST_WORDS]
    grams = list(dict.fromkeys([*words, *map(" ".join, pairwise(words))]))
    found: dict[int, str] = {}
    if not grams or not hasattr(encoder, "transform_parts"):
        return found
    rows = encoder.transform_parts(grams)
    for gram, begin, end in zip(grams, rows.indptr[:-1], rows.indptr[1:], strict=True):
        for feature in np.asarray(rows.indices[begin:end]).tolist():
            found.setdefault(feature, gram)  # words come before pairs, so a pair names only what is its own
    return found
