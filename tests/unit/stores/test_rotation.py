"""Addresses of servers whose password changes while nodes run."""

import pytest

from tokimori.clock import Moment
from tokimori.errors import InvalidInput, StoreError
from tokimori.stores.postgres.address import address_of
from tokimori.stores.urls import HOLDS, Rotation, by_newest

OLD, NEW = "postgresql://ada:old@db/tokimori", "postgresql://bob:new@db/tokimori"


class Scene:
    """A file with a URL, and a clock."""

    def __init__(self) -> None:
        self.url: str | None = OLD
        self.at = 0.0
        self.rotation = Rotation(OLD, str, self.read, self)

    def read(self) -> str | None:
        """The file's text; there may be none."""
        if self.url == "bad":
            raise InvalidInput("it is empty")
        return self.url

    def now(self) -> Moment:
        """No moment of interest."""
        return Moment(0)

    def monotonic(self) -> float:
        """The seconds that a test says."""
        return self.at

    def after(self, seconds: float, url: str | None) -> list[object]:
        """The addresses to try, so many seconds later, if the file says that."""
        self.at, self.url = self.at + seconds, url
        return list(self.rotation())


def test_a_new_password_holds_and_the_old_one_for_a_while() -> None:
    """The newest is first; five minutes later it is alone, and a second change begins anew."""
    scene = Scene()
    assert scene.after(2, None) == [OLD]
    assert scene.after(2, NEW) == [NEW, OLD]
    assert scene.after(HOLDS - 1, NEW) == [NEW, OLD]
    assert scene.after(2, NEW) == [NEW]
    assert scene.after(2, OLD) == [OLD, NEW]


def test_the_file_is_read_once_a_second_at_most() -> None:
    """However many connections are opened."""
    scene = Scene()
    assert scene.after(0.5, NEW) == [OLD]
    assert scene.after(0.6, NEW) == [NEW, OLD]


@pytest.mark.parametrize(
    "url", ["bad", "postgresql://ada:old@other/tokimori", "postgresql://ada:old@db/tokimori?namespace=x"]
)
def test_what_is_no_new_password_is_left(url: str) -> None:
    """A file that can't be read, another server, another installation: a running node keeps its store."""
    scene = Scene()
    assert scene.after(2, url) == [OLD]


def test_an_address_that_is_none_is_left() -> None:
    """A file that is half written holds no URL: that is no error of whoever opens a connection."""
    scene = Scene()
    scene.rotation = Rotation(OLD, address_of, scene.read, scene)
    assert scene.after(2, "postgresql://ada:old@db:x/tokimori") == [address_of(OLD)]


async def test_the_one_before_is_tried_if_the_newest_is_refused() -> None:
    """A server may learn the password later than the file; if both fail, the newest one's error is told."""
    scene = Scene()
    scene.after(2, NEW)

    async def connect(address: str) -> str:
        if address in refused:
            raise StoreError(address)
        return address

    refused = {NEW}
    assert await by_newest(OLD, scene.rotation, connect) == OLD
    refused = {OLD}
    assert await by_newest(OLD, scene.rotation, connect) == NEW
    assert await by_newest("x", None, connect) == "x"
    refused = {OLD, NEW}
    with pytest.raises(StoreError, match=NEW):
        await by_newest(OLD, scene.rotation, connect)
