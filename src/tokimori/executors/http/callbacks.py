"""Callbacks: a service that answered 202 says later how the run ended. Its signature is for one attempt of one run.

docs/decisions/0033 says what it lets in, and what not.
"""

import hashlib
import hmac
import os
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum

from tokimori.errors import Refused
from tokimori.executors.client import RunTokens
from tokimori.executors.http.request import Callback
from tokimori.executors.reported import read_report
from tokimori.model.ids import RunId, Token
from tokimori.model.outcome import Outcome

PATH = "/callbacks/"
_REMEMBERED = 1_000
"""Number of callbacks known after they were taken, so that one whose answer was lost may come again."""

_Key = tuple[str, str]


class CallbackResult(StrEnum):
    """Result of a callback."""

    TAKEN = "taken"
    """The attempt ends with it, or has: the very same came before."""
    FORGED = "forged"
    """It is not signed for this run and token."""
    LATE = "late"
    """The attempt has ended, was taken over, or is one of another node."""


class Callbacks:
    """Attempts that a callback may end. Until `open` there is no HTTP server to receive one."""

    def __init__(self) -> None:
        self.guests = RunTokens(os.urandom)
        self._address: str | None = None
        self._key = b""
        self._waiting: dict[_Key, Callable[[Outcome], bool]] = {}
        self._taken: OrderedDict[_Key, bytes] = OrderedDict()

    def open(self, address: str, secret: str) -> None:
        """Accept callbacks at this address from now on. Only a holder of the node's secret can sign them."""
        self._address = address.rstrip("/")
        self._key = hmac.new(secret.encode(), b"the key of callbacks", hashlib.sha256).digest()

    def expect(self, run_id: RunId, token: Token, act: Callable[[Outcome], bool]) -> Callback:
        """Let a callback end this attempt by `act`, which says whether it did. Raises `Refused` without a door."""
        if self._address is None:
            raise Refused("this node does not answer over HTTP, so that no service can say how the run ended")
        key = (str(run_id), str(token))
        self._waiting[key] = act
        return Callback(f"{self._address}{PATH}{run_id}/{token}", self._signature(key))

    def forget(self, run_id: RunId, token: Token) -> None:
        """Forget the attempt: no callback ends it any more."""
        self._waiting.pop((str(run_id), str(token)), None)

    def accept(self, run_id: str, token: str, signature: str, line: bytes) -> CallbackResult:
        """Receive a callback with a report as `tokimori run report` writes it. Raises `InvalidInput`.

        A signature is compared in a time that does not depend on how much of it is right, and before all else: a caller
        without one learns nothing of the run.
        """
        key = (run_id, token)
        if not self._key or not hmac.compare_digest(signature.encode(), self._signature(key).encode()):
            return CallbackResult.FORGED
        if self._taken.get(key) == line:
            return CallbackResult.TAKEN
        if key not in self._waiting:
            return CallbackResult.LATE
        outcome = read_report(line)
        if not self._waiting.pop(key)(outcome):
            return CallbackResult.LATE
        self._taken[key] = line
        if len(self._taken) > _REMEMBERED:
            self._taken.popitem(last=False)
        return CallbackResult.TAKEN

    def _signature(self, key: _Key) -> str:
        signed = f"{len(key[0])}:{key[0]}:{key[1]}"
        return hmac.new(self._key, signed.encode(), hashlib.sha256).hexdigest()
