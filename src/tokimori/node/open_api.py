"""Kala's API without the secret, as its programs know it: only where somebody has said so, and where it does least."""

import logging

from tokimori.api.server import is_loopback
from tokimori.errors import Refused

log = logging.getLogger(__name__)


def check_open(interface: str, user: int) -> None:
    """Check that a door may be open: on the loopback alone, and no node of root. Raises `Refused`.

    `user` is the number of the OS user as which the node runs.
    """
    if user == 0:
        raise Refused(
            "http.v1_open: this node runs as root, and every user of the machine would give orders to root: start it as"
            " another user, or remove `v1_open` from the settings; programs then send the secret",
            field="http.v1_open",
            value=True,
            allowed="false, or a node of a user that is not root",
        )
    if not is_loopback(interface):
        raise Refused(
            f"http.v1_open: other machines reach {interface}, and could run commands here: listen on 127.0.0.1, or"
            " remove `v1_open` from the settings; programs then send the secret",
            field="http.v1_open",
            value=True,
            allowed="false, or an interface of the loopback such as 127.0.0.1",
        )
    log.warning("http.v1_open: every user of this machine may run commands by /api/v1/ as the user of this node")
