"""A build, made of a task's source: everything is checked before anything is kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tokimori.model.build import Manifest, digest_of, env_file, frozen, pieces_of
from tokimori.model.task import BuildRecord, check_build
from tokimori.workspace.locking import locked, locked_for
from tokimori.workspace.scheduling import terms_of
from tokimori.workspace.source import TaskSource, read_source


@dataclass(frozen=True, slots=True)
class Frozen:
    """A build as it is before it is kept: what is recorded of it, and its content."""

    record: BuildRecord
    content: bytes


def freeze(tasks_dir: Path, name: str, environ: Mapping[str, str]) -> Frozen:
    """Return the build of a task, as its source is now. Nothing is written. Raises `InvalidInput`, `NotFound`,
    `Refused`.
    """
    source = read_source(tasks_dir, name)
    terms = terms_of(source, environ)
    content = content_of_source(source)
    record = BuildRecord(
        digest=digest_of(content),
        size=len(content),
        pieces=len(pieces_of(content)),
        schedule=terms.schedule,
        terms=dict(terms.others),
        description=source.description,
        dependencies=source.dependencies,
    )
    check_build(record)
    return Frozen(record, content)


def content_of_source(source: TaskSource) -> bytes:
    """Return the file of the build, with its dependencies locked."""
    lock = locked(source.dependencies, source.metadata.requires_python)
    manifest = Manifest(task=source.name, lock=lock, locked_for=locked_for() if lock else "")
    return frozen({**source.files, **env_file(source.env)}, manifest)
