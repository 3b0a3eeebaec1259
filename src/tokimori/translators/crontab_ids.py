"""Ids of the lines of a crontab: the name of the program that a line runs. Pure."""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9_]+")
_LONGEST_NAME = 100
_PARTS = re.compile(r"&&|\|\||[;|\n]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BESIDE = frozenset(
    (
        *("cd", "test", "[", "[[", "export", "umask", "source", ".", "sleep", "set", "ulimit", "command", "true"),
        *("for", "case", "fi", "done", "esac", "grep", "mkdir", "which", "date"),
    )
)
"""Commands that only prepare the main one of a line."""
_BEFORE = {
    **dict.fromkeys(("exec", "env", "nice", "ionice", "nohup", "time", "sudo", "chronic", "setsid", "eval"), 1),
    **dict.fromkeys(("if", "then", "elif", "else", "while", "until", "do", "timeout", "doas", "run-one"), 1),
    "flock": 2,
}
"""Words before the main command of a line, and how many arguments go with each."""
_INTERPRETERS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "python", "perl", "ruby", "php", "node"))
_RUNNERS = frozenset(("uv", "poetry", "pipenv", "pdm", "hatch", "bundle", "npm", "yarn", "pnpm"))
"""Programs that run another one: `uv run report.py`, `bundle exec rake`."""
_SUBSTITUTED = re.compile(r"\$\(\([^()]*\)\)|\$\([^()]*\)|`[^`]*`")
_PATTERN = re.compile(r"""\bgrep(?:\s+-\S+)*\s+('[^']*'|"[^"]*")""")
_AS_SOMEBODY = re.compile(r"\b(sudo|doas)\s+(?:-\S+\s+)*?-[ug]\s+\S+")
_OF_A_SHELL = re.compile(r"""\b(?:(?:ba|da|z|k)?sh\s+(?:-\w+\s+)*?|su\s+(?:-\S*\s+)*\S+\s+)-[a-z]*c\s+['"]?""")
_CODE = re.compile(r"""\b(python[\d.]*|perl|ruby|php|node)\s+(?:-\w+\s+)*?-\w*[cer]\s*('[^']*'|"[^"]*")""")
"""Options of a command that name a user, give a shell its line, or give an interpreter its code."""
PROGRAMS = _BESIDE | _BEFORE.keys() | _INTERPRETERS
"""Words that begin commands, and name no user."""


def program_of(command: str) -> str:
    """Return the name of the program that a command runs, as an id: `backup-sh` of `cd /srv && ./backup.sh -q`."""
    first = "job"
    plain = _CODE.sub(r"\1", _OF_A_SHELL.sub("", _AS_SOMEBODY.sub(r"\1", command)))
    for part in _PARTS.split(_SUBSTITUTED.sub("", _PATTERN.sub("grep", plain))):
        words = [each for each in _words(part) if not (_ASSIGNMENT.match(each) or each[:1] in "-<>&{(!0123456789")]
        while words and PurePath(words[0]).name in _BEFORE:
            del words[: _BEFORE[PurePath(words[0]).name]]
        names = [PurePath(word).name for word in words]
        if len(names) > 2 and names[0] in _RUNNERS and names[1] in ("run", "exec"):
            del names[:2]
        if not names:
            continue
        is_variable = words[0].startswith("$") and "/" not in words[0]
        is_script = len(names) > 1 and (is_variable or names[0].rstrip("0123456789.") in _INTERPRETERS)
        if found := _NOT_IN_AN_ID.sub("-", names[1 if is_script else 0]).strip("-")[:_LONGEST_NAME]:
            if names[0] not in _BESIDE and (len(names) > 1 or names[0] not in _INTERPRETERS):
                return found
            first = found if first == "job" else first
    return first


def _words(text: str) -> Sequence[str]:
    try:
        return shlex.split(text)
    except ValueError:  # quotes that are open
        return text.split()


def numbered(name: str, taken: Counter[str]) -> str:
    """Return the name, or `name-2` and so on if it is taken; `taken` counts how often a name was asked for."""
    job_id, number = name, taken[name]
    while job_id in taken:
        number += 1
        job_id = f"{name}-{number}"
    taken[name] = max(number, 1)
    taken.setdefault(job_id, 1)
    return job_id
