"""Plain texts, one per line: Annif's TSV, PECOS, fastText, AttentionXML.

In: a file or folder. Out: a `Record` per text, and the files of a `Dataset` with texts. Where labels are separated by
spaces, label names have ``_`` in place of spaces. In lines, line breaks and tabs of texts are written as spaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from tagwood.data.dataset import Dataset
from tagwood.data.files import decoded_line, existing, numbered_lines, open_for_writing, split_folder
from tagwood.data.records import (
    Named,
    ReadOptions,
    Record,
    build_dataset,
    flat_text,
    line_records,
    need_texts,
    parse_ids,
)
from tagwood.data.vocab import LabelVocab
from tagwood.data.vocab_files import clean_uri
from tagwood.errors import DataError, InputError

FASTTEXT_PREFIX = "__label__"


def annif_records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of Annif's TSV: ``text<TAB><uri> <uri>``."""

    def parse(line: str) -> Record:
        text, uris = _cells(line, "text and URIs")
        return Record(text, parse_uris(uris))

    return line_records(path, options, parse)


def write_annif(dataset: Dataset, path: Path) -> None:
    """Write Annif's TSV; labels without a URI are written by name."""
    uris = bracketed_uris(dataset.vocab)
    with open_for_writing(path) as file:
        for text, labels in _rows(dataset, "Annif's TSV"):
            file.write(f"{text}\t{' '.join(uris[label] for label in labels)}\n")


def bracketed_uris(vocab: LabelVocab) -> list[str]:
    """Return ``<uri>`` for each label; the name without spaces where there is no URI."""
    words = vocab.words()
    uris = [vocab.uri(label) or words[label] for label in range(len(vocab))]
    for label, uri in enumerate(uris):
        if uri.split() != [uri] or vocab.find_word(uri) != label:
            raise InputError("Annif's formats need a distinct URI without spaces for each label", given=repr(uri))
    return [f"<{uri}>" for uri in uris]


def parse_uris(cell: str) -> list[Named]:
    """Return the labels of ``<uri> <uri>``."""
    labels = [Named(clean_uri(word), "") for word in cell.split()]
    if not all(label.uri for label in labels):
        raise DataError("contains an empty URI")
    return labels


def pecos_records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of PECOS text: ``id,id<TAB>text``."""

    def parse(line: str) -> Record:
        labels, text = _cells(line, "label ids and text")
        return Record(text, parse_ids(labels))

    return line_records(path, options, parse)


def _cells(line: str, what: str) -> tuple[str, str]:
    first, tab, second = line.partition("\t")
    if not tab:
        raise DataError(f"has no tab between {what}")
    return first, second


def write_pecos(dataset: Dataset, path: Path) -> None:
    """Write PECOS text."""
    with open_for_writing(path) as file:
        for text, labels in _rows(dataset, "PECOS text"):
            file.write(f"{','.join(map(str, labels))}\t{text}\n")


def fasttext_records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of fastText: ``__label__a __label__b text``; as there, labels may be anywhere in the line."""

    def parse(line: str) -> Record:
        labels, at = [], 0
        while line.startswith(FASTTEXT_PREFIX, at):  # by position: cutting the line each time would be quadratic
            end = line.find(" ", at)
            end = len(line) if end < 0 else end
            labels.append(_fasttext_name(line[at:end]))
            at = min(end + 1, len(line))
        line = line[at:]
        if FASTTEXT_PREFIX in line:
            words = line.split()
            labels += [_fasttext_name(word) for word in words if word.startswith(FASTTEXT_PREFIX)]
            line = " ".join(word for word in words if not word.startswith(FASTTEXT_PREFIX))
        return Record(line, labels)

    return line_records(path, options, parse)


def write_fasttext(dataset: Dataset, path: Path) -> None:
    """Write fastText."""
    words = [FASTTEXT_PREFIX + word for word in dataset.vocab.words()]
    with open_for_writing(path) as file:
        for row, (text, labels) in enumerate(_rows(dataset, "fastText")):
            if FASTTEXT_PREFIX in text:
                raise InputError(
                    f"texts must not contain {FASTTEXT_PREFIX!r} in the fastText format",
                    given=f"row {row}",
                    hint="Use jsonl.",
                )
            file.write(" ".join([*(words[label] for label in labels), text]) + "\n")


def _fasttext_name(word: str) -> str:
    name = word.removeprefix(FASTTEXT_PREFIX).strip()
    if not name:
        raise DataError(f"{FASTTEXT_PREFIX!r} is not followed by a name")
    return name


def read_attentionxml(path: Path, options: ReadOptions) -> Dataset:
    """Read one split of AttentionXML's folder; errors name the file with the labels."""
    _, label_file = _attentionxml_files(path, options)
    return build_dataset(attentionxml_records(path, options), label_file, options, words=True)


def attentionxml_records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the rows of ``train_texts.txt`` and ``train_labels.txt`` (names between spaces), or of ``test_`` files."""
    text_file, label_file = _attentionxml_files(path, options)
    of_texts, of_labels = options.encoding_of(text_file), options.encoding_of(label_file)
    for texts, labels in zip_longest(numbered_lines(text_file, of_texts), numbered_lines(label_file, of_labels)):
        if texts is None or labels is None:
            shorter, other = (label_file, text_file) if labels is None else (text_file, label_file)
            line = (texts or labels or (0, b""))[0]
            options.bad.report(DataError(f"ends before {other.name} does", path=shorter, line=line))
            return
        text = decoded_line(text_file, texts, options.bad, of_texts)
        names = decoded_line(label_file, labels, options.bad, of_labels)
        if text is not None and names is not None:
            yield Record(text, names.split(), line=labels[0])


def write_attentionxml(dataset: Dataset, path: Path) -> None:
    """Write AttentionXML's folder as a training split."""
    rows = _rows(dataset, "AttentionXML")
    words = dataset.vocab.words()
    path.mkdir(parents=True, exist_ok=True)
    with (
        open_for_writing(path / "train_texts.txt") as texts,
        open_for_writing(path / "train_labels.txt") as names,
    ):
        for text, labels in rows:
            texts.write(text + "\n")
            names.write(" ".join(words[label] for label in labels) + "\n")


def _attentionxml_files(path: Path, options: ReadOptions) -> tuple[Path, Path]:
    folder, split = split_folder(path, options.split, {"train_": "train", "test_": "test"})
    return (
        existing(folder / f"{split}_texts.txt", "the texts"),
        existing(folder / f"{split}_labels.txt", "the labels"),
    )


def _rows(dataset: Dataset, what: str) -> Iterator[tuple[str, list[int]]]:
    """Return the text on one line and the label ids of each row."""
    texts = need_texts(dataset, what)
    return zip(map(flat_text, texts), dataset.label_lists(), strict=True)
