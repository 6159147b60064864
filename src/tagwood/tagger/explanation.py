"""`Explanation`: why a label was suggested for a text, or at which step it was lost.

In: what `reasons` found. Out: verdict, words, what each member of an ensemble adds, the path through the tree and
similar training texts, as data, JSON, text or HTML. All text from outside is escaped in HTML.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, NamedTuple

from tagwood.features.base import fold_text, word_spans

_SHOWN = 8


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

    `reason` is one of ``suggested``, ``masked``, ``never in training``, ``excluded``, ``rejected``, ``below the
    threshold``, ``beyond the limit``, ``pruned``, ``not found`` (by any member of an ensemble); `words` is a sentence.
    `node` and `competitor` are set where beam search pruned the label: `node` fell out of the beam, `competitor` took
    the last place.
    """

    reason: str
    words: str
    node: int | None = None
    competitor: int | str | None = None


@dataclass(frozen=True)
class MemberReason:
    """What one member of an ensemble found, and what it adds to the label's log odds.

    Parameters
    ----------
    member
        Name of the member.
    contribution
        Shapley value: with `Explanation.base`, those of all members add up to `Explanation.log_odds`.
    place
        1 for the member's best label; None where the member did not find it.
    reason
        What it found, in words.
    words
        Words of the label's name in the text; they share the contribution.
    texts
        The most similar training texts with the label, as far as the model keeps them.
    """

    member: str
    contribution: float
    place: int | None
    reason: str
    words: tuple[Word, ...] = ()
    texts: tuple[Similar, ...] = ()


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
        The model's own score, before calibration; None for models with neither trees nor members.
    place
        1 for the best label; None where the search did not find it.
    read_words
        Words and what they add to the score, of models that read texts and have no paths.
    read_as
        What these weights mean.
    members
        What each member of an ensemble found; empty for other models.
    base, log_odds
        Log odds of a label that no member finds, and of this label; None without members.
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
    members: tuple[MemberReason, ...] = ()
    base: float | None = None
    log_odds: float | None = None

    @property
    def suggested(self) -> bool:
        """Whether `tag` returns the label."""
        return self.verdict.reason == "suggested"

    @property
    def words(self) -> list[tuple[str, float]]:
        """Words with what they add, largest first: to the margins on the path, or to the match of the label's name."""
        total = {word.word: word.weight for word in self.read_words}
        for member in self.members:
            for word in member.words:
                total[word.word] = total.get(word.word, 0.0) + word.weight
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
        if self.members:
            widest = max(len(one.member) for one in self.members)
            lines += ["", f"{self._sum_words()}:"]
            for one in self.members:
                lines.append(f"  {one.contribution:+7.3f}  {one.member:<{widest}}  {one.reason}")
                lines += [f"{'':{widest + 13}}{text.similarity:.2f}  {shorten(text.text)}" for text in one.texts]
        if self.words:
            where = ", summed over the path" if self.paths else f": {self.read_as}" if self.read_words else ""
            lines += ["", f"Words for (+) and against (-) it{where}:"]
            lines += [f"  {weight:+7.3f}  {word}" for word, weight in self._extremes()]
        for path in self.paths:
            lines += ["", f"Path in tree {path.tree}, score {path.score:.3f}:"]
            lines += [f"  {line}" for step in path.steps for line in _step_lines(step)]
        if self.similar:
            lines += ["", "Similar training texts:"]
            lines += [f"  {one.similarity:.2f}  {shorten(one.text)}  [{', '.join(one.labels)}]" for one in self.similar]
        return "\n".join(lines)

    def segments(self) -> list[Segment]:
        """Return the text in pieces, so that words can be highlighted by their weight."""
        return segment_text(self.text, self.words)

    def to_html(self) -> str:
        """Return an HTML card; it has no scripts and loads nothing."""
        name = escape(self.name)
        link = _link(self.uri or "")
        parts = [f"<h2>{name}</h2>{link}", f"<p>{escape(self.verdict.words)}</p>"]
        if self.members:
            rows = ""
            for m in self.members:
                rows += _row(f"{m.contribution:+.3f}", m.member, m.reason)
                rows += "".join(_row("", f"{one.similarity:.2f}", shorten(one.text)) for one in m.texts)
            parts.append(f"<h3>Members</h3><p>{escape(self._sum_words())}</p><table>{rows}</table>")
        if self.words:
            rows = "".join(_row(f"{weight:+.3f}", word) for word, weight in self._extremes())
            parts.append(f"<h3>Words</h3><table>{rows}</table>")
        for path in self.paths:
            items = "".join(f"<li>{'<br>'.join(map(escape, _step_lines(step)))}</li>" for step in path.steps)
            parts.append(f"<h3>Path in tree {path.tree}, score {path.score:.3f}</h3><ol>{items}</ol>")
        if self.similar:
            rows = "".join(
                _row(f"{one.similarity:.2f}", shorten(one.text), ", ".join(one.labels)) for one in self.similar
            )
            parts.append(f"<h3>Similar training texts</h3><table>{rows}</table>")
        return f'<article class="tagwood-why">{"".join(parts)}</article>'

    def _sum_words(self) -> str:
        """Return what the contributions of members start from and add up to."""
        base, log_odds, share = self.base or 0.0, self.log_odds or 0.0, self.model_score or 0.0
        return (
            f"What each member adds to the log odds, from {base:+.3f} (a label that none finds) "
            f"to {log_odds:+.3f} (probability {share:.3f})"
        )

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
