"""Kala's API, row by row of its contract: its own examples, every route, and every oddity that programs may rely on."""

import re
from typing import Any

import pytest
from msgspec import json

from tests.contract.foreign.conftest import JSON, RUN, Server
from tokimori.clock import format_moment, parse_moment
from tokimori.kala import GenericError, JobCreationError, JobNotFound

ZERO = "0001-01-01T00:00:00Z"
SCHEDULE = "R2/2030-06-04T19:25:16.828696-07:00/PT10S"
COMMAND = "bash /home/ajvb/gocode/src/github.com/ajvb/kala/examples/example-kala-commands/example-command.sh"
EXAMPLE = {"epsilon": "PT5S", "command": COMMAND, "name": "test_job", "schedule": SCHEDULE}
"""The example of Kala's README, in a year that is to come."""
NOW = {"name": "now", "command": "true"}


def test_the_examples_of_the_readme(kala: Server) -> None:
    """Every line of the README is answered as there: no jobs, a new one, all, one, its start, its runs, the stats."""
    assert kala.ask("GET", "/api/v1/job/").body == b'{"jobs":{}}\n'
    created = kala.post("/api/v1/job/", EXAMPLE)
    job_id = created.json["id"]
    assert (created.status, created.headers["content-type"]) == (201, JSON)
    assert created.body == b'{"id":"%s"}\n' % job_id.encode()
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", job_id)
    expected = {
        "name": "test_job",
        "id": job_id,
        "command": COMMAND,
        "owner": "boss@example.com",
        "disabled": False,
        "dependent_jobs": None,
        "parent_jobs": None,
        "schedule": SCHEDULE,
        "retries": 0,
        "epsilon": "PT5S",
        "success_count": 0,
        "last_success": ZERO,
        "error_count": 0,
        "last_error": ZERO,
        "last_attempted_run": ZERO,
        "next_run_at": "2030-06-05T02:25:16.828696Z",
    }
    listed = kala.ask("GET", "/api/v1/job/").json["jobs"]
    assert list(listed) == [job_id]
    shown = kala.ask("GET", f"/api/v1/job/{job_id}").json["job"]
    assert shown == listed[job_id]
    assert {name: shown[name] for name in expected} == expected
    assert kala.ask("POST", f"/api/v1/job/start/{job_id}/").status == 204
    (stat,) = kala.ask("GET", f"/api/v1/job/stats/{job_id}/").json["job_stats"]
    old = {"JobId", "RanAt", "NumberOfRetries", "Success", "ExecutionDuration"}
    assert {name: stat[name] for name in old} == {
        "JobId": job_id,
        "RanAt": "2030-01-01T00:00:00Z",
        "NumberOfRetries": 0,
        "Success": True,
        "ExecutionDuration": RUN * 1_000_000_000,
    }
    assert (
        kala.ask("GET", "/api/v1/stats/").json["Stats"].items()
        >= {
            "ActiveJobs": 1,
            "DisabledJobs": 0,
            "Jobs": 1,
            "ErrorCount": 0,
            "SuccessCount": 1,
            "NextRunAt": "2030-06-05T02:25:16.828696Z",
            "LastAttemptedRun": "2030-01-01T00:00:00Z",
            "CreatedAt": "2030-01-01T00:00:02Z",
        }.items()
    )
    assert kala.ask("DELETE", f"/api/v1/job/{job_id}").status == 204
    assert kala.ask("GET", f"/api/v1/job/{job_id}").status == 404


def test_the_newest_shape(kala: Server) -> None:
    """What Kala of 2023 has beside it is there, too: `metadata`, `stats`, `is_done`, snake_case in all of them."""
    job_id = kala.client.create_job(NOW)
    kala.work()
    shown = kala.ask("GET", f"/api/v1/job/{job_id}/").json["job"]
    metadata = {
        "success_count": 1,
        "last_success": "2030-01-01T00:00:02Z",
        "error_count": 0,
        "last_error": ZERO,
        "last_attempted_run": "2030-01-01T00:00:00Z",
        "number_of_finished_runs": 1,
    }
    stat = {
        "job_id": job_id,
        "ran_at": "2030-01-01T00:00:00Z",
        "number_of_retries": 0,
        "success": True,
        "execution_duration": RUN * 1_000_000_000,
    }
    remote = dict.fromkeys(("url", "method", "body"), "") | {"headers": None, "timeout": 0}
    more: dict[str, Any] = {
        "metadata": metadata,
        "on_failure_job": "",
        "TemplateDelimiters": "",
        "resume_at_next_scheduled_time": False,
        "type": 0,
        "remote_properties": {**remote, "expected_response_codes": None},
        "is_done": True,
        "next_run_at": ZERO,
    }
    assert {name: shown[name] for name in more} == more
    assert shown["stats"][0].items() >= stat.items()
    assert {name: shown[name] for name in metadata if name in shown}.items() <= metadata.items()
    stats = kala.ask("GET", "/api/v1/stats/").json["Stats"]
    new = {"active_jobs": 1, "disabled_jobs": 0, "jobs": 1, "error_count": 0, "success_count": 1, "next_run_at": ZERO}
    assert {**new, "created": "2030-01-01T00:00:02Z"}.items() <= stats.items()


def test_every_route_with_and_without_a_slash(kala: Server) -> None:
    """Kala demands the slash at the end, and loses a body without it; here both forms are the same."""
    for slash in ("", "/"):
        job_id = kala.post(f"/api/v1/job{slash}", EXAMPLE).json["id"]
        assert kala.ask("GET", f"/api/v1/job{slash}").json["jobs"].keys() == {job_id}
        assert kala.ask("GET", f"/api/v1/job/{job_id}{slash}").status == 200
        assert kala.ask("GET", f"/api/v1/job/stats/{job_id}{slash}").json == {"job_stats": None}
        assert kala.ask("GET", f"/api/v1/stats{slash}").status == 200
        for word in ("start", "disable", "enable"):
            answer = kala.ask("POST", f"/api/v1/job/{word}/{job_id}{slash}")
            assert (answer.status, answer.body) == (204, b"")
        assert kala.ask("DELETE", f"/api/v1/job/{job_id}{slash}").status == 204
        assert kala.ask("DELETE", f"/api/v1/job/all{slash}").status == 204


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "job/"),
        ("HEAD", "job/"),
        ("OPTIONS", "job/"),
        ("DELETE", "job/"),
        ("POST", "stats/"),
        ("GET", "job/start/x/"),
        ("GET", "other/"),
        ("GET", ""),
    ],
)
@pytest.mark.parametrize("kala", ["memory"], indirect=True)
def test_what_there_is_not(kala: Server, method: str, path: str) -> None:
    """Another path, and another method too, is not found, in the words of Go."""
    answer = kala.ask(method, f"/api/v1/{path}", headers={"content-type": "application/json"})
    assert answer.status == 404
    assert method == "HEAD" or answer.body == b"404 page not found\n"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "job/{}/"),
        ("DELETE", "job/{}/"),
        ("GET", "job/stats/{}/"),
        ("POST", "job/start/{}/"),
        ("POST", "job/enable/{}/"),
        ("POST", "job/disable/{}/"),
    ],
)
@pytest.mark.parametrize("kala", ["memory"], indirect=True)
def test_unknown_jobs(kala: Server, method: str, path: str) -> None:
    """A job that there is not is 404, and so is what can be no id: `all` and `stats` are ids as others are."""
    for job_id in ("93b65499-b211-49ce-57e0-19e735cc5abd", "a b", "stats"):
        answer = kala.ask(method, "/api/v1/" + path.format(job_id))
        assert answer.status == 404
        assert job_id in answer.json["error"]
    assert kala.ask("GET", "/api/v1/job/all/").status == 404
    assert kala.ask("GET", "/api/v1/job/stats/").status == 404


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ({"command": "x"}, "name"),
        ({"name": "n"}, "command"),
        ({"name": "n", "command": ""}, "command"),
        ({**NOW, "schedule": "R2/2015-06-04T19:25:16/PT10S"}, "has passed"),
        ({**NOW, "schedule": "hello"}, "1 part instead of 3"),
        ({**NOW, "schedule": "2/2030-06-04T19:25:16/PT10S"}, "repeated"),
        ({**NOW, "schedule": SCHEDULE, "epsilon": "asdasd"}, "epsilon"),
        ({**NOW, "retries": -1}, "retries"),
        ({**NOW, "retries": "2"}, "retries"),
        ({**NOW, "disabled": 1}, "disabled"),
        ({**NOW, "parent_jobs": ["93b65499-b211-49ce-57e0-19e735cc5abd"]}, "93b65499"),
        ({**NOW, "on_failure_job": "nobody"}, "nobody"),
        ({**NOW, "command": "echo 'a"}, "quote"),
        ({**NOW, "type": 2}, "type"),
        ({"name": "n", "type": 1}, "remote_properties.url"),
        ({"name": "n", "type": 1, "remote_properties": {"url": "ftp://x"}}, "url"),
        ({**NOW, "TemplateDelimiters": "{{"}, "Job has invalid templating delimiters."),
        ({**NOW, "command": "echo {{.Metadata.SuccessCount}}", "TemplateDelimiters": "{{ }}"}, ".Metadata"),
        (None, "object"),
        ([], "object"),
    ],
)
@pytest.mark.parametrize("kala", ["memory"], indirect=True)
def test_bad_jobs(kala: Server, said: object, cause: str) -> None:
    """A job that can't be is 400, `error` says why, and no such job is left in the list."""
    answer = kala.post("/api/v1/job/", said)
    assert (answer.status, answer.headers["content-type"]) == (400, JSON)
    assert cause in answer.json["error"]
    assert kala.client.get_all_jobs() == {}


@pytest.mark.parametrize("body", [b"", b"{", b"asd", b'{"name": "\xff"}', b"[" * 100_000, b'{"name": ' + b"[" * 960])
@pytest.mark.parametrize("kala", ["memory"], indirect=True)
def test_bad_json(kala: Server, body: bytes) -> None:
    """What is no JSON is 400."""
    answer = kala.ask("POST", "/api/v1/job/", body, headers={"content-type": "application/json"})
    assert answer.status == 400
    assert answer.json["error"]


def test_members_are_read_as_go_reads_them(kala: Server) -> None:
    """Names have any case, unknown ones are passed by, a null says nothing, and what the server keeps is its own."""
    said = {"NAME": "n", "Command": "true x", "oWner": "ann", "retries": None, "colour": 7, "schedule": SCHEDULE}
    kept = {"id": "mine", "success_count": 9, "is_done": True, "dependent_jobs": ["x"], "stats": "?"}
    job_id = kala.client.create_job(said | kept)
    job = kala.client.get_job(job_id)
    assert (job.name, job.command, job.owner, job.retries) == ("n", "true x", "ann", 0)
    assert (job.id == "mine", job.success_count, job.is_done, job.dependent_jobs, job.stats) == (
        False,
        0,
        False,
        None,
        None,
    )


def test_children(kala: Server) -> None:
    """A child runs after its parent, chains to their end; both know each other; a failure stops the chain."""
    parent = kala.client.create_job({"name": "parent", "command": "true", "schedule": SCHEDULE})
    child = kala.client.create_job({"name": "child", "command": "false", "parent_jobs": [parent], "schedule": "R/x"})
    last = kala.client.create_job({"name": "last", "command": "true", "parent_jobs": [child]})
    kala.client.start_job(parent)
    assert kala.ran == ["parent", "child"]
    jobs = kala.client.get_all_jobs()
    assert (jobs[parent].dependent_jobs, jobs[child].parent_jobs, jobs[child].schedule) == ((child,), (parent,), "R/x")
    assert (jobs[child].error_count, jobs[child].next_run_at, jobs[last].stats) == (1, ZERO, None)
    assert jobs[child] == kala.client.get_job(child)
    kala.client.delete_job(parent)
    assert kala.client.get_all_jobs() == {}


def test_children_of_one_job_run_first_in_first_out(kala: Server) -> None:
    """One at a time, in the order in which they were added, a failure among them; so they are shown, everywhere."""
    parent = kala.client.create_job({"name": "parent", "command": "true", "schedule": SCHEDULE})
    children = []
    for number in range(6):
        kala.pass_seconds(1)
        command = "false" if number == 2 else "true"
        children.append(kala.client.create_job({"name": f"c{number}", "command": command, "parent_jobs": [parent]}))
    assert kala.client.get_job(parent).dependent_jobs == tuple(children)
    assert kala.client.get_all_jobs()[parent].dependent_jobs == tuple(children)
    kala.client.start_job(parent)
    assert kala.ran == ["parent", "c0", "c1", "c2", "c3", "c4", "c5"]
    assert [kala.client.get_job(child).is_done for child in children] == [True] * 6
    kala.post(f"/api/v2/jobs/{parent}/trigger", {}, {"content-type": JSON})
    (run,) = kala.claimed()
    kala.pass_seconds(1)
    kala.end(run)
    (run,) = kala.claimed()
    assert (run.run.job_id, kala.claimed()) == (children[0], [])


def test_a_start_waits_for_all_that_runs_after_it(kala: Server) -> None:
    """When 204 comes, the whole tree has run: children, theirs, and the job that runs after a failure."""
    mop = kala.client.create_job({"name": "mop", "command": "true", "schedule": SCHEDULE})
    top = kala.client.create_job({"name": "top", "command": "true", "schedule": SCHEDULE})
    middle = kala.client.create_job({"name": "middle", "command": "true", "parent_jobs": [top]})
    kala.client.create_job({"name": "low", "command": "false", "parent_jobs": [middle], "on_failure_job": mop})
    kala.pause, kala.at_once = 0.5, 1  # whoever waits looks before the next run has been done
    kala.client.start_job(top)
    assert kala.ran == ["top", "middle", "low", "mop"]


def test_retries(kala: Server) -> None:
    """More attempts follow at once, as many as `retries`; each failed one is an error, the run is one stat."""
    job_id = kala.client.create_job({"name": "n", "command": "false", "retries": 2})
    kala.work()
    job = kala.client.get_job(job_id)
    assert kala.ran == ["n"] * 3
    assert (job.error_count, job.success_count, job.retries, job.is_done) == (3, 0, 2, True)
    assert job.last_error == format_moment(kala.clock.moment)
    (stat,) = kala.client.get_job_stats(job_id)
    assert (stat.success, stat.number_of_retries, stat.execution_duration) == (False, 2, 3 * RUN * 1_000_000_000)


def test_an_epsilon_ends_retrying(kala: Server) -> None:
    """A job that fails is not tried again after its epsilon."""
    start = kala.in_(10)
    job_id = kala.client.create_job(
        {"name": "n", "command": "false", "retries": 200, "epsilon": "PT5S", "schedule": f"R0/{start}/"}
    )
    kala.pass_seconds(10)
    kala.work()
    (stat,) = kala.client.get_job_stats(job_id)
    assert stat.number_of_retries == 2


def test_counts_and_the_last_run_as_anchor(kala: Server) -> None:
    """`R2` runs three times, each an interval after the last one ran, not on the grid; then it is done."""
    job_id = kala.client.create_job({"name": "n", "command": "true", "schedule": f"R2/{kala.in_(10)}/PT10S"})
    kala.pass_seconds(13)
    began = []
    for _ in range(4):
        kala.work()
        job = kala.client.get_job(job_id)
        began.append(job.last_attempted_run[17:19])
        if job.is_done:
            break
        kala.clock.moment = parse_moment(job.next_run_at)
    assert began == ["13", "23", "33"]
    assert (job.success_count, job.next_run_at, job.is_done) == (3, ZERO, True)


def test_one_run_is_missed_at_most(kala: Server) -> None:
    """What was missed is made up for by one run at once; a job that resumes at its next time keeps to its grid."""
    schedule = f"R/{kala.in_(30)}/PT30S"
    job = {"command": "true", "schedule": schedule}
    kala.client.create_job({"name": "n", **job})
    resuming = kala.client.create_job({"name": "r", **job, "resume_at_next_scheduled_time": True})
    kala.pass_seconds(135)
    kala.work()
    assert kala.ran == ["n"]
    shown = kala.client.get_job(resuming)
    assert (shown.next_run_at, shown.resume_at_next_scheduled_time) == ("2030-01-01T00:02:30Z", True)


def test_no_overlap(kala: Server) -> None:
    """A run that takes longer than the interval is followed by the next one when it has ended, and by no more."""
    job_id = kala.client.create_job({"name": "n", "command": "true", "schedule": f"R/{kala.in_(1)}/PT1S"})
    kala.pass_seconds(1)
    for _ in range(3):
        kala.work()
    stats = kala.client.get_job_stats(job_id)
    ends = [parse_moment(stat.ran_at) + stat.execution_duration // 1000 for stat in stats]
    assert len(stats) > 2
    assert all(parse_moment(after.ran_at) >= end for after, end in zip(stats[1:], ends, strict=False))


def test_a_program_that_is_not_there_is_a_failed_run(kala: Server) -> None:
    """It has a stat, and an error with its time, though nothing of it ever ran."""
    for retries in (0, 2):
        job_id = kala.client.create_job({"name": "n", "command": "missing", "retries": retries})
        kala.work()
        (stat,) = kala.client.get_job_stats(job_id)
        assert (stat.success, stat.number_of_retries) == (False, retries)
        job = kala.client.get_job(job_id)
        assert (job.error_count, job.is_done, job.last_error) == (retries + 1, True, job.last_error)
        assert ZERO not in (job.last_error, job.last_attempted_run, stat.ran_at)


@pytest.mark.parametrize(("repeats", "done"), [("R0", True), ("R1", False), ("R", False)])
def test_a_job_whose_time_has_passed_runs_when_it_is_enabled(kala: Server, repeats: str, done: bool) -> None:
    """It runs at once, and that counts; one that resumes at its next time keeps to its grid."""
    said = {"command": "true", "schedule": f"{repeats}/{kala.in_(10)}/PT10S"}
    job_id = kala.client.create_job({"name": "n", **said})
    grid = kala.client.create_job({"name": "g", **said, "resume_at_next_scheduled_time": True})
    for each in (job_id, grid):
        kala.client.disable_job(each)
    kala.pass_seconds(135)
    for each in (job_id, grid):
        kala.client.enable_job(each)
    kala.work()
    assert kala.ran == ["n"]
    assert kala.client.get_job(job_id).is_done is done
    for _ in range(3):
        kala.pass_seconds(10)
        kala.work()
    assert kala.ran.count("n") == {"R0": 1, "R1": 2, "R": 4}[repeats]


def test_disabled(kala: Server) -> None:
    """A disabled job does not run, at its creation, by its schedule, or started; enabled it runs once, at once."""
    job_id = kala.client.create_job({"name": "n", "command": "true", "schedule": f"R/{kala.in_(10)}/PT10S"})
    kala.client.create_job({**NOW, "disabled": True})
    kala.client.disable_job(job_id)
    kala.pass_seconds(15)
    kala.work()
    kala.client.start_job(job_id)
    assert kala.ran == []
    assert kala.client.get_job(job_id).disabled
    assert kala.client.get_kala_stats().disabled_jobs == 2
    kala.client.enable_job(job_id)
    job = kala.client.get_job(job_id)
    assert (job.disabled, job.next_run_at) == (False, "2030-01-01T00:00:15Z")
    kala.work()
    assert (kala.ran, kala.client.get_job(job_id).next_run_at) == (["n"], "2030-01-01T00:00:25Z")


def test_a_remote_job(kala: Server) -> None:
    """A job of type 1 is a request of ours, with Kala's defaults; its answer shows what was typed."""
    remote = {"url": "https://example.com/a", "method": "post", "headers": {"X-A": ["1", "2"]}, "body": '{"a": 1}'}
    job_id = kala.client.create_job({"name": "n", "type": 1, "remote_properties": remote, "schedule": SCHEDULE})
    shown = kala.ask("GET", f"/api/v1/job/{job_id}/").json["job"]
    assert (shown["type"], shown["command"]) == (1, "")
    assert shown["remote_properties"] == {**remote, "timeout": 0, "expected_response_codes": None}
    ours = kala.ask("GET", f"/api/v2/jobs/{job_id}").json
    assert (ours["url"], ours["method"], ours["body"], ours["timeout"]) == (remote["url"], "POST", '{"a": 1}', 30)
    assert (ours["headers"], ours["expect"]) == ({"X-A": "1, 2", "Content-Type": "application/json"}, [200])


def test_templates(kala: Server) -> None:
    """Between its delimiters a command names members of its job; it is shown as it was typed."""
    said = {
        "name": "n",
        "owner": "ann",
        "command": "echo <% .Name %>-<%.Owner%>-<%$.Name%>-<% $.Retries %> <%- .Name -%> {{.Name}}",
        "schedule": SCHEDULE,
    }
    job_id = kala.client.create_job({**said, "TemplateDelimiters": "<% %>"})
    assert kala.ask("GET", f"/api/v2/jobs/{job_id}").json["command"] == ["echo", "n-ann-n-0n{{.Name}}"]
    assert kala.client.get_job(job_id).command == said["command"]


def test_jobs_that_were_added_elsewhere(kala: Server) -> None:
    """They are shown, in our notation; an edit elsewhere is shown as it is; `all` deletes only what was added here."""
    kala.ask(
        "POST",
        "/api/v2/jobs",
        b'{"id":"ours","command":"make x","schedule":"0 9 * * *"}',
        headers={"content-type": JSON},
    )
    job_id = kala.client.create_job(EXAMPLE)
    patch = b'{"command":["echo","a b"],"retry":{"epsilon":7}}'
    assert kala.ask("PATCH", f"/api/v2/jobs/{job_id}", patch, headers={"content-type": JSON}).status == 200
    jobs = kala.client.get_all_jobs()
    assert (jobs["ours"].name, jobs["ours"].command, jobs["ours"].schedule) == ("ours", "make x", "0 9 * * *")
    assert (jobs[job_id].command, jobs[job_id].schedule, jobs[job_id].epsilon) == ("echo 'a b'", SCHEDULE, "PT7S")
    kala.client.delete_all_jobs()
    assert kala.client.get_all_jobs().keys() == {"ours"}


def test_the_errors_of_the_client(kala: Server) -> None:
    """There are three: no such job, no such job to be, and all else."""
    for ask in (kala.client.get_job, kala.client.delete_job, kala.client.get_job_stats, kala.client.start_job):
        with pytest.raises(JobNotFound, match="nobody"):
            ask("nobody")
    with pytest.raises(JobCreationError, match="has passed"):
        kala.client.create_job({**NOW, "schedule": "R2/2015-06-04T19:25:16/PT10S"})
    kala.client._send = lambda *_: (500, b"oh")
    with pytest.raises(GenericError, match="oh"):
        kala.client.get_kala_stats()


@pytest.mark.parametrize("kala", ["memory"], indirect=True)
def test_its_page_is_ours(kala: Server) -> None:
    """`/webui/` leads to our page."""
    for path in ("/webui", "/webui/"):
        answer = kala.ask("GET", path)
        assert (answer.status, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize("kala", ["memory"], indirect=True)
def test_nobody_gets_in_without_the_secret(kala: Server) -> None:
    """Kala's API is behind the same guards as ours: the secret, and no page of another site."""
    for path in ("/api/v1/job/", "/api/v1/job", "/api/v1/stats/", "/webui/"):
        assert kala.ask("GET", path, bare=True).status == 401
    assert kala.ask("POST", "/api/v1/job/", json.encode(NOW), bare=True).status == 401
    assert kala.post("/api/v1/job/", NOW, headers={"origin": "http://evil.example"}).status == 403
    assert kala.post("/api/v1/job/", NOW, headers={"content-type": "text/plain"}).status == 415
    assert kala.client.get_all_jobs() == {}
