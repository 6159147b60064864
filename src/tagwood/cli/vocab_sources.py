"""Where `tagwood vocab` gets label tables from: models and files. In: a path. Out: a `Source`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tagwood.data import LabelVocab
    from tagwood.data.skos import Thesaurus


class Source(NamedTuple):
    """A label table and what else is known: training rows per label, the model's data, a SKOS file's extras."""

    vocab: LabelVocab
    counts: NDArray[np.int64] | None = None
    fingerprint: str | None = None
    thesaurus: Thesaurus | None = None

    def select(self, contains: str | None, *, masked: bool, sort: str, language: str | None) -> list[int]:
        """Return the ids of the labels that are asked for, in order."""
        gone = self.vocab.removed_mask()
        chosen = [label for label in range(len(self.vocab)) if gone[label] or not masked]
        if contains is not None:
            needle = contains.casefold()
            chosen = [label for label in chosen if any(needle in text for text in self._texts(label))]
        if sort == "name":
            chosen.sort(key=lambda label: self.vocab.name(label, language).casefold())
        elif sort == "rows" and self.counts is not None:
            counts = self.counts
            chosen.sort(key=lambda label: -int(counts[label]))
        return chosen

    def line(self, label: int, language: str | None) -> str:
        """Return a label as a line: training rows, name, mask, URI."""
        rows = "" if self.counts is None else f"{self.counts[label]:>9,}  "
        uri = self.vocab.uri(label)
        mask = "  (masked)" if self._is_masked(label) else ""
        return f"{rows}{self.vocab.name(label, language)}{mask}{f'  <{uri}>' if uri else ''}"

    def entry(self, label: int, language: str | None = None) -> dict[str, Any]:
        """Return id, name and URI of a label."""
        return {"id": label, "name": self.vocab.name(label, language), "uri": self.vocab.uri(label)}

    def as_dict(self, label: int, language: str | None) -> dict[str, Any]:
        """Return all that is known of a label."""
        facts = self.entry(label, language)
        facts["languages"] = {
            code: table[label] for code, table in self.vocab.languages.items() if table[label]
        }
        facts["masked"] = self._is_masked(label)
        if self.counts is not None:
            facts["rows"] = int(self.counts[label])
        if self.thesaurus is not None:
            facts["notation"] = self.thesaurus.notations[label] or None
            facts["broader"] = self.thesaurus.broader[label]
        return facts

    def describe(self, label: int) -> str:
        """Return the words that describe a label: of a SKOS file with alternative names, else its name."""
        return self.vocab.name(label) if self.thesaurus is None else self.thesaurus.texts[label]

    def _is_masked(self, label: int) -> bool:
        return self.vocab.removed is not None and bool(self.vocab.removed[label])

    def _texts(self, label: int) -> list[str]:
        names = [self.vocab.name(label), *(table[label] for table in self.vocab.languages.values())]
        return [text.casefold() for text in (*names, self.vocab.uri(label) or "")]


def open_source(path: Path, language: str | None = None) -> Source:
    """Open a model folder or a file; `language` is that of the main names."""
    from tagwood.data import read_vocab
    from tagwood.data.skos import rdf_format, read_skos

    if path.is_dir():
        from tagwood.cli.predict import load_tagger

        tagger = load_tagger(path)
        return Source(tagger.vocab_, tagger.label_counts_, tagger.fingerprint_)
    if rdf_format(path) is not None:
        found = read_skos(path, language)
        return Source(found.vocab, thesaurus=found)
    return Source(read_vocab(path, language))
