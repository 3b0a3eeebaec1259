"""`ps` shows what a process of ours does."""

import subprocess
import sys


def test_a_title_is_shown_and_cut() -> None:
    """It stands in place of the arguments, never longer than these; a shorter one leaves nothing of the one before."""
    code = (
        "from tokimori.executors.keeper.kernel import Title\n"
        "title, shown = Title(), []\n"
        "for text in ('tokimori: worker 1: idle', 'x' * 10000, 'short'):\n"
        "    title.show(text)\n"
        "    shown.append(open('/proc/self/cmdline').read())\n"
        "print(repr(shown))"
    )
    done = subprocess.run([sys.executable, "-c", code, "y" * 50], capture_output=True, text=True, check=True)
    idle, long, short = eval(done.stdout)  # noqa: S307  what the line above has written
    assert idle.rstrip("\0") == "tokimori: worker 1: idle"
    assert set(long.rstrip("\0")) == {"x"}
    assert len(long) == len(idle)
    assert short.rstrip("\0") == "short"
