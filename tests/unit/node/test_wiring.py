"""What a node hands to its parts."""

from pathlib import Path

from tokimori.config.secrets import VARIABLE
from tokimori.config.settings import load_settings
from tokimori.node.wiring import environ_of


def test_functions_get_no_key_of_secrets(tmp_path: Path) -> None:
    """They have the environment of the node, with its store, but for the keys."""
    settings = load_settings({"store": "memory:"}, {"HOME": str(tmp_path)}, cwd=tmp_path).settings
    found = environ_of(settings, {VARIABLE: "a key", "MORE": "of it"})
    assert found == {"MORE": "of it", "TOKIMORI_STORE": "memory:"}
