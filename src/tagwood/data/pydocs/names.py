"""Public names: from where an object is defined to the name users import it by.

In: the modules of some packages. Out: for every documented public object its best public name, and every
other public name it can be reached by. `scipy.signal._savitzky_golay.savgol_filter` ->
`scipy.signal.savgol_filter`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tagwood.data.pydocs.modules import Module

Definition = tuple[str, str]  # (module, name inside the module)


def is_public(module: str) -> bool:
    """Tell whether no part of a dotted name starts with an underscore."""
    return not any(part.startswith("_") for part in module.split("."))


def public_names(modules: Mapping[str, Module]) -> tuple[dict[Definition, str], dict[str, str]]:
    """Return definition -> best public name, and every known public name -> best public name.

    Functions and classes only; a method is named after its class. The best name keeps the defined name,
    stands in a package around the defining module, is short, and comes first in the alphabet, in this order.
    """
    scope = _Scope(modules)
    candidates: dict[Definition, list[str]] = {}
    for module in sorted(modules):
        if is_public(module):
            for name in scope.exported(module):
                found = None if name.startswith("_") else scope.resolve(module, name)
                if found is not None:
                    candidates.setdefault(found, []).append(f"{module}.{name}")
    for definition in _unexported(scope, modules):
        if definition not in candidates:
            candidates[definition] = [f"{_public_parent(definition[0])}.{definition[1]}"]
    best: dict[Definition, str] = {}
    aliases: dict[str, str] = {}
    for definition, names in candidates.items():
        best[definition] = min(names, key=lambda name: _rank(name, definition))
        aliases.update(dict.fromkeys(names, best[definition]))
    return best, aliases


class _Scope:
    """Follows imports through modules; every answer is remembered."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._modules = modules
        self._exported: dict[str, list[str]] = {}
        self._resolved: dict[Definition, Definition | None] = {}

    def exported(self, name: str) -> list[str]:
        """Return the names a module offers: its `__all__`, or what it defines and, in a package, imports."""
        if name not in self._exported:
            self._exported[name] = []  # a circle of star imports ends here
            module = self._modules[name]
            closed = module.exports and not module.computed
            names = module.exports if closed else [*module.exports, *self._offered(module)]
            self._exported[name] = list(dict.fromkeys(names))
        return self._exported[name]

    def resolve(self, module: str, name: str) -> Definition | None:
        """Return where `name`, seen from `module`, is defined and documented, or None."""
        key = (module, name)
        if key not in self._resolved:
            self._resolved[key] = None
            self._resolved[key] = self._look_up(module, name)
        return self._resolved[key]

    def _offered(self, module: Module) -> Iterator[str]:
        yield from (name for name in module.docs if "." not in name)
        yield from module.instances
        if module.is_package or module.computed:
            top = _top(module.name)
            yield from (name for name, (origin, _) in module.imports.items() if _top(origin) == top)
        for star in module.stars:
            if star in self._modules:
                yield from self.exported(star)

    def _look_up(self, module_name: str, name: str) -> Definition | None:
        module = self._modules.get(module_name)
        if module is None:
            return None
        if name in module.docs:
            return module_name, name
        if name in module.imports:
            origin, original = module.imports[name]
            return self.resolve(origin, original) if original else None
        if name in module.instances:
            return self.resolve(module_name, module.instances[name])
        for star in module.stars:
            found = self.resolve(star, name)
            if found is not None:
                return found
        return self._look_below(module, name) if module.is_package and name in module.exports else None

    def _look_below(self, package: Module, name: str) -> Definition | None:
        """Return the one submodule that documents a name which the package exports but loads lazily."""
        below = f"{package.name}."
        homes = [
            home for home, module in self._modules.items() if home.startswith(below) and name in module.docs
        ]
        return (homes[0], name) if len(homes) == 1 else None


def _unexported(scope: _Scope, modules: Mapping[str, Module]) -> Iterator[Definition]:
    """Yield what private modules declare as public, for packages that take it over at run time."""
    for name in sorted(modules):
        module = modules[name]
        if not is_public(name) and "." in name and not name.startswith("_"):
            declares = module.exports or module.computed or name.endswith("_add_newdocs")
            for export in scope.exported(name) if declares else []:
                found = None if export.startswith("_") else scope.resolve(name, export)
                if found is not None and not is_public(found[0]) and _top(found[0]) == _top(name):
                    yield found


def _top(module: str) -> str:
    return module.partition(".")[0]


def _public_parent(module: str) -> str:
    parts = module.split(".")
    first = next(place for place, part in enumerate(parts) if part.startswith("_"))
    return ".".join(parts[:first])


def _rank(name: str, definition: Definition) -> tuple[bool, bool, int, str]:
    home, _, last = name.rpartition(".")
    module, defined = definition
    # SciPy documents the distribution `norm` in its class `norm_gen`.
    renamed = last != defined.removesuffix("_gen")
    return renamed, not f"{module}.".startswith(f"{home}."), name.count("."), name
