"""The app of a Django project, whose settings name it, and whose transactions hold its requests."""

import os
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings
from django.db import connections

from tokimori.apps.app import App
from tokimori.client.client import Client
from tokimori.config.file import PREFIX
from tokimori.config.secret_files import SUFFIX
from tokimori.config.settings import settings_table
from tokimori.config.value import as_text
from tokimori.errors import InvalidConfig
from tokimori.executors.functions.wire import Declared

_OWN = ("name", "prune", "version", "database")
"""Terms of TOKIMORI that are no settings of Tokimori."""
_PLACE = ("NAME", "HOST", "PORT", "USER", "PASSWORD")


class DjangoApp(App):
    """The app of a project. Within `transaction.atomic()` its requests are a part of the transaction."""

    def __init__(self, terms: Mapping[str, Any]) -> None:
        own = {name: terms[name] for name in ("prune", "version") if name in terms}
        super().__init__(terms.get("name") or (settings.SETTINGS_MODULE or "django").partition(".")[0], **own)
        self.tasks: dict[str, Declared] = {}
        """Jobs of tasks (`TASKS`), which nothing prunes: they are known when somebody asks for them first."""
        self._database: str | None = terms.get("database", None if "store" in terms else "default")

    @property
    def client(self) -> Client:
        """Return a client for the store: what the environment names, TOKIMORI, or the project's own database."""
        if self._client is None and self.url is None:
            self.url = environment().get(f"{PREFIX}STORE")
        return super().client

    def _transaction(self) -> object:
        """Return the connection to the store's database if a transaction has begun on it, else None."""
        if self._database is None or self.ways.pass_time is not None:  # a rehearsal has a store of its own
            return None
        connection = connections[self._database]
        return connection if connection.in_atomic_block else None

    def _function_of(self, job_id: str) -> str:
        return str(self.tasks[job_id].fields["function"]) if job_id in self.tasks else super()._function_of(job_id)

    def _with_named(self, job_id: str, below: tuple[str, ...] = ()) -> dict[str, Declared]:
        return {job_id: self.tasks[job_id]} if job_id in self.tasks else super()._with_named(job_id, below)


def environment() -> dict[str, str]:
    """Return TOKIMORI of the settings as variables, without those that the environment has. Raises `InvalidConfig`."""
    terms, known = _terms(), {each.name for each in settings_table()}
    flat = dict(_flat({name: value for name, value in terms.items() if name not in _OWN}, known))
    if strange := sorted(flat.keys() - known):
        raise InvalidConfig(
            [f"TOKIMORI: {name!r} is no setting; see `manage.py tokimori config show`" for name in strange]
        )
    if "store" not in flat and (alias := terms.get("database", "default")) is not None:
        flat["store"] = store_of(connections[alias])
    found = {PREFIX + name.upper().replace(".", "_"): as_text(value) for name, value in flat.items()}
    return {name: text for name, text in found.items() if not any(map(os.environ.get, (name, f"{name}{SUFFIX}")))}


def store_of(connection: Any) -> str:
    """Return the URL of the store in a database of Django's. Raises `InvalidConfig`."""
    database, vendor = connection.settings_dict, connection.vendor
    name, host, port, user, password = (str(database.get(each) or "") for each in _PLACE)
    if vendor == "sqlite" and name.startswith("/"):
        lock = Path(f"{os.path.realpath(name)}-lock")
        lock.touch(0o600)  # it says that this file of Django's is meant to be the store as well
        return f"sqlite://{quote(name)}"
    if vendor not in ("postgresql", "mysql") or not name:
        fault = f"TOKIMORI: the database {connection.alias!r} ({vendor} {name}) can't hold the store"
        allowed = (
            "PostgreSQL, MariaDB, MySQL, a file, or {'store': URL}; in a test, with tokimori.testing.Rehearsal(app)"
        )
        raise InvalidConfig([f"{fault}; allowed: {allowed}"])
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    place = "" if host.startswith("/") else quote(host or ("localhost" if vendor == "mysql" else ""))
    query = urlencode(dict(_connecting(vendor, host, port, database.get("OPTIONS") or {})))
    address = f"{who}{'@' if who else ''}{place}{f':{port}' if place and port else ''}/{quote(name, safe='')}"
    return f"{vendor}://{address}{f'?{query}' if query else ''}"


def _connecting(vendor: str, host: str, port: str, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what of a database's settings stands behind the question mark."""
    if host.startswith("/"):
        yield ("host" if vendor == "postgresql" else "unix_socket"), host
        if port and vendor == "postgresql":
            yield "port", port
    for name in ("sslmode", "sslrootcert", "sslcert", "sslkey"):
        if vendor == "postgresql" and options.get(name):
            yield name, str(options[name])


def _terms() -> Mapping[str, Any]:
    return getattr(settings, "TOKIMORI", None) or {}


def _flat(terms: Mapping[str, Any], known: Set[str], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings by their names: {"app": {"processes": 4}} is {"app.processes": 4}."""
    for name, value in terms.items():
        if isinstance(value, Mapping) and before + name not in known:
            yield from _flat(value, known, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


app = DjangoApp(_terms())
