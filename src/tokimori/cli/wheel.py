"""This program as a wheel: one that was given, and the installed one packed again, to come back to."""

import base64
import hashlib
import json
import zipfile
from email.parser import Parser
from importlib.metadata import Distribution, PackagePath
from pathlib import Path

from tokimori.errors import InvalidInput, Refused

NAME = "tokimori"
_OF_THE_INSTALLATION = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


def version_of(wheel: Path) -> str:
    """Return the version of a wheel of this program. Raises `InvalidInput`."""
    try:
        with zipfile.ZipFile(wheel) as packed:
            place = next(each for each in packed.namelist() if each.endswith(".dist-info/METADATA"))
            said = Parser().parsestr(packed.read(place).decode(), headersonly=True)
    except (OSError, zipfile.BadZipFile, StopIteration, UnicodeDecodeError) as fault:
        message = f"wheel: {wheel} can't be read as a wheel: {fault or 'it has no METADATA'}"
        raise InvalidInput(message, field="wheel", value=str(wheel), allowed="a wheel of tokimori") from None
    if said["Name"] != NAME:
        message = f"wheel: {wheel} is a wheel of {said['Name']}"
        raise InvalidInput(message, field="wheel", value=str(wheel), allowed="a wheel of tokimori")
    return str(said["Version"])


def packed_again(installed: Distribution, folder: Path) -> Path:
    """Return the installed version as a wheel in the folder. Raises `Refused` for an installation from a folder of
    sources.
    """
    told = json.loads(installed.read_text("direct_url.json") or "{}")
    if told.get("dir_info", {}).get("editable"):
        message = "this is an editable installation: update its sources, and start the node again"
        raise Refused(message, field="wheel", allowed="an installation from a wheel")
    files = [each for each in installed.files or () if _belongs(each)]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    wheel = folder / f"{NAME}-{installed.version}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for each in files:
            data = Path(str(each.locate())).read_bytes()
            packed.writestr(each.as_posix(), data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{each.as_posix()},sha256={digest},{len(data)}\n")
        place = next(each.parent for each in files if each.name == "METADATA") / "RECORD"
        packed.writestr(place.as_posix(), "".join([*record, f"{place.as_posix()},,\n"]))
    return wheel


def _belongs(file: PackagePath) -> bool:
    """Return whether a wheel brings it: no scripts, which are made from it, no bytecode, no notes of the installer."""
    is_outside = file.parts[0] == ".." or "__pycache__" in file.parts
    return not is_outside and not (file.parent.suffix == ".dist-info" and file.name in _OF_THE_INSTALLATION)
