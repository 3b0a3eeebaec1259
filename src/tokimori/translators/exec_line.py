"""Command lines of systemd's services (`ExecStart=`), rewritten as commands of ours. Pure.

Words are quoted as in C and not as in a shell, nothing is expanded but `%` and `$NAME`, and several lines run one after
another until one fails. A line is kept as a list of words; where it needs more it becomes a text for the shell.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tokimori.translators.unit_file import Assignment, Unit, prefix_and_instance, stem_of

_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " ", "\\": "\\"}
_ESCAPES |= {"'": "'", '"': '"'}
_HEX = re.compile(r"x([0-9a-fA-F]{2})|([0-7]{3})")
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)", re.ASCII)
_SPECIFIER = re.compile(r"%(.?)")
_PREFIXES = "@-:+!|"
_ALLOWED_WORDS = "words, quoted by ' or \" where they hold blanks"
_ALLOWED_PREFIXES = "no prefix, or - to ignore a failure"


class _Line(NamedTuple):
    """A line, read: its words, whether its failure counts, and whether `$` means something in it."""

    words: Sequence[str]
    may_fail: bool
    expands: bool


def command_of(lines: Sequence[Assignment], unit: Unit) -> str | tuple[str, ...]:
    """Return the command that these lines are: a list of words, or a text for the shell. Raises `InvalidFile`."""
    read = [_line(line, unit) for line in lines]
    if len(read) == 1 and not read[0].may_fail and not _uses_variables(read[0]):
        return tuple(word.replace("$$", "$") if read[0].expands else word for word in read[0].words)
    return " && ".join(_in_shell(line, alone=len(read) == 1) for line in read)


def words_of(line: Assignment) -> list[str]:
    """Return the words of a line. Raises `InvalidFile`."""
    words: list[str] = []
    word: list[str] | None = None
    quote, at, text = "", 0, line.value
    while at < len(text):
        letter = text[at]
        at += 1
        if letter.isspace() and not quote:
            words += [] if word is None else ["".join(word)]
            word = None
            continue
        word = [] if word is None else word
        if letter == "\\" and at < len(text):
            said, length = _escaped(text, at, line)
            word.append(said)
            at += length
        elif letter == quote:
            quote = ""
        elif letter in "'\"" and not quote:
            quote = letter
        else:
            word.append(letter)
    if quote:
        raise line.refused(f"there is no closing {quote}", _ALLOWED_WORDS)
    return words if word is None else [*words, "".join(word)]


def _escaped(text: str, at: int, line: Assignment) -> tuple[str, int]:
    if found := _HEX.match(text, at):
        return chr(int(found[1], 16) if found[1] else int(found[2], 8)), len(found[0])
    if text[at] not in _ESCAPES:
        raise line.refused(f"\\{text[at]} is no escape of systemd", _ALLOWED_WORDS)
    return _ESCAPES[text[at]], 1


def expanded(text: str, unit: Unit, line: Assignment) -> str:
    """Return the text with what `%` stands for. Raises `InvalidFile` for what only a running systemd knows."""
    prefix, instance = prefix_and_instance(unit.name)
    known: Mapping[str, str] = {
        "%": "%",
        "n": unit.name,
        "N": stem_of(unit.name),
        "p": prefix,
        "i": instance,
        "j": prefix.rpartition("-")[2],
    }

    def meaning(found: re.Match[str]) -> str:
        if found[1] not in known:
            raise line.refused(f"%{found[1]} is known only to systemd", f"%{', %'.join(known)}")
        return known[found[1]]

    return _SPECIFIER.sub(meaning, text)


def _line(line: Assignment, unit: Unit) -> _Line:
    text = line.value
    program = text.lstrip(_PREFIXES)
    prefixes = text[: len(text) - len(program)]
    if refused := sorted(set(prefixes) - {"-", ":"}):
        raise line.refused(f"the prefix {refused[0]} has no equal here", _ALLOWED_PREFIXES)
    words = [expanded(word, unit, line) for word in words_of(line._replace(value=program))]
    if not words:
        raise line.refused("it has no program", _ALLOWED_WORDS)
    if ";" in words:
        raise line.refused("several commands in one line", "a line for each command")
    return _Line(words, "-" in prefixes, ":" not in prefixes)


def _uses_variables(line: _Line) -> bool:
    return line.expands and any(found[0] != "$$" for word in line.words for found in _VARIABLE.finditer(word))


def _in_shell(line: _Line, *, alone: bool) -> str:
    text = " ".join(_shell_word(word) if line.expands else shlex.quote(word) for word in line.words)
    if not line.may_fail:
        return text
    return f"{text} || true" if alone else f"{{ {text} || true; }}"


def _shell_word(word: str) -> str:
    """Return a word for the shell: a variable that is a word by itself is split at blanks, one within a word is not."""
    if (alone := _VARIABLE.fullmatch(word)) and alone[2]:
        return f"${{{alone[2]}}}"
    parts, at = [], 0
    for found in _VARIABLE.finditer(word):
        parts += [shlex.quote(word[at : found.start()])] if at < found.start() else []
        name = found[1] or found[2]
        parts.append("'$'" if found[0] == "$$" else f'"${{{name}}}"')
        at = found.end()
    parts += [shlex.quote(word[at:])] if at < len(word) or not parts else []
    return "".join(parts)
