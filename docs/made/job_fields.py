"""Writes docs/reference/job-fields.md from the one table of the fields of a job: `make docs`."""

from pathlib import Path

from docs.made.markdown import row
from tokimori.model.job_fields import SECTIONS, SPELLINGS

PAGE = Path(__file__).parents[1] / "reference/job-fields.md"


def page() -> str:
    """The page, with a table for each section."""
    lines = [
        "# The fields of a job",
        "",
        "Written by `make docs` from `src/tokimori/model/job_fields.py`, as are `help(tokimori.JobArguments)`,",
        "`tokimori job add --help` and the document of the HTTP API. `retry.delay` is the field `delay` of `retry`.",
        "A length is a number of seconds, or a text such as `90s`, `5m` or `1h30m`; Python takes a `timedelta`, too.",
        "A null stands for the default.",
    ]
    for title, fields in SECTIONS.items():
        lines += [
            "",
            f"## {title}",
            "",
            row(("field", "option", "meaning", "unit", "default", "bound")),
            "|---" * 6 + "|",
        ]
        for path, each in fields.items():
            said = (each.meaning, each.unit, each.default_text, each.bound)
            lines.append(row((f"`{path}`", f"`{SPELLINGS[path]}`", *said)))
    return "\n".join([*lines, ""])
