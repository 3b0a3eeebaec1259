"""A server of SMTP on this machine, which keeps what it gets (RFC 5321): as much of one as tests need."""

import asyncio
import base64
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import default


@dataclass(frozen=True, slots=True)
class Letter:
    """What came: between whom, and what it says."""

    sender: str
    to: tuple[str, ...]
    content: bytes

    @property
    def message(self) -> Message:
        """Read."""
        return message_from_bytes(self.content, policy=default)

    @property
    def text(self) -> str:
        """What it says, in plain text."""
        return str(self.message.get_body(("plain",)).get_content())  # type: ignore[attr-defined]


@dataclass(slots=True)
class Said:
    """What one connection has said so far."""

    sender: str = ""
    to: list[str] = field(default_factory=list)
    is_known: bool = False
    is_private: bool = False


class PostOffice:
    """Answers connections. `refusals` are answers to recipients, or to the words MAIL and DATA.

    `login` is the user and the password that it asks for; with `tls` it offers STARTTLS, and where it is `implicit`
    speaks nothing else. `taken` is told of each letter before its sender has the answer.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        implicit: bool = False,
        login: tuple[str, str] | None = None,
        refusals: Mapping[str, str] | None = None,
        taken: Callable[[Letter], None] = lambda _: None,
    ) -> None:
        self.letters: list[Letter] = []
        self.is_silent = False
        self._tls, self._implicit, self._login = tls, implicit, login
        self._refusals, self._taken = refusals or {}, taken
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Where it is."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> "PostOffice":
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._tls if self._implicit else None, limit=2**20
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = Said(is_private=self._implicit)
        try:
            if self.is_silent:
                await asyncio.sleep(3600)
            writer.write(b"220 post office\r\n")
            while line := (await reader.readline()).decode().strip():
                word = line.split(maxsplit=1)[0].upper()
                answer = await self._answer(word, line, said, reader, writer)
                writer.write(f"{answer}\r\n".encode())
                await writer.drain()
                if word == "STARTTLS":
                    assert self._tls is not None
                    await writer.start_tls(self._tls)
                    said.is_private = True
                if word == "QUIT":
                    break
        except (OSError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, word: str, line: str, said: Said, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> str:
        place = line[line.find("<") + 1 : line.rfind(">")]
        if refusal := self._refusals.get(place if word == "RCPT" else word):
            return refusal
        match word:
            case "EHLO":
                offers = ["STARTTLS"] if self._tls and not said.is_private else []
                offers += ["AUTH PLAIN"] if self._login and said.is_private else []
                return "".join(f"250-{each}\r\n" for each in ("post office", *offers)) + "250 8BITMIME"
            case "AUTH":
                user, password = base64.b64decode(line.split()[2]).decode().split("\0")[1:]
                said.is_known = (user, password) == self._login
                return "235 welcome" if said.is_known else "535 who are you"
            case "MAIL" if self._login and not said.is_known:
                return "530 say who you are"
            case "MAIL":
                said.sender = place
            case "RCPT":
                said.to.append(place)
            case "DATA":
                writer.write(b"354 go on\r\n")
                await writer.drain()
                self._take(said, await reader.readuntil(b"\r\n.\r\n"))
            case "STARTTLS":
                return "220 go on"
            case _:
                pass
        return "250 yes"

    def _take(self, said: Said, content: bytes) -> None:
        letter = Letter(said.sender, tuple(said.to), content.removesuffix(b".\r\n").replace(b"\r\n..", b"\r\n."))
        self.letters.append(letter)
        said.to.clear()
        self._taken(letter)
