"""Kubernetes CronJobs, as definitions."""

from textwrap import indent

import pytest

from tests.unit.translators.entries import only
from tokimori.clock import format_moment, parse_moment
from tokimori.errors import InvalidFile, InvalidInput
from tokimori.model.job import Definition, schedule_of
from tokimori.model.policies import Misfire, Overlap, Retry
from tokimori.model.target import Command
from tokimori.schedules.parse import parse_schedule
from tokimori.schedules.schedule import Fold, Gap, next_moments
from tokimori.service.definitions.imports import Start
from tokimori.translators.entries import AT_ONCE, Entry, Inactive, Moved, Refused, Unread
from tokimori.translators.kubernetes import read_manifest
from tokimori.translators.kubernetes_schedule import read_schedule

WHOLE = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: nightly-report
  namespace: billing
  uid: 0b0e-1
  labels: {team: finance}
  annotations:
    kubernetes.io/description: The report of the day
spec:
  schedule: "30 2 * * *"
  timeZone: Europe/Paris
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 600
  successfulJobsHistoryLimit: 3
  suspend: true
  jobTemplate:
    spec:
      backoffLimit: 2
      activeDeadlineSeconds: 3600
      template:
        spec:
          restartPolicy: OnFailure
          terminationGracePeriodSeconds: 5
          securityContext: {}
          nodeSelector: {kubernetes.io/hostname: n1, kubernetes.io/os: linux, disk: ssd}
          containers:
            - name: report
              image: registry/report:1.2
              workingDir: /srv
              command: [report, --day, $(DAY)]
              args: ["$$(DAY)", "$(NONE)", "$DAY"]
              env:
                - {name: DAY, value: to}
                - {name: BOTH, value: "$(DAY)-day"}
"""


def manifest(spec: str = "", pod: str = "", container: str = "", metadata: str = "") -> str:
    """The least that is a CronJob, and more fields for its levels."""
    return "\n".join(
        [
            "apiVersion: batch/v1",
            "kind: CronJob",
            "metadata:",
            "  name: j",
            indent(metadata, "  "),
            "spec:",
            "" if "schedule:" in spec else '  schedule: "0 9 * * *"',
            indent(spec, "  "),
            "" if "jobTemplate:" in spec else template(pod, container),
        ]
    )


def template(pod: str, container: str) -> str:
    return "\n".join(
        [
            "  jobTemplate:",
            "    spec:",
            "      template:",
            "        spec:",
            indent(pod, "          "),
            "" if "containers:" in pod else "          containers:\n            - command: [run]",
            indent(container, "              "),
        ]
    )


def read(text: str, zone: str = "UTC") -> list[Entry]:
    return list(read_manifest(text, file="f.yaml", zone=zone))


def job_of(text: str, zone: str = "UTC") -> Moved:
    """The only one."""
    return only(read(text, zone))


def faults_of(text: str) -> list[str]:
    try:
        return [f"{each.place}: {each.why}" for each in read(text) if isinstance(each, Refused)]
    except InvalidFile as fault:
        return fault.message.splitlines()


def test_a_whole_manifest() -> None:
    """Every field that Tokimori has a word for is honoured."""
    assert job_of(WHOLE) == Moved(
        place="f.yaml:3",
        job_id="billing:nightly-report",
        start=Start(paused_because="suspended in Kubernetes"),
        warnings=(
            "image: 'registry/report:1.2': images are not run: a node must have its programs",
            "successfulJobsHistoryLimit: left out, as it matters only to a cluster",
        ),
        definition=Definition(
            schedule="30 2 * * *",
            time_zone="Europe/Paris",
            gap=Gap.SKIP,
            fold=Fold.BOTH,
            description="The report of the day",
            owner="finance",
            misfire=Misfire.LATEST,
            grace=600,
            max_running=1,
            on_overlap=Overlap.SKIP,
            retry=Retry(attempts=3, delay=10, backoff=2, cap=360),
            labels={"host": "n1", "disk": "ssd"},
            timeout=3600,
            timeout_grace=5,
            target=Command(
                argv=("report", "--day", "to", "$(DAY)", "$(NONE)", "$DAY"),
                env={"DAY": "to", "BOTH": "to-day"},
                cwd="/srv",
            ),
        ),
    )


def test_the_least_manifest() -> None:
    """What is not said is as Kubernetes' API has it."""
    job = job_of(manifest())
    assert (job.job_id, job.start, job.warnings) == ("j", AT_ONCE, ())
    definition = job.definition
    assert (definition.time_zone, definition.gap, definition.fold) == ("UTC", Gap.SHIFT, Fold.FIRST)
    assert (definition.max_running, definition.grace, definition.timeout, definition.timeout_grace) == (
        0,
        None,
        None,
        30,
    )
    assert definition.retry.attempts == 7
    assert (definition.description, definition.owner) == ("f.yaml:3", None)


@pytest.mark.parametrize(
    ("policy", "max_running", "on_overlap"),
    [("Allow", 0, Overlap.SKIP), ("Forbid", 1, Overlap.SKIP), ("Replace", 1, Overlap.REPLACE)],
)
def test_policies_of_concurrency(policy: str, max_running: int, on_overlap: Overlap) -> None:
    """Each has its words here."""
    definition = job_of(manifest(f"concurrencyPolicy: {policy}")).definition
    assert (definition.max_running, definition.on_overlap) == (max_running, on_overlap)


def test_the_shorter_deadline_counts() -> None:
    """A job and its pod may both have one; no retries need no policy."""
    spec = "jobTemplate: {spec: {backoffLimit: 0, activeDeadlineSeconds: 9, template: {spec: {activeDeadlineSeconds: 5,"
    definition = job_of(manifest(spec + " containers: [{command: [run]}]}}}}")).definition
    assert (definition.timeout, definition.retry) == (5, Retry())


def test_the_zone_of_a_job_without_one() -> None:
    """It is the one given; there the jumps of clocks are as in Kubernetes."""
    definition = job_of(manifest(), "Asia/Tokyo").definition
    assert (definition.time_zone, definition.gap, definition.fold) == ("Asia/Tokyo", Gap.SKIP, Fold.BOTH)


def test_lists_and_other_kinds() -> None:
    """What `kubectl get -o yaml` prints is read; other objects are named and left out."""
    items = indent(manifest().removeprefix("apiVersion: batch/v1\n"), "    ")
    text = f"apiVersion: v1\nkind: List\nitems:\n  - apiVersion: batch/v1\n{items}\n  - {{kind: Service}}\n---\n{WHOLE}"
    found = read(text)
    assert [each.job_id for each in found if isinstance(each, Moved)] == ["j", "billing:nightly-report"]
    assert [each.why for each in found if isinstance(each, Inactive)] == ["Service: it is not a CronJob"]


def test_what_a_cluster_adds_is_no_news() -> None:
    """The defaults that `kubectl get -o yaml` shows, and what it knows of the past, say nothing about a command."""
    pod = "dnsPolicy: ClusterFirst\nschedulerName: default-scheduler\nsecurityContext: {}\nrestartPolicy: OnFailure"
    container = "imagePullPolicy: Always\nterminationMessagePath: /dev/termination-log\nresources: {}"
    metadata = "uid: u\nresourceVersion: '7'\ncreationTimestamp: 2026-01-01T00:00:00Z\ngeneration: 1"
    text = f"{manifest(pod=pod, container=container, metadata=metadata)}\nstatus: {{lastScheduleTime: x}}"
    assert job_of(text) == job_of(manifest())


POD, CONTAINER = "spec.jobTemplate.spec.template.spec", "spec.jobTemplate.spec.template.spec.containers[0]"
REFUSED = {
    manifest(
        "schedule: 'CRON_TZ=UTC 0 9 * * *'"
    ): "spec.schedule: TZ and CRON_TZ are not allowed in it; allowed: timeZone",
    manifest("schedule: TZ=UTC @daily"): "spec.schedule: TZ and CRON_TZ are not allowed in it; allowed: timeZone",
    manifest("schedule: 0 0 30 2 *"): "spec: day of month: '0 0 30 2 *' never comes",
    manifest("schedule: 5"): "spec.schedule: 5 is not allowed; allowed: a text",
    manifest("timeZone: Mars"): "spec.timeZone: 'Mars' is no time zone",
    manifest("timeZone: Local"): "spec.timeZone: 'Local' is no time zone",
    manifest("concurrencyPolicy: forbid"): "spec.concurrencyPolicy: 'forbid' is not allowed; allowed: Allow, Forbid,",
    manifest("startingDeadlineSeconds: '9'"): "spec.startingDeadlineSeconds: '9' is not allowed; allowed: a whole",
    manifest("startingDeadlineSeconds: -1"): "spec: grace: ",
    manifest("suspend: 'yes'"): "spec.suspend: 'yes' is not allowed; allowed: true or false",
    manifest("paused: true"): "spec.paused: a command on a node can't have this",
    manifest(pod="restartPolicy: Always"): f"{POD}.restartPolicy: 'Always' is not allowed; allowed: Never, OnFailure",
    manifest(pod="serviceAccountName: admin"): f"{POD}.serviceAccountName: 'admin' is not allowed; allowed: default",
    manifest(pod="volumes: [{name: v}]"): f"{POD}.volumes: a command on a node can't have this",
    manifest(pod="initContainers: [{name: i}]"): f"{POD}.initContainers: a command on a node can't have this",
    manifest(pod="securityContext: {runAsUser: 1}"): f"{POD}.securityContext.runAsUser: a command on",
    manifest(pod="affinity: {nodeAffinity: {}}"): f"{POD}.affinity: a command on a node can't have this",
    manifest(pod="nodeSelector: {a/b: c}"): f"{POD}.nodeSelector: label: 'a/b' is not a word",
    manifest(pod="containers: []"): f"{POD}: there are 0 containers; allowed: one",
    manifest(pod="containers: [{command: [a]}, {command: [b]}]"): f"{POD}: there are 2 containers; allowed: one",
    manifest(pod="containers: [{image: x, args: [a]}]"): f"{CONTAINER}: there is no command",
    manifest(
        container="envFrom: [{secretRef: {name: s}}]"
    ): f"{CONTAINER}.envFrom: a command on a node can't have this",
    manifest(container="volumeMounts: [{name: v}]"): f"{CONTAINER}.volumeMounts: a command on a node can't have this",
    manifest(container="env: [{name: A, valueFrom: {fieldRef: {}}}]"): f"{CONTAINER}.env[0].valueFrom: a command on",
    manifest(container="env: [{value: a}]"): f"{CONTAINER}.env[0]: there is no name",
    manifest(container="env: [{name: A, value: 1}]"): f"{CONTAINER}.env[0].value: 1 is not allowed; allowed: a text",
    manifest(metadata="namespace: 'a b'"): "metadata: id: 'a b:j' is not a job id",
    manifest().replace("batch/v1", "v1"): "apiVersion: 'v1' is not allowed; allowed: batch/v1, batch/v1beta1",
    manifest().replace("name: j", "generateName: j-"): "metadata: there is no name",
    "kind: Service": "the file has no CronJob",
    "a: b": "there is no kind",
    "": "the file has no CronJob",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_can_not_be_honoured_is_refused(text: str) -> None:
    """With file and line, the field, and what is allowed."""
    faults = [fault.split(" ", 1) for fault in faults_of(text)]
    assert any(said.startswith(REFUSED[text]) for _, said in faults)
    assert all(place.startswith("f.yaml:") for place, _ in faults)


def test_jobs_that_are_one_process_only() -> None:
    """Several pods, indexed ones and unknown rules are refused; what asks for one of each is not."""
    fine = "parallelism: 1, completions: 1, completionMode: NonIndexed, suspend: false, ttlSecondsAfterFinished: 5"
    text = manifest("jobTemplate: {spec: {%s, template: {spec: {containers: [{command: [a]}]}}}}")
    assert job_of(text % fine).warnings[0].startswith("ttlSecondsAfterFinished: ")
    bad = "parallelism: 2, completions: 3, completionMode: Indexed, suspend: true, podFailurePolicy: {rules: []}"
    assert [fault.split(": ")[1].rpartition(".")[2] for fault in faults_of(text % bad)] == [
        "completionMode",
        "completions",
        "parallelism",
        "podFailurePolicy",
        "suspend",
    ]


def test_all_faults_are_told_at_once() -> None:
    """Those of every job of the file, by line."""
    text = (
        f"{manifest('schedule: x')}\n---\n{manifest(pod='volumes: [{name: v}]', container='lifecycle: {preStop: 1}')}"
    )
    faults = faults_of(text)
    assert [fault.split(": ")[1].rpartition(".")[2] for fault in faults] == ["schedule", "volumes", "lifecycle"]
    lines = [int(fault.split(":")[1]) for fault in faults]
    assert lines == sorted(lines)
    assert text.splitlines()[lines[1] - 1].strip().startswith("volumes")


# Schedules

SCHEDULES = {
    "*/10 * * * *": "*/10 * * * *",
    "0 9 * * MON-FRI": "0 9 * * MON-FRI",
    "0 0 ? * ?": "0 0 * * *",
    "5/15 * * * *": "5/15 * * * *",
    "0 0 */2 * 1": "0 0 1-31/2 * 1",
    "0 0 */1 * 1": "0 0 * * 1",
    "0 0 1 * */2": "0 0 1 * 0-6/2",
    "0 0 5,* * 1": "0 0 * * 1",
    "@daily": "@daily",
    "@every 1h30m": "@every 1h30m",
    " 0  9 * * * ": "0 9 * * *",
}


@pytest.mark.parametrize("text", SCHEDULES)
def test_schedules_mean_what_they_mean_there(text: str) -> None:
    """Where our rules differ they are rewritten; the result can be read."""
    assert read_schedule(text) == SCHEDULES[text]
    parse_schedule(SCHEDULES[text])


def test_a_step_restricts_a_day_field() -> None:
    """In robfig/cron `*/2` does, so that either field may match, unlike in Vixie's cron."""
    schedule = parse_schedule(read_schedule("0 0 */15 * 1"))
    days = [format_moment(at)[5:10] for at in next_moments(schedule, parse_moment("2026-11-30T12:00:00Z"), 6)]
    assert days == ["12-01", "12-07", "12-14", "12-16", "12-21", "12-28"]


def test_jumps_of_clocks_are_as_there() -> None:
    """What clocks skip does not run, and what they show twice runs twice."""
    definition = job_of(manifest("schedule: 30 2 * * *\ntimeZone: Europe/Paris")).definition
    schedule = schedule_of(definition, parse_moment("2026-01-01T00:00:00Z"))
    spring = next_moments(schedule, parse_moment("2027-03-27T12:00:00Z"), 1)
    autumn = next_moments(schedule, parse_moment("2027-10-30T12:00:00Z"), 2)
    assert [format_moment(at) for at in [*spring, *autumn]] == [
        "2027-03-29T00:30:00Z",
        "2027-10-31T00:30:00Z",
        "2027-10-31T01:30:00Z",
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("0 9 * * 7", "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 * 13 *", "0 0 * foo *"),
        *("0 0 0 * * *", "0 0 * *", "0 0 L * *", "0 0 15W * *", "0 0 * * 5L", "0 0 * * 1#2", "H * * * *", ""),
        *("22-2 * * * *", "0 0 * * fri-mon", "*/0 * * * *", "*-5 * * * *", "@reboot", "@nightly", "every 5 minutes"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused(text: str) -> None:
    """So that a file means the same on both sides."""
    with pytest.raises(InvalidInput) as caught:
        read_schedule(text)
    assert caught.value.allowed


@pytest.mark.parametrize(
    ("memory", "mib"), [("512Mi", 512), ("1Gi", 1024), ("1.5Gi", 1536), ("500M", 477), ("1048577", 2), ("64Ki", 1)]
)
def test_a_limit_of_memory_is_that_of_the_job(memory: str, mib: int) -> None:
    """It was left out as if it mattered only to a cluster; rounded up to a MiB."""
    limits = f"resources: {{limits: {{memory: '{memory}', cpu: 1}}, requests: {{cpu: 1}}}}"
    assert job_of(manifest(container=limits)).definition.max_memory == mib
    assert "it is no amount" in faults_of(manifest(container="resources: {limits: {memory: lots}}"))[0]


def test_hardening_is_told_and_does_not_stop_a_job() -> None:
    """Rights that a pod gives away are as the sandbox of a unit of systemd: the command has them here."""
    hard = "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: true}"
    told = job_of(manifest(container=hard, pod="securityContext: {seccompProfile: {type: RuntimeDefault}}")).warnings
    assert "securityContext.capabilities, " in told[-1]
    assert "securityContext.seccompProfile" in told[-1]


def test_a_job_with_several_faults_is_one_entry() -> None:
    """The count of what was read and refused is one of jobs; each fault is told."""
    found = read(manifest(pod="volumes: [{name: v}]\naffinity: {a: b}"))
    assert [type(each) for each in found] == [Refused, Unread]
    assert "its args are for the program of the image" in faults_of(manifest(pod="containers: [{args: [a]}]"))[0]


def test_a_template_of_helm_is_answered_with_its_command() -> None:
    """It is no YAML yet."""
    assert "`helm template`" in faults_of("{{- if .Values.on }}\nkind: CronJob\n{{- end }}\n")[0]
