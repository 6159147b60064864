"""Texts to features: TF-IDF, several encoders side by side, and what a label looks like among its rows."""

from tagwood.features.concat import ConcatEncoder, concat_features
from tagwood.features.encoder import Encoder
from tagwood.features.label_features import label_centroids
from tagwood.features.tfidf import TfidfEncoder

__all__ = ["ConcatEncoder", "Encoder", "TfidfEncoder", "concat_features", "label_centroids"]
