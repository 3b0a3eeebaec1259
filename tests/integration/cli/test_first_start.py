"""The first start of a node, where nothing is there yet."""

import stat
from pathlib import Path

from tests.integration.cli.conftest import Program, stop


def test_a_log_in_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    """`log.file` may be in the state folder: that is made first, for its owner alone, and so is the file."""
    program = Program(tmp_path)
    log = tmp_path / "state/deep/logs/node.log"
    program.environment["TOKIMORI_LOG_FILE"] = str(log)
    node = program.serve()
    assert stop(node) == 0
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
