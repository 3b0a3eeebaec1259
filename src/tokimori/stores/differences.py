"""Comparison of a store's tables with those that migrations make."""

from collections.abc import Mapping

Parts = Mapping[tuple[str, str], str]
"""Tables, columns, indexes and functions: what each is, by its kind and name."""


def differences(expected: Parts, found: Parts) -> list[str]:
    """Return what is missing or different, a sentence each. Additions of others are theirs."""
    missing_tables = {name for kind, name in expected.keys() - found.keys() if kind == "table"}
    return [
        f"the {kind} {name} is {f'{found[kind, name]}, not {text}' if (kind, name) in found else 'missing'}"
        for (kind, name), text in sorted(expected.items())
        if found.get((kind, name)) != text and (kind == "table" or name.partition(".")[0] not in missing_tables)
    ]
