"""Plugin of pytest: the fixture `tokimori_rehearsal`. Nothing else of Tokimori is imported before it is asked for."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tokimori.apps.app import App
    from tokimori.apps.routes import AppFunctions
    from tokimori.testing import Rehearsal

_MARK = "tokimori"
_ALLOWED = (
    'the setting `tokimori_app = "MODULE:NAME"` of pytest, @pytest.mark.tokimori(app=…), '
    "a fixture `tokimori_app` that returns the app, or a module of tests that has one App"
)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the setting that names the app.

    pytest would read the assertions of the whole package that a plugin is in, which takes seconds, for messages about
    assertions that there are none of.
    """
    hook = pluginmanager.rewrite_hook
    for marks in (getattr(hook, "_must_rewrite", None), getattr(hook, "_marked_for_rewrite_cache", None)):
        if isinstance(marks, set):
            marks.discard("tokimori")
        elif isinstance(marks, dict):
            marks.clear()
    parser.addini("tokimori_app", "the app that `tokimori_rehearsal` rehearses: MODULE:NAME or FILE.py:NAME")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    text = "tokimori(app=…, at=…, time_zone=…, seed=…): what `tokimori_rehearsal` rehearses, and from which moment on"
    config.addinivalue_line("markers", text)


@pytest.fixture(scope="session")
def _tokimori_load(request: pytest.FixtureRequest) -> "Callable[[str], AppFunctions]":
    """Return what loads an app once, from the folder of pytest's settings first."""
    from tokimori.apps.loading import load_app  # noqa: PLC0415

    return lru_cache(lambda said: load_app(said, (str(request.config.rootpath),)))


@pytest.fixture
def tokimori_app(request: pytest.FixtureRequest, _tokimori_load: "Callable[[str], AppFunctions]") -> "App":
    """Return the app to rehearse: of the mark, the setting, or the module of the test. Override it for another one."""
    from tokimori.apps.app import App  # noqa: PLC0415

    name = _marked_terms(request).get("app") or request.config.getini("tokimori_app")
    found = _tokimori_load(name) if isinstance(name, str) and name else name
    if not found:
        apps = {id(each): each for each in vars(request.module).values() if isinstance(each, App)}
        found = next(iter(apps.values())) if len(apps) == 1 else None
    if not isinstance(found, App):
        raise pytest.UsageError(f"tokimori_rehearsal: it does not know which app it rehearses; allowed: {_ALLOWED}")
    return found


@pytest.fixture
def tokimori_rehearsal(request: pytest.FixtureRequest, tokimori_app: "App") -> "Iterator[Rehearsal]":
    """Rehearse the app, on a store in memory and with a clock that the test moves: see `help(tokimori.testing)`."""
    from tokimori.testing import Rehearsal  # noqa: PLC0415

    terms = {name: value for name, value in _marked_terms(request).items() if name != "app"}
    with Rehearsal(tokimori_app, **terms) as rehearsal:
        yield rehearsal


def _marked_terms(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return what the marks of a test say, the nearest one counting most."""
    marks = list(request.node.iter_markers(_MARK))
    return {name: value for mark in reversed(marks) for name, value in mark.kwargs.items()}
