"""Where weights of a `TextEncoder` come from: folders of others, models of tagwood, stored states.

In: a folder, or a `State`. Out: a tokenizer and a network.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tagwood import storage
from tagwood._check import check_int
from tagwood.errors import InputError
from tagwood.neural.bert_weights import read_bert
from tagwood.neural.encoder_module import BagModule, EncoderModule
from tagwood.neural.text_encoder_head import HeadModule
from tagwood.neural.text_tokens import parse_tokenizer, read_tokenizer
from tagwood.neural.transformer_module import Shape, TransformerModule
from tagwood.storage import State

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def read_encoder(folder: Path, max_length: int) -> tuple[Tokenizer, EncoderModule]:
    """Return the tokenizer and the network of a folder: a model of tagwood, or Hugging Face files."""
    if (folder / "manifest.json").is_file():
        tokenizer, module = _trained_encoder(folder, max_length)
    else:
        tokenizer, module = read_tokenizer(folder, max_length), _read_module(folder)
    if module.positions is not None:
        check_int(max_length, "max_length", high=module.positions)
    return tokenizer, module


def _trained_encoder(folder: Path, max_length: int) -> tuple[Tokenizer, EncoderModule]:
    """Return what a saved encoder, a model that trained one, or a Tagger with such a model has."""
    found = storage.load(folder)
    for part in (found, getattr(found, "model_", None), getattr(found, "encoder_", None)):
        encoder: Any = getattr(part, "encoder_", part)
        if hasattr(encoder, "tokenizer_") and isinstance(getattr(encoder, "module", None), EncoderModule):
            return parse_tokenizer(encoder.tokenizer_.to_str(), max_length), encoder.module
    raise InputError(f"{folder} must hold a TextEncoder or a model with one", given=type(found).__name__)


def _read_module(folder: Path) -> EncoderModule:
    found = read_bert(folder)
    if found is not None:
        return found
    from tagwood.neural.pretrained_module import PretrainedModule

    return PretrainedModule.read(folder)


def stored_module(state: State, n_tokens: int) -> EncoderModule:
    """Return the network of a stored encoder; nothing is allocated before its weights are found to fit."""
    shape, config = state.param("shape", dict, type(None)), state.param("config", str, type(None))
    if config is not None:
        from tagwood.neural.pretrained_module import PretrainedModule

        module: EncoderModule = PretrainedModule.of_config(config)
    else:
        dimension = check_int(state.param("dimension", int), "dimension", low=1, high=1 << 20)
        with torch.device("meta"):
            module = BagModule(n_tokens, dimension) if shape is None else TransformerModule(Shape.of(shape))
    if _has_head(state):
        with torch.device("meta"):
            module = HeadModule(module)
    _load_weights(module, state)
    return module


def _has_head(state: State) -> bool:
    """Whether the stored network is a frozen one with a head."""
    return any(str(name).startswith("frozen.") for name in state.param("names", list))


def _load_weights(module: EncoderModule, state: State) -> None:
    own = module.state_dict()
    names: list[Any] = state.param("names", list)
    if names != list(own):
        raise InputError("the stored weights must be those of the encoder's network", given=f"{names[:2]}...")
    module.load_state_dict(
        {
            name: torch.from_numpy(
                np.array(state.array(f"weight_{place}", _dtype(value), tuple(value.shape)))
            )
            for place, (name, value) in enumerate(own.items())
        },
        assign=True,
    )


def _dtype(value: torch.Tensor) -> np.dtype[Any]:
    return np.dtype(str(value.dtype).removeprefix("torch."))
