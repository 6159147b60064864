"""Model folders: `save` and `load` for any model, as JSON and safetensors, with checksums and without pickle.

`state` defines what is stored, `tensors` and `folder` the file formats and checksums; `publish` moves a finished folder
into place, `save_load` has the two functions.
"""

from tagwood.storage.folder import Manifest, read_manifest
from tagwood.storage.save_load import load, load_with_manifest, save
from tagwood.storage.state import State, Storable, pack_strings, restore, storable, unpack_strings

__all__ = [
    "Manifest",
    "State",
    "Storable",
    "load",
    "load_with_manifest",
    "pack_strings",
    "read_manifest",
    "restore",
    "save",
    "storable",
    "unpack_strings",
]
