"""Plain texts: one per line (Annif's TSV, PECOS, fastText, AttentionXML), or one per file (Annif's folders).

In: a file or folder. Out: a `Record` per text, and the files of a `Dataset` with texts. Where labels are separated by
spaces, label names have ``_`` in place of spaces. In lines, line breaks and tabs of texts are written as spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from tagwood.data.dataset import Dataset
from tagwood.data.files import (
    BadLines,
    decoded_lines,
    existing,
    numbered_lines,
    open_bytes,
    open_for_writing,
    reading_errors,
    split_folder,
)
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
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


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
        labels = []
        while line.startswith(FASTTEXT_PREFIX):
            word, _, line = line.partition(" ")
            labels.append(_fasttext_name(word))
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
    for texts, labels in zip_longest(numbered_lines(text_file), numbered_lines(label_file)):
        if texts is None or labels is None:
            shorter, other = (label_file, text_file) if labels is None else (text_file, label_file)
            line = (texts or labels or (0, b""))[0]
            options.bad.report(DataError(f"ends before {other.name} does", path=shorter, line=line))
            return
        text = _decode(text_file, texts, options.bad, options.encoding)
        names = _decode(label_file, labels, options.bad, options.encoding)
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


def _decode(path: Path, line: tuple[int, bytes], bad: BadLines, encoding: str) -> str | None:
    try:
        return line[1].decode(encoding)
    except UnicodeDecodeError as error:
        bad.report(DataError(f"byte {error.start + 1} is not {encoding} text", path=path, line=line[0]))
        return None


def _rows(dataset: Dataset, what: str) -> Iterator[tuple[str, list[int]]]:
    """Return the text on one line and the label ids of each row."""
    texts = need_texts(dataset, what)
    return zip(map(flat_text, texts), dataset.label_lists(), strict=True)


def document_records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield each ``name.txt`` of a folder; its labels are in ``name.key`` (names) or ``name.tsv`` (``<uri>``, name)."""
    if not path.is_dir():
        raise DataError("is not a folder of .txt files with .key or .tsv files", path=path)
    files = sorted(file for file in path.iterdir() if file.name.endswith((".txt", ".txt.gz")))
    for file in files:
        stem = file.name.removesuffix(".gz").removesuffix(".txt")
        beside = (path / (stem + end) for end in (".tsv", ".key"))
        label_file = next((file for file in beside if file.exists()), None)
        if label_file is None and options.need_labels:
            options.bad.report(DataError(f"has no {stem}.key or {stem}.tsv beside it", path=file))
            continue
        try:
            with reading_errors(file), open_bytes(file) as content:
                text = content.read().removeprefix(b"\xef\xbb\xbf").decode(options.encoding)
        except UnicodeDecodeError as error:
            options.bad.report(DataError(f"byte {error.start + 1} is not {options.encoding} text", path=file))
            continue
        yield Record(text, [] if label_file is None else _document_labels(label_file, options), stem)


def write_documents(dataset: Dataset, path: Path) -> None:
    """Write a folder of documents named by the rows' ids, or by row number if the ids are not sorted file names."""
    texts = need_texts(dataset, "a folder of .txt and .key files")
    vocab = dataset.vocab
    keys = vocab.keys()
    if any("\n" in key or "\t" in key or key.strip() != key or key[:1] == "<" for key in keys):
        raise InputError("label names in .key files must be one line without tabs and surrounding spaces")
    path.mkdir(parents=True, exist_ok=True)
    stems = _stems(dataset)
    uris = None if vocab.uris is None else list(vocab.uris)
    for stem, text, labels in zip(stems, texts, dataset.label_lists(), strict=True):
        # Bytes, so that line ends are kept.
        (path / f"{stem}.txt").write_bytes(text.encode())
        with open_for_writing(path / f"{stem}{'.key' if uris is None else '.tsv'}") as file:
            for label in labels:
                uri = "" if uris is None else uris[label]
                file.write(f"<{uri}>\t{vocab.name(label)}\n" if uri else f"{keys[label]}\n")


def _document_labels(path: Path, options: ReadOptions) -> list[str | Named]:
    labels: list[str | Named] = []
    for _, line in decoded_lines(path, options.bad, options.encoding):
        first, _, second = (part.strip() for part in line.partition("\t"))
        if first.startswith("<") and first.endswith(">") and clean_uri(first):
            labels.append(Named(clean_uri(first), second))
        elif first:
            labels.append(first)
    return labels


def _stems(dataset: Dataset) -> list[str]:
    ids = dataset.ids or []
    sorted_ids = all(_SAFE_NAME.fullmatch(name) for name in ids) and list(ids) == sorted(set(ids))
    if ids and sorted_ids:
        return list(ids)
    width = len(str(max(0, dataset.n_rows - 1)))
    return [f"{row:0{width}d}" for row in range(dataset.n_rows)]
