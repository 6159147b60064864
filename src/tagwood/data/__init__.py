"""Data: rows with label sets (`Dataset`), the label table (`LabelVocab`), and files in and out.

In: files and folders in any of the usual formats. Out: a `Dataset`.
"""

from typing import TYPE_CHECKING

from tagwood._lazy import lazy_names

if TYPE_CHECKING:
    from tagwood.data.dataset import Dataset
    from tagwood.data.files import BadLines
    from tagwood.data.formats import FORMATS, detect_format
    from tagwood.data.reading import SkippedLinesWarning, read_dataset, read_records, target_format, write_dataset
    from tagwood.data.records import Record
    from tagwood.data.report import ReadReport
    from tagwood.data.vocab import LabelVocab
    from tagwood.data.vocab_files import read_vocab, write_vocab
else:  # type checkers do not see it: they would accept any name
    __getattr__ = lazy_names(
        __name__,
        dataset="Dataset",
        files="BadLines",
        formats="FORMATS detect_format",
        reading="SkippedLinesWarning read_dataset read_records target_format write_dataset",
        records="Record",
        report="ReadReport",
        vocab="LabelVocab",
        vocab_files="read_vocab write_vocab",
    )

__all__ = [
    "FORMATS",
    "BadLines",
    "Dataset",
    "LabelVocab",
    "ReadReport",
    "Record",
    "SkippedLinesWarning",
    "detect_format",
    "read_dataset",
    "read_records",
    "read_vocab",
    "target_format",
    "write_dataset",
    "write_vocab",
]


def __dir__() -> list[str]:
    return __all__
