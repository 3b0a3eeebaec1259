"""What commands and their node leave each other in files."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.executors.workshop import Workshop, shell, written
from tokimori.executors.exchange import MOST_IN_ENVIRONMENT
from tokimori.model.outcome import Failed, RetryIn, Succeeded


def left(workshop: Workshop) -> list[str]:
    """What stands in the folder of the attempts' files."""
    return sorted(file.name for file in (workshop.state / "exchange").iterdir())


async def test_a_report_is_read_and_taken_away(workshop: Workshop) -> None:
    """What a command wrote is its outcome, whatever its exit code, and nothing of it is left for a later attempt."""
    text = """printf '{"outcome": "succeeded", "result": "42"}' > "$TOKIMORI_OUTCOME_FILE"; exit 3"""
    assert (await workshop.run(shell(text))).outcome == Succeeded(3, "42")
    asks = """echo '{"outcome": "retry", "in": 5}' > "$TOKIMORI_OUTCOME_FILE" """
    assert (await workshop.run(shell(asks))).outcome == RetryIn(5)
    assert (await workshop.run(shell("true"))).outcome == Succeeded(0)
    assert left(workshop) == []


@pytest.mark.parametrize(
    "text",
    [
        'mkfifo "$TOKIMORI_OUTCOME_FILE"',
        'mkdir "$TOKIMORI_OUTCOME_FILE"',
        """f=$(mktemp); echo '{"outcome": "succeeded"}' > $f; ln -s $f "$TOKIMORI_OUTCOME_FILE" """,
        ': > "$TOKIMORI_OUTCOME_FILE"',
        'head -c 1000000 /dev/zero > "$TOKIMORI_OUTCOME_FILE"',
    ],
)
async def test_what_is_no_report_fails_the_attempt(workshop: Workshop, text: str) -> None:
    """A pipe keeps no node waiting, a link leads nowhere, and an empty or endless file is no success."""
    outcome = (await workshop.run(shell(text))).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith("what it reported can't be understood")


@pytest.mark.parametrize("size", [0, 5, MOST_IN_ENVIRONMENT])
async def test_a_payload_is_a_variable(workshop: Workshop, size: int) -> None:
    """Up to the bound a payload stands in the environment, also an empty one."""
    ended = await workshop.run(
        shell('printf %s "$TOKIMORI_PAYLOAD" | wc -c; echo ${TOKIMORI_PAYLOAD+set} $TOKIMORI_PAYLOAD_FILE'),
        payload="x" * size,
    )
    assert written(ended).decode().split() == [str(size), "set"]


async def test_a_large_payload_is_a_file(workshop: Workshop) -> None:
    """Above the bound, counted in bytes, it stands in a file that nobody else can read and that goes with the run."""
    payload = "é" * (MOST_IN_ENVIRONMENT // 2 + 1)
    ended = await workshop.run(
        shell(
            'stat -c %a "$TOKIMORI_PAYLOAD_FILE"; cat "$TOKIMORI_PAYLOAD_FILE" | cksum; echo ${TOKIMORI_PAYLOAD-none}'
        ),
        payload=payload,
    )
    file = workshop.folder / "expected"
    file.write_text(payload)
    expected = await workshop.run(shell(f"cksum < {file}"))
    mode, *sum_and_size, none = written(ended).decode().split()
    assert (mode, none) == ("600", "none")
    assert sum_and_size == written(expected).decode().split()
    assert left(workshop) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_file_of_somebody_else_is_no_report(workshop: Workshop) -> None:
    """A file that the command's account does not own may be a hard link to what that account must not read."""
    text = """echo '{"outcome": "succeeded"}' > "$TOKIMORI_OUTCOME_FILE"; chown nobody "$TOKIMORI_OUTCOME_FILE" """
    assert isinstance((await workshop.run(shell(text))).outcome, Failed)


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that everybody can pass through."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        path = Path(folder)
        path.chmod(0o711)
        yield path
        assert list(path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as somebody else")
@pytest.mark.usefixtures("common")
async def test_another_user_reports_too(workshop: Workshop) -> None:
    """A command of another user, who can't get at the node's folders, finds its payload and reports all the same."""
    text = (
        'wc -c < "$TOKIMORI_PAYLOAD_FILE"; stat -c "%U %a" "${TOKIMORI_OUTCOME_FILE%/*}";'
        """echo '{"outcome": "succeeded", "result": "42"}' > "$TOKIMORI_OUTCOME_FILE" """
    )
    ended = await workshop.run(shell(text, user="nobody", cwd="/"), payload="x" * 200_000)
    assert (ended.outcome, written(ended)) == (Succeeded(0, "42"), b"200000\nnobody 700\n")
