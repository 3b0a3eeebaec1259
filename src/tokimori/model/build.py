"""Builds: tasks as code, frozen into one file that is named by its content. Pure.

A build is a zip file that Python runs: its files, sorted, uncompressed and all of one time, so that the same input is
the same file anywhere. Its digest is the SHA-256 of that file. Stores keep it in pieces.
"""

import base64
import binascii
import io
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from tokimori.clock import DAY, Moment
from tokimori.errors import InvalidInput, Refused
from tokimori.model.document import texts_of

PIECE: Final = 192 * 1024
"""Bytes of a piece: as text they are as long as a document may be."""
LARGEST: Final = 16 * 2**20
"""Bytes of a build."""
UPLOAD, UPLOADED = "upload", "uploaded"
"""The kinds of documents that say that a build is being made, and that are its pieces until it is whole."""
UPLOAD_KEPT: Final = DAY
MOST_UPLOADS: Final = 4
"""Builds that one principal may be uploading at a time."""
MOST_PIECES: Final = -(-LARGEST // PIECE)
MANIFEST: Final = "tokimori-build.json"
MAIN: Final = "__main__.py"
LARGEST_MANIFEST: Final = 2**18
NAME_ALLOWED: Final = "1 to 100 of A-Z a-z 0-9 . _ -, beginning with a letter or a digit"
DIGEST_ALLOWED: Final = "64 of 0-9 a-f, as `tokimori task builds` shows them"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}\Z", re.ASCII)
_WHEN = (1980, 1, 1, 0, 0, 0)
"""The time of every file in a build: the first one that a zip file can hold."""


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Facts of a build that a node needs. `lock` has lines for pip, each with hashes; without them, no environment.

    `locked_for` is the Python and the machine for which they were chosen, `variables` the names of those in the task's
    `.env`.
    """

    task: str
    lock: tuple[str, ...] = ()
    locked_for: str = ""
    variables: tuple[str, ...] = ()


_manifests = msgspec.json.Decoder(Manifest)


def check_digest(text: object, *, field: str = "digest") -> str:
    """Check a digest. Raises `InvalidInput`."""
    if isinstance(text, str) and _DIGEST.match(text):
        return text
    raise InvalidInput(f"{field}: {text!r} is no digest", field=field, value=text, allowed=DIGEST_ALLOWED)


def check_task_name(name: object, *, field: str = "name") -> str:
    """Check the name of a task: it is a job's id, and a folder. Raises `InvalidInput`."""
    if isinstance(name, str) and _NAME.match(name):
        return name
    raise InvalidInput(f"{field}: {name!r} is not the name of a task", field=field, value=name, allowed=NAME_ALLOWED)


def check_build_name(task: str, digest: str) -> None:
    """Check the name of a build. Raises `InvalidInput`."""
    check_task_name(task, field="build")
    check_digest(digest, field="build")


def build_name(task: str, digest: str) -> str:
    """Return the build of a task in one word, as jobs name it."""
    return f"{task}@{digest}"


def digest_of(content: bytes) -> str:
    """Return the digest of this content."""
    return sha256(content).hexdigest()


def frozen(files: Mapping[str, bytes], manifest: Manifest) -> bytes:
    """Return one file of all these files, by their paths in the task. Raises `InvalidInput` if it is too large."""
    import zipfile  # noqa: PLC0415  with its compressors: few programs meet a build

    written = io.BytesIO()
    everything = {**files, MANIFEST: msgspec.json.encode(manifest)}
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(everything):
            entry = zipfile.ZipInfo(name, _WHEN)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, everything[name])
    content = written.getvalue()
    if len(content) > LARGEST:
        raise InvalidInput(
            f"build: {manifest.task!r} has {len(content)} bytes",
            field="build",
            value=len(content),
            allowed=f"at most {LARGEST} bytes: keep data elsewhere, and list packages as dependencies",
        )
    return content


def manifest_of(content: bytes) -> Manifest:
    """Return the manifest in the build. Raises `Refused` for a file that is no build.

    A compressed file is no build: a few bytes of it may become gigabytes.
    """
    import zipfile  # noqa: PLC0415

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entry = archive.getinfo(MANIFEST)
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > LARGEST_MANIFEST:
                raise Refused("build: its manifest is compressed or too large", field="build")
            return _manifests.decode(archive.read(entry))
    except (zipfile.BadZipFile, KeyError, ValueError, RuntimeError, EOFError) as fault:
        raise Refused(f"build: it is none that this version can run: {fault}", field="build") from None


def pieces_of(content: bytes) -> tuple[str, ...]:
    """Return the texts in which stores keep it."""
    return tuple(base64.b64encode(content[at : at + PIECE]).decode() for at in range(0, len(content), PIECE))


def content_of(pieces: Sequence[str], digest: str) -> bytes:
    """Return the content in these texts. Raises `Refused` if the digest differs."""
    try:
        content = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
    except (binascii.Error, ValueError):
        raise tampered(digest, "a piece of it is no text of ours") from None
    check_content(content, digest)
    return content


def check_content(content: bytes, digest: str) -> None:
    """Raise `Refused` if the digest differs."""
    found = digest_of(content)
    if found != digest:
        raise tampered(digest, f"the stored build has the digest {found[:12]}")


def tampered(digest: str, why: str) -> Refused:
    """Return the error for a build that was changed, or that lacks a part."""
    return Refused(
        f"build: {digest[:12]} is not what was built, and is not run: {why}; `tokimori task build` makes it anew",
        field="build",
        value=digest,
    )


class Upload(Struct, frozen=True, kw_only=True):
    """Upload of a build by somebody (None: unknown), since when."""

    by: str | None
    at: Moment
    digest: str


encode_upload, decode_upload = texts_of(Upload)


def upload_name(by: str | None, task: str = "", digest: str = "") -> str:
    """Return the name of a principal's upload; without a task, the prefix of all their uploads."""
    return f"{digest_of((by or '').encode())[:32]}/{build_name(task, digest) if task else ''}"


def piece_name(task: str, digest: str, number: int) -> str:
    """Return the name of this piece in the store; names are in the order of the numbers."""
    return f"{build_name(task, digest)}.{number:04}"
