"""A folder of documents: ``name.txt`` with the text, beside it ``name.key`` or ``name.tsv`` with the labels.

In: the folder. Out: a `Dataset` with texts in order of file name; ids are the names. ``.key``: a label name
per line; ``.tsv``: ``<uri>`` and name, separated by a tab, per line. As in Annif.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tagwood.data.dataset import Dataset
from tagwood.data.files import decoded_lines, open_bytes, open_for_writing, reading_errors
from tagwood.data.records import Named, ReadOptions, Record, need_texts
from tagwood.data.vocab_files import clean_uri
from tagwood.errors import DataError, InputError

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


def records(path: Path, options: ReadOptions) -> Iterator[Record]:
    """Yield the documents of a folder."""
    if not path.is_dir():
        raise DataError("is not a folder of .txt files with .key or .tsv files", path=path)
    files = sorted(file for file in path.iterdir() if file.name.endswith((".txt", ".txt.gz")))
    for file in files:
        stem = file.name.removesuffix(".gz").removesuffix(".txt")
        label_file = next(
            (found for end in (".tsv", ".key") if (found := path / (stem + end)).exists()), None
        )
        if label_file is None and options.need_labels:
            options.bad.report(DataError(f"has no {stem}.key or {stem}.tsv beside it", path=file))
            continue
        try:
            with reading_errors(file), open_bytes(file) as content:
                text = content.read().removeprefix(b"\xef\xbb\xbf").decode(options.encoding)
        except UnicodeDecodeError as error:
            options.bad.report(DataError(f"byte {error.start + 1} is not {options.encoding} text", path=file))
            continue
        yield Record(text, [] if label_file is None else _labels(label_file, options), stem)


def write(dataset: Dataset, path: Path) -> None:
    """Write a folder; files are named by the rows' ids, or by row number if the ids are not sorted file names."""
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


def _labels(path: Path, options: ReadOptions) -> list[str | Named]:
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
