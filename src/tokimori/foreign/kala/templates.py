"""Kala's templates: `{{ .Name }}` between delimiters that the job names, for what is known of it when it is added.

Kala's are Go's `text/template`, a language. Here a template names one member (`{{$.Name}}` is the same, and a `-`
trims blanks, as there); all else is refused. Pure.
"""

import re

from tokimori.errors import InvalidInput
from tokimori.foreign.kala.shapes import JobRequest


def filled(field: str, text: str, told: JobRequest, job_id: str) -> str:
    """Return the text with the members of the job in their places. Raises `InvalidInput`."""
    if not told.delimiters:
        return text
    pair = told.delimiters.split(" ")
    if len(pair) != 2 or not all(pair):
        raise InvalidInput(
            "TemplateDelimiters: Job has invalid templating delimiters.",
            field="TemplateDelimiters",
            value=told.delimiters,
            allowed="two, with a blank between them, such as {{ }}",
        )
    facts = _facts(told, job_id)
    left, right = map(re.escape, pair)
    place = re.compile(rf"(?:\s*{left}-\s|{left})(.*?)(?:\s-{right}\s*|{right})", re.DOTALL)

    def fact(found: re.Match[str]) -> str:
        name = found[1].strip().removeprefix("$")  # of Go: the job itself, which is the dot here
        if name in facts:
            return facts[name]
        message = f"{field}: {name!r} is not known when the job is added"
        allowed = f"one of {', '.join(facts)} between the delimiters"
        raise InvalidInput(message, field=field, value=name, allowed=allowed)

    return place.sub(fact, text)


def _facts(told: JobRequest, job_id: str) -> dict[str, str]:
    """Return the value of each name, as Go would write it."""
    return {
        ".Name": told.name,
        ".Id": job_id,
        ".Command": told.command,
        ".Owner": told.owner,
        ".Disabled": str(told.disabled).lower(),
        ".Schedule": told.schedule,
        ".Retries": str(told.retries),
        ".Epsilon": told.epsilon,
        ".OnFailureJob": told.on_failure_job,
    }
