"""The example for launchd, which is of another system: its form and its numbers."""

import plistlib
from pathlib import Path

import msgspec

from tokimori.config.settings import settings_table

FILE = Path(__file__).parents[3] / "deploy" / "tokimori.plist"


def test_launchd_waits_until_runs_have_ended() -> None:
    """It is a property list that starts a node, and kills it later than the node kills its runs."""
    said = plistlib.loads(FILE.read_bytes())
    assert (said["Label"], said["ProgramArguments"][-2:]) == ("tokimori", ["tokimori", "serve"])
    table = {setting.name: setting.default for setting in settings_table()}
    grace, drain = msgspec.convert([table["node.stop_grace"], table["http.drain"]], list[float])
    assert said["ExitTimeOut"] > grace + drain
    assert said["KeepAlive"] == {"SuccessfulExit": False}
