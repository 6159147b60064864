"""Texts to features: TF-IDF, several encoders side by side, and what a label looks like among its rows."""

from tagwood.features.base import Encoder, label_centroids
from tagwood.features.concat import ConcatEncoder, concat_features
from tagwood.features.tfidf import TfidfEncoder

__all__ = ["ConcatEncoder", "Encoder", "TfidfEncoder", "concat_features", "label_centroids"]
