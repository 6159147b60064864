"""Data: rows with label sets (`Dataset`), the label table (`LabelVocab`), and files in and out.

In: files and folders in any of the usual formats. Out: a `Dataset`.
"""

from tagwood.data.dataset import Dataset
from tagwood.data.vocab import LabelVocab

__all__ = ["Dataset", "LabelVocab"]
