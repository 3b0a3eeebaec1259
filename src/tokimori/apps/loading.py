"""How an app is found: `package.module:name`, or `path/to/file.py:name`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from tokimori.apps.app import App
from tokimori.errors import InvalidInput

ALLOWED = "MODULE:NAME or FILE.py:NAME, where NAME is a tokimori.App"


def load_app(said: str, include: Sequence[str] = (), require: Sequence[str] = ()) -> App:
    """Import the app. `include` are folders that are looked at first, `require` modules that are imported before.

    Raises `InvalidInput` for what names no app, and whatever importing it raises.
    """
    sys.path[:0] = [str(Path(folder).absolute()) for folder in include]
    for name in require:
        import_module(name)
    place, _, name = said.rpartition(":")
    if not place or not name:
        raise _not_an_app(said, "it is not MODULE:NAME")
    module = _from_file(Path(place)) if place.endswith(".py") else import_module(place)
    try:
        found: object = module
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise _not_an_app(said, f"the module has no {name!r}") from None
    if not isinstance(found, App):
        raise _not_an_app(said, f"it is a {type(found).__qualname__}")
    return found


def _from_file(file: Path) -> ModuleType:
    """The module in a file, under the name of the file: what it pickles and logs says that name."""
    file = file.absolute()
    sys.path.insert(0, str(file.parent))
    spec = spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise _not_an_app(str(file), "there is no such file")
    module = module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def _not_an_app(said: str, why: str) -> InvalidInput:
    return InvalidInput(f"app: {said!r} is not an app: {why}", field="app", value=said, allowed=ALLOWED)
