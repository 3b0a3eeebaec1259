"""What a type checker says of a program that uses the clients, as `mypy --strict` checks it from outside."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from datetime import UTC, datetime, timedelta
import tokimori

def synchronous(client: tokimori.Client) -> tokimori.Run:
    client.add("a", schedule="0 3 * * *", command="true", timeout=timedelta(minutes=5))
    client.add("b", comand="true")  # line 7
    client.update("a", priorty=3)  # line 8
    return client.trigger("a", payload={"n": 1}, at=datetime(2030, 1, 1, tzinfo=UTC))

async def asynchronous(client: tokimori.AsyncClient) -> tokimori.Run:
    await client.add("a", noop=True, delay=timedelta(minutes=5))
    await client.add("b", comand="true")  # line 13
    await client.trigger("a", debounced=5)  # line 14
    return await client.trigger("a", payload=[1], at="2030-01-01T00:00:00Z")

tokimori.opne  # line 17
"""
WRONG = [7, 8, 13, 14, 17]


@pytest.mark.prove  # mypy reads the whole package
def test_a_misspelt_keyword_is_an_error_of_types(tmp_path: Path) -> None:
    """In both clients, on the lines where one stands and on no other: everything else is seen and typed."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", sys.executable, str(program)],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        text=True,
        timeout=300,
    )
    found = [line.split(":")[1] for line in ended.stdout.splitlines() if ": error:" in line]
    assert [int(number) for number in found] == WRONG, ended.stdout + ended.stderr
