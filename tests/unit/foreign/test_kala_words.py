import subprocess

import pytest

from tokimori.errors import InvalidInput
from tokimori.foreign.kala.translator import arguments_of


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("bash /home/ajvb/example-command.sh", ("bash", "/home/ajvb/example-command.sh")),
        ("  echo\ta  \n b ", ("echo", "a", "b")),
        ("echo a; ls | cat > b && c", ("echo", "a;", "ls", "|", "cat", ">", "b", "&&", "c")),
        ("bash -c 'echo one; echo two | cat'", ("bash", "-c", "echo one; echo two | cat")),
        ("echo \"a b\"c'd e' '' \"\"", ("echo", "a bcd e", "", "")),
        (r"echo a\ b \' '\n' \$HOME", ("echo", "a b", "'", r"\n", "$HOME")),
        (r'echo "a \" b" *', ("echo", 'a " b', "*")),
        ("echo $ $5 a$", ("echo", "$", "$5", "a$")),
    ],
)
def test_words(command: str, arguments: tuple[str, ...]) -> None:
    """A command is split into words as Kala splits it, and what a shell would do with them is not done."""
    assert arguments_of(command) == arguments


@pytest.mark.parametrize("command", ["", "  ", "echo 'a", 'echo "a', "echo `a", "echo a\\", 'echo "a\\'])
def test_what_is_no_command(command: str) -> None:
    """A quote without an end, and nothing at all, are refused."""
    with pytest.raises(InvalidInput) as refused:
        arguments_of(command)
    assert refused.value.field == "command"


@pytest.mark.parametrize(
    ("word", "printed"),
    [
        ("$FACT", "<a  b; c>"),
        ("'$FACT'x", "<a  b; cx>"),
        ('"${FACT}";', "<a  b; c;>"),
        ("x$NOTHING", "<x>"),
        ("$NOTHING", "<>"),
        ("`echo one  two`x", "<one twox>"),
        ("'`echo 1`'", "<`echo 1`>"),
        ('"it\'s $FACT"', "<it's a  b; c>"),
        (r"\$FACT$NOTHING", "<$FACT>"),
    ],
)
def test_variables_and_back_ticks(word: str, printed: str) -> None:
    """A variable, in single quotes too, and the output of what stands in back-ticks are one word or a part of one."""
    arguments = arguments_of(f"printf '<%s>' {word}")
    environment = {"PATH": "/usr/bin:/bin", "FACT": "a  b; c"}
    assert subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True).stdout == printed
