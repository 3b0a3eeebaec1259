"""Kubernetes CronJobs, from YAML."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tokimori.clock import Moment
from tokimori.formats.format import Format, FormatSource, Given, ImportRequest, Text
from tokimori.formats.importing import at_once, files_in, name_of, of_files, text_of
from tokimori.model.policies import Overlap
from tokimori.schedules.schedule import Gap

if TYPE_CHECKING:
    from tokimori.translators.entries import Entry

_YAML = re.compile(r".+\.ya?ml")
_MANIFEST = """apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly-report}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: report, command: [make, report]}]
"""


class KubernetesRequest(ImportRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """CronJobs as YAML. `time_zone` is that of jobs without one."""

    text: Text


def _read(said: KubernetesRequest, _now: Moment) -> "Iterator[Entry]":
    from tokimori.translators.kubernetes import read_manifest

    return read_manifest(said.text, file="text", zone=said.time_zone)


def _source(given: Given) -> FormatSource:
    from tokimori.translators.kubernetes import read_manifest

    zone, _ = given.zone("UTC")
    files = files_in(given.sources, _YAML, "YAML files (*.yaml, *.yml)")
    found = of_files(files, lambda file: read_manifest(text_of(file), file=name_of(file), zone=zone))
    return FormatSource(at_once(lambda: found), tuple(_notes(found)))


def _notes(found: "Iterable[Entry]") -> Iterator[str]:
    """Say what is different from Kubernetes."""
    from tokimori.translators.entries import Moved

    definitions = [each.definition for each in found if isinstance(each, Moved)]
    yield "the cluster still runs these jobs: suspend them there, or they run twice"
    if any(each.on_overlap is Overlap.SKIP and each.max_running == 1 for each in definitions):
        yield "with Forbid, Kubernetes may start an occurrence late, after an earlier run; Tokimori skips it"
    if any(each.gap is Gap.SKIP for each in definitions):
        yield "as in Kubernetes, times that clocks skip do not run, and those that they show twice run twice"


FORMAT = Format(
    what="CronJobs of Kubernetes",
    help="""Sources are YAML files, or folders of them; - reads standard input. The command of the container runs on a
    node as it is: images are not run. What a command can't have (volumes, secrets, several containers) is refused, with
    file and line. A job without timeZone is in UTC.""",
    request=KubernetesRequest,
    example={"text": _MANIFEST},
    read=_read,
    source=_source,
    metavar="DIR|FILE...",
    takes_many=True,
)
