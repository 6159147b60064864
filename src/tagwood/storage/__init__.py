"""Model folders: `save` and `load` for any model; a sealed manifest, safetensors, hashes, no pickle.

In: an object that can say its `State`. Out: a folder, and the same object again. Order of the modules: state,
strings and registry (what is stored); strict_json, tensors, manifest, seal (how it is written); digest,
stamps (is it intact); publish (all or nothing); golden (does it still give the same results); saving and
loading (the two functions).
"""

from tagwood.storage.folder import Manifest, read_manifest
from tagwood.storage.loading import load
from tagwood.storage.registry import Storable, restore, storable
from tagwood.storage.saving import save
from tagwood.storage.state import State, pack_strings, unpack_strings

__all__ = [
    "Manifest",
    "State",
    "Storable",
    "load",
    "pack_strings",
    "read_manifest",
    "restore",
    "save",
    "storable",
    "unpack_strings",
]
