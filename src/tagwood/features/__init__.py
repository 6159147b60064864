"""Texts to features: TF-IDF, concatenated encoders, and label centroids."""

from tagwood.features.base import Encoder, label_centroids
from tagwood.features.concat import ConcatEncoder, concat_features
from tagwood.features.tfidf import TfidfEncoder

__all__ = ["ConcatEncoder", "Encoder", "TfidfEncoder", "concat_features", "label_centroids"]
