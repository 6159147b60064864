"""`Explanation`: why a label was suggested, or where it was lost, as data, JSON, text or a card of HTML.

In: what `explaining` found. Out: something to show. Everything that comes from outside is escaped in HTML.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

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
    """A training text like the one asked about."""

    text: str
    labels: tuple[str, ...]
    similarity: float


@dataclass(frozen=True)
class Verdict:
    """What became of a label.

    `reason` is one of ``suggested``, ``masked``, ``never in training``, ``excluded``, ``below the threshold``,
    ``beyond the limit``, ``pruned``; `words` says it in a sentence. `node` and `competitor` are set where a beam left
    the label behind: `node` fell out, `competitor` took the last place.
    """

    reason: str
    words: str
    node: int | None = None
    competitor: int | str | None = None


@dataclass(frozen=True)
class Explanation:
    """Why a label was suggested for a text, or why not.

    Parameters
    ----------
    text, label, name, uri
        What was asked about.
    score
        As `tag` gives it; None where the search did not find the label.
    model_score
        The model's own score, before it became a probability; None for models without a tree.
    place
        1 for the best label; None where the search did not find it.
    read_words
        Words and what they add to the score, of models that read texts and have no paths.
    read_as
        What these weights are, in words.
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
        """Return a short account in lines."""
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
                f"  {one.similarity:.2f}  {_cut(one.text)}  [{', '.join(one.labels)}]" for one in self.similar
            ]
        return "\n".join(lines)

    def to_html(self) -> str:
        """Return a card of HTML; it has no scripts and loads nothing."""
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
                _row(f"{one.similarity:.2f}", _cut(one.text), ", ".join(one.labels)) for one in self.similar
            )
            parts.append(f"<h3>Similar training texts</h3><table>{rows}</table>")
        return f'<article class="tagwood-why">{"".join(parts)}</article>'

    def _extremes(self) -> list[tuple[str, float]]:
        """Return the strongest words for and against, in order."""
        words = self.words
        return words if len(words) <= _SHOWN else words[: _SHOWN - 2] + words[-2:]


def _step_lines(step: Step) -> list[str]:
    strongest = sorted(step.words, key=lambda word: -abs(word.weight))[:5]
    shown = ", ".join(f"{word.word} {word.weight:+.2f}" for word in strongest) or "no known word"
    head = f"{step.leads_to} (p {step.probability:.3f}, margin {step.margin:+.2f} = bias {step.bias:+.2f} + words)"
    return [head, f"  this text: {shown}", f"  typical: {', '.join(step.top_words) or '-'}"]


def _row(*cells: str) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _cut(text: str, longest: int = 80) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _link(uri: str) -> str:
    """Return a link for addresses of the web only: others could be scripts."""
    if not uri.startswith(("http://", "https://")):
        return ""
    return f' <a href="{escape(uri)}">{escape(uri)}</a>'
