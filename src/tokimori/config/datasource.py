"""The store of the jobs and that of the semaphores, where these are two: from the settings to the URLs."""

from typing import Annotated
from urllib.parse import quote, urlsplit, urlunsplit

from msgspec import Meta, Struct, field

from tokimori.errors import InvalidInput

Text = Annotated[str, Meta(min_length=1)]
_WITH_ACCOUNTS = "the URL of a server, which has accounts"


class StoreSettings(Struct, frozen=True, kw_only=True):
    """One of the two stores. What is not set is taken from `store`; for semaphores, from `datasource.job`."""

    url: Annotated[Text | None, Meta(description="The URL of this store.")] = None
    user: Annotated[Text | None, Meta(description="The account, in place of the one in the URL.")] = None
    password: Annotated[Text | None, Meta(description="The account's password, in place of the one in the URL.")] = None

    @property
    def said(self) -> bool:
        """Return whether anything is set."""
        return self != StoreSettings()


class DatasourceSettings(Struct, frozen=True, kw_only=True):
    """The settings of each store."""

    job: StoreSettings = field(default_factory=StoreSettings)
    semaphore: StoreSettings = field(default_factory=StoreSettings)


def url_for(section: str, said: StoreSettings, otherwise: str) -> str:
    """Return the URL that follows from the settings of `[section]`. Raises `InvalidInput`, which names the setting."""
    url = said.url or otherwise
    for name, value in (("user", said.user), ("password", said.password)):
        if value is not None and not urlsplit(url).hostname:
            kind = f"a {url.partition(':')[0]} store" if "://" in url else "what is no URL of a server"
            message = f"{section}.{name}: {kind} has no accounts"
            raise InvalidInput(message, field=f"{section}.{name}", allowed=_WITH_ACCOUNTS)
    return _with_account(url, said.user, said.password)


def _with_account(url: str, user: str | None, password: str | None) -> str:
    """Return the URL with another account; None leaves that part as it is."""
    if user is None and password is None:
        return url
    parts = urlsplit(url)
    account, _, host = parts.netloc.rpartition("@")
    old_user, colon, old_password = account.partition(":")
    new_user = old_user if user is None else quote(user, safe="")
    new_password = colon + old_password if password is None else ":" + quote(password, safe="")
    return urlunsplit(parts._replace(netloc=f"{new_user}{new_password}@{host}"))
