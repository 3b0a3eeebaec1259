"""Kubernetes CronJobs, as the batch/v1 API describes them, read from YAML. Pure.

A job becomes the command of its container, which runs on a node without its image. Fields that a command can't have
(volumes, secrets, several containers …) are refused, so that no job runs in another way than its manifest says. Fields
that matter only to a cluster or to images are left out. An empty value counts as missing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tokimori.clock import Moment
from tokimori.errors import InvalidInput
from tokimori.model.checks import check_definition
from tokimori.model.ids import check_job_id
from tokimori.model.job import Definition, schedule_of
from tokimori.model.policies import Overlap, Retry
from tokimori.model.target import Command
from tokimori.model.words import check_word
from tokimori.schedules.cron import MACROS
from tokimori.schedules.cron_fields import DAY, HOUR, MINUTE, MONTH, WEEKDAY, FieldKind
from tokimori.schedules.schedule import Fold, Gap
from tokimori.schedules.zones import check_zone
from tokimori.service.definitions.imports import Start
from tokimori.translators.entries import AT_ONCE, Entry, Inactive, Moved, Refused, Warnings
from tokimori.translators.yaml_tree import Faults, Value, read_documents

_KINDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_TERM = re.compile(r"(?:[*?]|([a-z]{3}|\d{1,2})(?:-([a-z]{3}|\d{1,2}))?)(?:/(\d{1,4}))?\Z", re.ASCII | re.IGNORECASE)


def read_schedule(text: str) -> str:
    """Return the schedule in our own rules. Raises `InvalidInput` if Kubernetes would refuse it."""
    words = text.split()
    if "TZ" in text:
        raise InvalidInput(
            "TZ and CRON_TZ are not allowed in it", field="schedule", value=text, allowed="timeZone beside it"
        )
    if text.startswith("@"):
        if words[0] == "@every" or text in MACROS:
            return " ".join(words)
        allowed = f"{', '.join(MACROS)}, @every 1h30m"
        raise InvalidInput(f"{text!r} is unknown", field="schedule", value=text, allowed=allowed)
    if len(words) != len(_KINDS):
        raise InvalidInput(f"{text!r} has {len(words)} fields", field="schedule", value=text, allowed="5 fields")
    return " ".join(_field(kind, word) for kind, word in zip(_KINDS, words, strict=True))


def _field(kind: FieldKind, text: str) -> str:
    """Return the field in our own rules: a bare `*` among its terms means any value, and `*` with a step is a range."""
    terms = [_term(kind, term) for term in text.split(",")]
    return "*" if "*" in terms else ",".join(terms)


def _term(kind: FieldKind, text: str) -> str:
    found = _TERM.match(text)
    high = 6 if kind is WEEKDAY else kind.high
    allowed = f"{kind.name}: {kind.low}-{high}, with * ? , - and /"
    first, last, step = found.groups() if found else (None, None, "0")
    if step is not None and int(step) == 0:
        raise InvalidInput(f"{kind.name}: {text!r} is not allowed", field="schedule", value=text, allowed=allowed)
    if first is None:
        if step in (None, "1"):
            return "*"
        return f"{kind.low}-{high}/{step}" if kind in (DAY, WEEKDAY) else f"*/{step}"
    numbers = [_number(kind, each) for each in (first, last) if each is not None]
    if not all(kind.low <= number <= high for number in numbers) or numbers != sorted(numbers):
        raise InvalidInput(f"{kind.name}: {text!r} is not allowed", field="schedule", value=text, allowed=allowed)
    return text


def _number(kind: FieldKind, text: str) -> int:
    if text.isdigit():
        return int(text)
    return kind.low + kind.names.index(text.lower()) if text.lower() in kind.names else -1


API_VERSIONS = ("batch/v1", "batch/v1beta1")
_BACKOFF_LIMIT, _TERMINATION_GRACE = 6, 30  # the defaults of the API
_RETRY_DELAY, _RETRY_BACKOFF, _RETRY_CAP = 10, 2, 360  # documented of Jobs: 10 s, 20 s, 40 s … up to six minutes
_HOST_LABEL = "kubernetes.io/hostname"
_OF_EVERY_NODE = frozenset({"kubernetes.io/os", "kubernetes.io/arch"})

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")

_HONOURED = {
    "metadata": "name namespace labels annotations",
    "spec": "schedule timeZone concurrencyPolicy startingDeadlineSeconds suspend jobTemplate",
    "job_template": "spec",
    "job": "backoffLimit activeDeadlineSeconds template parallelism completions completionMode",
    "template": "spec",
    "pod": "containers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds nodeSelector"
    " serviceAccountName serviceAccount",
    "container": "name image command args env workingDir",
}
_LEFT_OUT = {
    "spec": "successfulJobsHistoryLimit failedJobsHistoryLimit",
    "job": "ttlSecondsAfterFinished",
    "pod": "tolerations priorityClassName priority runtimeClassName",
    "container": "resources",
}
_MEANINGLESS = {
    "metadata": "uid resourceVersion creationTimestamp generation managedFields selfLink ownerReferences finalizers",
    "job_template": "metadata",
    "job": "podReplacementPolicy manualSelector selector",
    "template": "metadata",
    "pod": "imagePullSecrets automountServiceAccountToken dnsPolicy dnsConfig schedulerName enableServiceLinks"
    " preemptionPolicy hostname subdomain setHostnameAsFQDN overhead hostNetwork hostPID hostIPC shareProcessNamespace",
    "container": "imagePullPolicy terminationMessagePath terminationMessagePolicy ports tty stdinOnce startupProbe"
    " readinessProbe resizePolicy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The levels of a CronJob, under the names that the tables above use."""

    metadata: Value
    spec: Value
    job_template: Value
    job: Value
    template: Value
    pod: Value
    container: Value


def read_manifest(text: str, *, file: str, zone: str = "UTC") -> Iterator[Entry]:
    """Read the CronJobs of a file, also those in a `List`; `zone` is that of a job without `timeZone`.

    An id is `namespace:name`, or just the name without a namespace. Raises `InvalidFile` if it is no YAML.
    """
    faults = Faults(file)
    found = [entry for resource, is_sound in _resources(text, faults) for entry in _entries(resource, zone, is_sound)]
    if not (faults.lines or any(isinstance(each, Moved) for each in found)):
        faults.add(1, "the file has no CronJob")
    yield from (Refused(*text.split(": ", 1)) for text in faults.texts())
    yield from found


def _resources(text: str, faults: Faults) -> Iterator[tuple[Value, bool]]:
    """Return the resources, each with False if its document names a field twice."""
    known = 0
    for document in read_documents(text, faults):
        is_sound = len(faults.lines) == known
        is_list = document.scalar("kind", str, "").endswith("List")
        for each in (document.below("items").items() if document.get("items") else []) if is_list else [document]:
            yield each, is_sound
        known = len(faults.lines)


def _entries(resource: Value, zone: str, is_sound: bool) -> Iterator[Entry]:
    """Read a resource; a faulty one gives no job."""
    kind = resource.scalar("kind", str, "")
    if kind == "CronJob":
        yield from _cron_job(resource, zone, is_sound)
    elif kind:
        yield Inactive(f"{resource.faults.file}:{resource.line}", f"{kind}: it is not a CronJob")
    else:
        resource.refuse("there is no kind; allowed: kind: CronJob, as in every Kubernetes object")


def _cron_job(resource: Value, zone: str, is_sound: bool) -> Iterator[Entry]:
    faults = resource.faults
    before = len(faults.lines)
    version = resource.scalar("apiVersion", str, "")
    if version not in API_VERSIONS:
        resource.refuse(f"apiVersion: {version!r} is not allowed; allowed: {', '.join(API_VERSIONS)}")
    parts = _parts(resource)
    left_out = [name for level in _HONOURED for name in _check_fields(level, getattr(parts, level))]
    _check_job(parts.job, parts.pod)
    job_id, definition = _job_id(parts.metadata), _definition(parts, zone)
    if len(faults.lines) == before:
        _check_definition(parts.spec, definition)
    if len(faults.lines) > before or not is_sound:
        return
    warnings = Warnings()
    if image := parts.container.scalar("image", str, ""):
        warnings.add("image", image, "images are not run: a node must have its programs")
    for name in sorted(set(left_out)):
        warnings.add(name, "", "left out, as it matters only to a cluster")
    is_suspended = parts.spec.scalar("suspend", bool, default=False)
    yield Moved(
        place=f"{faults.file}:{parts.metadata.line}",
        job_id=job_id,
        definition=definition,
        start=Start(paused_because="suspended in Kubernetes") if is_suspended else AT_ONCE,
        warnings=warnings.all(),
    )


def _parts(resource: Value) -> _Parts:
    spec = resource.below("spec")
    job_template = spec.below("jobTemplate")
    job = job_template.below("spec")
    template = job.below("template")
    pod = template.below("spec")
    return _Parts(
        metadata=resource.below("metadata"),
        spec=spec,
        job_template=job_template,
        job=job,
        template=template,
        pod=pod,
        container=_only_container(pod),
    )


def _check_fields(level: str, value: Value) -> list[str]:
    """Return the fields that are left out; refuse those that can't be honoured."""
    left_out = []
    for name, below in value.fields().items():
        if name in _LEFT_OUT.get(level, "").split() and not below.is_empty():
            left_out.append(name)
        elif not (below.is_empty() or name in f"{_HONOURED[level]} {_MEANINGLESS.get(level, '')}".split()):
            below.refuse("a command on a node can't have this; allowed: to leave it out")
    return left_out


def _check_definition(spec: Value, definition: Definition) -> None:
    """Note faults of the definition as a whole, if its parts are fine."""
    try:
        check_definition(definition)
        schedule_of(definition, Moment(0))
    except InvalidInput as fault:
        allowed = "" if fault.allowed is None or fault.allowed in fault.message else f"; allowed: {fault.allowed}"
        spec.refuse(f"{fault.message}{allowed}")


# From fields to a definition


def _job_id(metadata: Value) -> str:
    namespace, name = metadata.scalar("namespace", str, ""), metadata.scalar("name", str, "")
    if not name:
        metadata.refuse("there is no name; allowed: a name, which becomes the job's id")
        return ""
    job_id = f"{namespace}:{name}" if namespace else name
    try:
        return check_job_id(job_id)
    except InvalidInput as fault:
        metadata.refuse(f"{fault.message}; allowed: {fault.allowed}")
        return job_id


def _check_job(job: Value, pod: Value) -> None:
    for name in ("parallelism", "completions"):
        if job.scalar(name, int, 1) != 1:
            job.below(name).refuse(f"{job.scalar(name, int, 1)} is not allowed; allowed: 1, as a run is one process")
    for value, name, allowed in (
        (job, "completionMode", ("NonIndexed",)),
        (pod, "restartPolicy", ("Never", "OnFailure")),
        (pod, "serviceAccountName", ("default",)),
        (pod, "serviceAccount", ("default",)),
    ):
        word = value.scalar(name, str, allowed[0])
        if word not in allowed:
            value.below(name).refuse(f"{word!r} is not allowed; allowed: {', '.join(allowed)}")


def _definition(parts: _Parts, default_zone: str) -> Definition:
    spec, pod = parts.spec, parts.pod
    max_running, on_overlap = _concurrency(spec)
    zone = _zone_of(spec, default_zone)
    notes = {**_texts(parts.metadata.below("labels")), **_texts(parts.metadata.below("annotations"))}
    place = f"{spec.faults.file}:{parts.metadata.line}"
    return Definition(
        schedule=_schedule_of(spec),
        time_zone=zone,
        gap=Gap.SHIFT if zone == "UTC" else Gap.SKIP,
        fold=Fold.FIRST if zone == "UTC" else Fold.BOTH,
        description=notes.get("kubernetes.io/description") or notes.get("description") or place,
        owner=notes.get("owner") or notes.get("team"),
        grace=spec.scalar("startingDeadlineSeconds", int, 0) if spec.get("startingDeadlineSeconds") else None,
        max_running=max_running,
        on_overlap=on_overlap,
        retry=_retry(parts.job),
        labels=_labels(pod),
        timeout=_timeout(parts.job, pod),
        timeout_grace=pod.scalar("terminationGracePeriodSeconds", int, _TERMINATION_GRACE),
        target=_command(parts.container),
    )


def _retry(job: Value) -> Retry:
    attempts = 1 + job.scalar("backoffLimit", int, _BACKOFF_LIMIT)
    if attempts == 1:
        return Retry()
    return Retry(attempts=attempts, delay=_RETRY_DELAY, backoff=_RETRY_BACKOFF, cap=_RETRY_CAP)


def _timeout(job: Value, pod: Value) -> int | None:
    """Return the time-out of an attempt: the shorter one of the deadlines of job and pod."""
    given = [value for value in (job, pod) if value.get("activeDeadlineSeconds")]
    return min((value.scalar("activeDeadlineSeconds", int, 1) for value in given), default=None)


def _concurrency(spec: Value) -> tuple[int, Overlap]:
    """Return `max_running` and `on_overlap`."""
    policy = spec.scalar("concurrencyPolicy", str, "Allow")
    match policy:
        case "Allow":
            return 0, Overlap.SKIP
        case "Forbid":
            return 1, Overlap.SKIP
        case "Replace":
            return 1, Overlap.REPLACE
        case _:
            spec.below("concurrencyPolicy").refuse(f"{policy!r} is not allowed; allowed: Allow, Forbid, Replace")
            return 0, Overlap.SKIP


def _zone_of(spec: Value, default: str) -> str:
    zone = spec.scalar("timeZone", str, default)
    try:
        return check_zone(zone, field="timeZone")
    except InvalidInput as fault:
        spec.below("timeZone").refuse(f"{zone!r} is no time zone; allowed: {fault.allowed}")
        return default


def _labels(pod: Value) -> dict[str, str]:
    """Return the labels that a node must carry: `nodeSelector`, with our own label for the host."""
    labels = {}
    for name, value in _texts(pod.below("nodeSelector")).items():
        if name == _HOST_LABEL:
            labels["host"] = value
        elif name not in _OF_EVERY_NODE:
            labels[_word(pod, name)] = _word(pod, value)
    return labels


def _word(pod: Value, text: str) -> str:
    try:
        check_word("label", text)
    except InvalidInput as fault:
        pod.below("nodeSelector").refuse(f"{fault.message}; allowed: {fault.allowed}")
    return text


def _texts(value: Value) -> dict[str, str]:
    return {name: text for name, each in value.fields().items() if (text := each.as_a(str)) is not None}


# The command


def _only_container(pod: Value) -> Value:
    containers = pod.below("containers").items() if pod.get("containers") else []
    if len(containers) != 1:
        pod.refuse(f"there are {len(containers)} containers; allowed: one, whose command is run")
    return containers[0] if containers else Value(f"{pod.path}.containers[0]", pod.line, {}, pod.faults)


def _command(container: Value) -> Command:
    env = _env(container)
    command = container.get("command")
    if command is None or not command.texts():
        container.refuse("there is no command; allowed: a command, as what the image itself would run is not known")
    given = [value for name in ("command", "args") if (value := container.get(name)) is not None]
    argv = tuple(_expanded(text, env) for value in given for text in value.texts())
    return Command(argv=argv, env=env, cwd=container.scalar("workingDir", str, "") or None)


def _env(container: Value) -> dict[str, str]:
    env: dict[str, str] = {}
    for variable in container.below("env").items() if container.get("env") else []:
        name = variable.scalar("name", str, "")
        if source := variable.get("valueFrom"):
            source.refuse("a command on a node can't have this; allowed: value")
        elif name:
            env[name] = _expanded(variable.scalar("value", str, ""), env)
        else:
            variable.refuse("there is no name; allowed: name and value")
    return env


def _expanded(text: str, env: Mapping[str, str]) -> str:
    """Expand `$(NAME)` of a known variable to its value, and `$$` to one `$`."""
    return _REFERENCE.sub(lambda found: "$" if found[1] is None else env.get(found[1], found[0]), text)


# The schedule


def _schedule_of(spec: Value) -> str | None:
    value = spec.get("schedule")
    if value is None:
        spec.refuse("there is no schedule; allowed: a cron expression of 5 fields")
        return None
    text = value.as_a(str)
    try:
        return None if text is None else read_schedule(text)
    except InvalidInput as fault:
        value.refuse(f"{fault.message}; allowed: {fault.allowed}")
        return None
