"""`Tagger`: text in, label names out. Encoder, model, label table, probabilities and explanations in one object.

Order of the modules: settings, tags (values); training_data (what comes in); probabilities, examples (what is learned
beside the model); fitting (how); label_search, label_texts, answers (questions); tagger (the object); explaining, cards
(why and why not); stored, vocab_state (storage).
"""

from tagwood.tagger.fitting import GroupRule, SetRules
from tagwood.tagger.search import Tag, Tags
from tagwood.tagger.tagger import Tagger

__all__ = ["GroupRule", "SetRules", "Tag", "Tagger", "Tags"]
