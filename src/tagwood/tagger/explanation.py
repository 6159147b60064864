"""`Explanation`: why a label was suggested for a text, or at which step it was lost.

In: a fitted Tagger, a text, a label. Out: the words, the path through the tree, similar training texts and a verdict,
as data, JSON, text or HTML. All text from outside is escaped in HTML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagwood._check import check_float, check_int
from tagwood._sparse import CsrParts, check_features, csr_parts
from tagwood.errors import InputError
from tagwood.features.base import fold_text, word_spans
from tagwood.features.concat import ConcatEncoder
from tagwood.models.base import explains_texts, reads_label_texts
from tagwood.models.linear_tree.explanation import LabelPath, PathStep, Pruned, explain_label, find_pruning
from tagwood.tagger.fitting import linear_tree_of
from tagwood.tagger.stored import FittedTagger
from tagwood.trees.label_tree import LabelTree

VECTOR = "[text vector]"
"""Name of all features of a dense vector in explanations."""

_SHOWN = 8
_LOOKED_AT = 50  # labels of the ranking in which the label is looked for
_BEAM_WIDTH = 10  # of the search in `rank`
_MOST_WORDS = 5000  # words of a text that are looked up one by one
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Word:
    """A word (or n-gram) and what it adds to a margin."""

    word: str
    weight: float


@dataclass(frozen=True)
class Step:
    """One decision on the path to a label; `words` and `bias` add up to `margin`."""

    node: int
    leads_to: str
    labels_below: int
    margin: float
    bias: float
    probability: float
    words: tuple[Word, ...]
    top_words: tuple[str, ...]


@dataclass(frozen=True)
class Path:
    """The path to a label in one tree; its score is the product of the steps' probabilities."""

    tree: int
    score: float
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Similar:
    """A training text similar to the explained one."""

    text: str
    labels: tuple[str, ...]
    similarity: float


@dataclass(frozen=True)
class Verdict:
    """Whether a label was suggested, and why not.

    `reason` is one of ``suggested``, ``masked``, ``never in training``, ``excluded``, ``below the threshold``,
    ``beyond the limit``, ``pruned``; `words` is a sentence. `node` and `competitor` are set where beam search pruned
    the label: `node` fell out of the beam, `competitor` took the last place.
    """

    reason: str
    words: str
    node: int | None = None
    competitor: int | str | None = None


class Segment(NamedTuple):
    """A piece of a text and what it adds to a label's score; None for what is between the words."""

    text: str
    weight: float | None


@dataclass(frozen=True)
class Explanation:
    """Why a label was suggested for a text, or why not.

    Parameters
    ----------
    text, label, name, uri
        The explained text and label.
    score
        As `tag` gives it; None where the search did not find the label.
    model_score
        The model's own score, before it became a probability; None for models without a tree.
    place
        1 for the best label; None where the search did not find it.
    read_words
        Words and what they add to the score, of models that read texts and have no paths.
    read_as
        What these weights mean.
    """

    text: str
    label: int
    name: str
    uri: str | None
    score: float | None
    model_score: float | None
    place: int | None
    verdict: Verdict
    paths: tuple[Path, ...]
    similar: tuple[Similar, ...]
    read_words: tuple[Word, ...] = ()
    read_as: str = "what the score loses without them"

    @property
    def suggested(self) -> bool:
        """Whether `tag` returns the label."""
        return self.verdict.reason == "suggested"

    @property
    def words(self) -> list[tuple[str, float]]:
        """Words with the sum of their contributions on all paths, largest first."""
        total = {word.word: word.weight for word in self.read_words}
        for path in self.paths:
            for step in path.steps:
                for word in step.words:
                    total[word.word] = total.get(word.word, 0.0) + word.weight / len(self.paths)
        return sorted(total.items(), key=lambda item: (-item[1], item[0]))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        words = [{"word": word, "weight": weight} for word, weight in self.words]
        own = asdict(self)
        del own["read_words"], own["read_as"]
        return {**own, "suggested": self.suggested, "words": words}

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def to_text(self) -> str:
        """Return a short report."""
        lines = [f"{self.name}: {self.verdict.words}"]
        if self.words:
            where = ", summed over the path" if self.paths else f": {self.read_as}"
            lines += ["", f"Words for (+) and against (-) it{where}:"]
            lines += [f"  {weight:+7.3f}  {word}" for word, weight in self._extremes()]
        for path in self.paths:
            lines += ["", f"Path in tree {path.tree}, score {path.score:.3f}:"]
            lines += [f"  {line}" for step in path.steps for line in _step_lines(step)]
        if self.similar:
            lines += ["", "Similar training texts:"]
            lines += [
                f"  {one.similarity:.2f}  {shorten(one.text)}  [{', '.join(one.labels)}]"
                for one in self.similar
            ]
        return "\n".join(lines)

    def segments(self) -> list[Segment]:
        """Return the text in pieces, so that words can be highlighted by their weight."""
        return segment_text(self.text, self.words)

    def to_html(self) -> str:
        """Return an HTML card; it has no scripts and loads nothing."""
        name = escape(self.name)
        link = _link(self.uri or "")
        parts = [f"<h2>{name}</h2>{link}", f"<p>{escape(self.verdict.words)}</p>"]
        if self.words:
            rows = "".join(_row(f"{weight:+.3f}", word) for word, weight in self._extremes())
            parts.append(f"<h3>Words</h3><table>{rows}</table>")
        for path in self.paths:
            items = "".join(f"<li>{'<br>'.join(map(escape, _step_lines(step)))}</li>" for step in path.steps)
            parts.append(f"<h3>Path in tree {path.tree}, score {path.score:.3f}</h3><ol>{items}</ol>")
        if self.similar:
            rows = "".join(
                _row(f"{one.similarity:.2f}", shorten(one.text), ", ".join(one.labels))
                for one in self.similar
            )
            parts.append(f"<h3>Similar training texts</h3><table>{rows}</table>")
        return f'<article class="tagwood-why">{"".join(parts)}</article>'

    def _extremes(self) -> list[tuple[str, float]]:
        """Return the strongest words for and against, in order."""
        words = self.words
        return words if len(words) <= _SHOWN else words[: _SHOWN - 2] + words[-2:]


def segment_text(text: str, words: Iterable[tuple[str, float]]) -> list[Segment]:
    """Cut a text into pieces with the weights of words and n-grams.

    The weight of an n-gram is split evenly over its words, where they are adjacent in the text. In scripts without
    spaces each character is a word, as it is for the encoder.

    Examples
    --------
    >>> [tuple(one) for one in segment_text("Old oaks, bark.", [("oaks", 0.5), ("oaks bark", 0.5), ("ash", 1.0)])]
    [('Old ', None), ('oaks', 0.75), (', ', None), ('bark', 0.25), ('.', None)]
    """
    weights: dict[tuple[str, ...], float] = {}
    for word, weight in words:
        key = tuple(_folded_words(word))
        weights[key] = weights.get(key, 0.0) + weight
    longest = max(map(len, weights), default=0)
    spans, tokens = word_spans(text), _folded_words(text)
    sums: dict[int, float] = {}
    for place in range(len(tokens)):
        for size in range(1, longest + 1):
            gram = tuple(tokens[place : place + size])
            if len(gram) == size and gram in weights:
                for inside in range(place, place + size):
                    sums[inside] = sums.get(inside, 0.0) + weights[gram] / size
    pieces, done = [], 0
    for place, weight in sorted(sums.items()):
        begin, end = spans[place]
        pieces += [Segment(text[done:begin], None)] if begin > done else []
        pieces.append(Segment(text[begin:end], weight))
        done = end
    return pieces + ([Segment(text[done:], None)] if done < len(text) else [])


def _folded_words(text: str) -> list[str]:
    return [fold_text(text[begin:end]) for begin, end in word_spans(text)]


def _step_lines(step: Step) -> list[str]:
    strongest = sorted(step.words, key=lambda word: -abs(word.weight))[:5]
    shown = ", ".join(f"{word.word} {word.weight:+.2f}" for word in strongest) or "no known word"
    head = f"{step.leads_to} (p {step.probability:.3f}, margin {step.margin:+.2f} = bias {step.bias:+.2f} + words)"
    return [head, f"  this text: {shown}", f"  typical: {', '.join(step.top_words) or '-'}"]


def _row(*cells: str) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def shorten(text: str, longest: int = 80) -> str:
    """Return a text in one line of at most `longest` characters."""
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _link(uri: str) -> str:
    """Return a link for web addresses only: others could be scripts."""
    if not uri.startswith(("http://", "https://")):
        return ""
    return f' <a href="{escape(uri)}">{escape(uri)}</a>'


def feature_words(encoder: Any, text: str) -> Callable[[int], str]:
    """Return a function from feature to word.

    Hashed features have no names: those of `text` are found by encoding its words and pairs of words one by one.
    Numbers of a vector mean nothing one by one: all have the name `VECTOR`.
    """
    if isinstance(encoder, ConcatEncoder):
        return _by_block(encoder, text)
    if not hasattr(encoder, "feature_names"):
        return lambda feature: VECTOR
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


class Question(NamedTuple):
    """The arguments of the call of `tag` that is explained; labels are ids."""

    k: int
    threshold: float | None
    restrict: list[int] | None
    exclude: list[int]
    language: str | None


def explain_tag(
    tagger: FittedTagger, text: str, label: int, question: Question, n_similar: int
) -> Explanation:
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
    paths: list[LabelPath] = []
    x = _row_explaining(tagger.encoder_.transform([text]))
    tree = linear_tree_of(tagger.model_)
    if tree is not None and label < tree.n_labels_:
        paths = explain_label(tree, x, label)
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


def _read_words(tagger: FittedTagger, text: str, label: int) -> tuple[Word, ...]:
    """Return what words add to a label's score, for models that can tell (see `explains_texts`)."""
    model: Any = tagger.model_
    if not explains_texts(model) or label >= model.n_labels_:
        return ()
    return tuple(Word(word, weight) for word, weight in model.explain_text(text, label))


def _verdict(
    tagger: FittedTagger,
    x: CsrParts,
    label: int,
    place: int | None,
    ranked: list[tuple[int, float]],
    question: Question,
) -> Verdict:
    """Return the first reason that kept a label out of the answer, or ``suggested``."""
    k, threshold = question.k, question.threshold
    if tagger.vocab_.removed_mask()[label]:
        return Verdict("masked", "not suggested, because the label is masked.")
    described = tagger.label_texts_ is not None and label in tagger.label_texts_.labels
    in_answer = place is not None and place <= k
    learned = tagger.label_counts_[label] > 0 or reads_label_texts(tagger.model_)
    if not learned and not described and not in_answer:
        return Verdict("never in training", "not suggested, because no training text has this label.")
    if label in question.exclude:
        return Verdict("excluded", "not suggested, because the request excludes the label.")
    if question.restrict is not None and label not in question.restrict:
        return Verdict("excluded", "not suggested, because the request is restricted to other labels.")
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


def _allowed(tagger: FittedTagger, question: Question) -> NDArray[np.bool_] | None:
    """Return which labels of the model may be returned; None where all may."""
    allowed = ~tagger.vocab_.removed_mask()
    if question.restrict is not None:
        allowed &= np.isin(np.arange(allowed.size), question.restrict)
    allowed[question.exclude] = False
    return None if allowed.all() else allowed[: getattr(tagger.model_, "n_labels_", allowed.size)]


def _not_found(
    tagger: FittedTagger, x: CsrParts, label: int, allowed: NDArray[np.bool_] | None, n_ranked: int
) -> Verdict:
    lost: list[Pruned] = []
    tree = linear_tree_of(tagger.model_)
    if tree is not None and label < tree.n_labels_:
        lost = find_pruning(tree, x, label, beam_width=_BEAM_WIDTH, allowed=allowed)
        if len(lost) < len(tree.trees_):
            lost = []  # some tree looked at it
    none_known = " None of the text's words are known to the model." if x.indices.size == 0 else ""
    if not lost:
        return Verdict(
            "beyond the limit", f"not suggested: it is not among the best {n_ranked} labels.{none_known}"
        )
    where = max(lost, key=lambda one: one.score)
    words = (
        f"not suggested: the search pruned its branch (node {where.node}, depth {where.depth}, "
        f"score {where.score:.3g}); the last of {where.beam_width} places went to node {where.competitor} "
        f"with {where.competitor_score:.3g}.{none_known}"
    )
    return Verdict("pruned", words, where.node, where.competitor)


def _named_path(tagger: FittedTagger, path: LabelPath, name: str, word: Callable[[int], str]) -> Path:
    model = linear_tree_of(tagger.model_)
    assert model is not None
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


def _similar(
    tagger: FittedTagger, text: str, label: int, language: str | None, n: int
) -> tuple[Similar, ...]:
    if tagger.examples_ is None or n == 0:
        return ()
    found = tagger.examples_.similar(text, label, n) or tagger.examples_.similar(text, None, n)
    return tuple(
        Similar(one.text, tuple(tagger.vocab_.name(i, language) for i in one.labels), one.similarity)
        for one in found
    )


def _row_explaining(features: Any) -> CsrParts:
    return csr_parts(check_features(features if sparse.issparse(features) else np.asarray(features)))
