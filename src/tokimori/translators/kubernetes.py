"""Kubernetes CronJobs, as the batch/v1 API describes them, read from YAML. Pure.

A job becomes the command of its container, which runs on a node without its image. Fields that a command can't have
(volumes, secrets, several containers …) are refused, so that no job runs in another way than its manifest says. Fields
that matter only to a cluster or to images are left out. An empty value counts as missing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil

from tokimori.clock import Moment
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.model.checks import check_definition
from tokimori.model.ids import check_job_id
from tokimori.model.job import Definition, schedule_of
from tokimori.model.policies import Overlap, Retry
from tokimori.model.target import Command
from tokimori.model.words import check_word
from tokimori.schedules.schedule import Fold, Gap
from tokimori.schedules.zones import check_zone
from tokimori.service.definitions.imports import Start
from tokimori.translators.entries import AT_ONCE, Entry, Inactive, Moved, Refused, Unread, Warnings
from tokimori.translators.kubernetes_schedule import read_schedule
from tokimori.translators.yaml_tree import Faults, Value, read_documents

API_VERSIONS = ("batch/v1", "batch/v1beta1")
_BACKOFF_LIMIT, _TERMINATION_GRACE = 6, 30  # the defaults of the API
_RETRY_DELAY, _RETRY_BACKOFF, _RETRY_CAP = 10, 2, 360  # documented of Jobs: 10 s, 20 s, 40 s … up to six minutes
_HOST_LABEL = "kubernetes.io/hostname"
_OF_EVERY_NODE = frozenset({"kubernetes.io/os", "kubernetes.io/arch"})

_MEMORY = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT]i|[kMGT]|)\Z", re.ASCII)
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")

_HONOURED = {
    "metadata": "name namespace labels annotations",
    "spec": "schedule timeZone concurrencyPolicy startingDeadlineSeconds suspend jobTemplate",
    "job_template": "spec",
    "job": "backoffLimit activeDeadlineSeconds template parallelism completions completionMode",
    "template": "spec",
    "pod": "containers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds nodeSelector"
    " serviceAccountName serviceAccount securityContext",
    "container": "name image command args env workingDir resources securityContext",
    "security": "",
    "pod_security": "",
}
_HARDENING = (
    "allowPrivilegeEscalation readOnlyRootFilesystem capabilities seccompProfile appArmorProfile seLinuxOptions"
    " runAsNonRoot"
)
"""Parts of a securityContext that only take rights away."""
_LEFT_OUT = {
    "spec": "successfulJobsHistoryLimit failedJobsHistoryLimit",
    "job": "ttlSecondsAfterFinished",
    "pod": "tolerations priorityClassName priority runtimeClassName",
    "security": _HARDENING,
    "pod_security": _HARDENING,
}
_INSTEAD = {"envFrom": "env with the variables, a secret as '{{ secret.NAME }}'"}
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
    pod_security: Value
    container: Value
    security: Value


def read_manifest(text: str, *, file: str, zone: str = "UTC") -> Iterator[Entry]:
    """Read the CronJobs of a file, also those in a `List`; `zone` is that of a job without `timeZone`.

    An id is `namespace:name`, or just the name without a namespace. Raises `InvalidFile` if it is no YAML.
    """
    faults, found, firsts = Faults(file), list[Entry](), set[str]()
    try:
        for resource, is_sound in _resources(text, faults):
            known = len(faults.lines)
            found += _entries(resource, zone, is_sound)
            firsts.update(faults.texts_after(known)[:1])
    except InvalidFile as fault:
        if "{{" not in text:
            raise
        message = f"{fault.message}; a template of Helm is written out by `helm template`"
        raise InvalidFile(message, field=fault.field, value=fault.value, allowed=fault.allowed) from None
    if not (faults.lines or any(isinstance(each, Moved) for each in found)):
        faults.add(1, "the file has no CronJob")
    for refusal in faults.texts():
        kind = Refused if refusal in firsts or not firsts else Unread
        yield kind(*refusal.split(": ", 1))
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
    if left_out:
        warnings.note(f"{', '.join(sorted(set(left_out)))}: left out, as it matters only to a cluster")
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
    container = _only_container(pod)
    return _Parts(
        metadata=resource.below("metadata"),
        spec=spec,
        job_template=job_template,
        job=job,
        template=template,
        pod=pod,
        pod_security=pod.below("securityContext"),
        container=container,
        security=container.below("securityContext"),
    )


def _check_fields(level: str, value: Value) -> list[str]:
    """Return the fields that are left out; refuse those that can't be honoured."""
    left_out = []
    for name, below in value.fields().items():
        if name in _LEFT_OUT.get(level, "").split() and not below.is_empty():
            left_out.append(f"securityContext.{name}" if level.endswith("security") else name)
        elif not (below.is_empty() or name in f"{_HONOURED[level]} {_MEANINGLESS.get(level, '')}".split()):
            below.refuse(f"a command on a node can't have this; allowed: {_INSTEAD.get(name, 'to leave it out')}")
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
        max_memory=_memory(parts.container.below("resources").below("limits")),
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


def _memory(limits: Value) -> int | None:
    """Return the limit of memory in MiB, rounded up: `512Mi`, `1.5Gi`, `500M`, or bytes."""
    value = limits.get("memory")
    if value is None or value.is_empty():
        return None
    found = _MEMORY.match(str(value.content))
    if found is None:
        value.refuse("it is no amount of memory; allowed: such as 512Mi or 1Gi")
        return None
    return max(1, ceil(float(found[1]) * _UNITS[found[2]] / 2**20))


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
        whose = "its args are for the program of the image, which" if container.get("args") else "what the image runs"
        container.refuse(f"there is no command; allowed: a command: {whose} is not known here")
    given = [value for name in ("command", "args") if (value := container.get(name)) is not None]
    argv = tuple(_expanded(text, env) for value in given for text in value.texts())
    return Command(argv=argv, env=env, cwd=container.scalar("workingDir", str, "") or None)


def _env(container: Value) -> dict[str, str]:
    env: dict[str, str] = {}
    for variable in container.below("env").items() if container.get("env") else []:
        name = variable.scalar("name", str, "")
        if source := variable.get("valueFrom"):
            source.refuse("a command on a node can't have this; allowed: value, a secret as '{{ secret.NAME }}'")
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
